"""Process-wide caps on sessions and running turns, and the fair queue for turns."""

from __future__ import annotations

from functools import partial

import pytest
import trio

from actors.testing import settle
from supervisor import Settings, Supervisor
from supervisor.drivers.python import AgentDied
from tests.support.fake_agents import FakeAgent
from tests.support.session_states import phase_of
from tests.support.tree_queries import (
    WIDE,
    all_at_once,
    check_tree_counts,
    outcome_of,
    refusal,
    spawn_many,
)


class TestOfSessions:
    @pytest.fixture
    def settings(self) -> Settings:
        return Settings(max_sessions=4, limits=WIDE)

    async def test_roots_and_children_are_counted_together(self, sup: Supervisor) -> None:
        root = await sup.create("fake")
        results = outcome_of(
            await all_at_once(
                *[partial(sup.create, "fake")] * 20, *[partial(root.spawn, "child-agent", "x")] * 20
            )
        )

        assert results == {"Session": 3, "max_sessions": 37}
        await check_tree_counts(sup)

    async def test_the_refusal_has_used_and_allowed(self, sup: Supervisor) -> None:
        for _ in range(4):
            await sup.create("fake")
        refused = await refusal(sup.create("fake"))

        assert (refused.limit, refused.used, refused.allowed) == ("max_sessions", 4, 4)

    async def test_a_stopped_session_frees_a_slot_and_needs_one_to_resume(
        self, sup: Supervisor
    ) -> None:
        first = await sup.create("fake")
        for _ in range(3):
            await sup.create("fake")
        await first.stop()
        await sup.create("fake")

        assert (await refusal(first.resume())).limit == "max_sessions"
        assert (await refusal(first.send("x"))).limit == "max_sessions"
        await check_tree_counts(sup)

    async def test_a_session_is_replaced_by_another_though_all_places_are_taken(
        self, sup: Supervisor
    ) -> None:
        for number in range(4):
            await sup.get_or_create(f"fake:test:{number}")

        assert await phase_of(await sup.new("fake:test:0")) == "idle"


class TestOfTurns:
    @pytest.fixture
    def settings(self) -> Settings:
        return Settings(max_running_turns=2, limits=WIDE)

    async def test_at_most_max_running_turns_run(
        self, sup: Supervisor, fake_agent: FakeAgent
    ) -> None:
        sessions = [await sup.create("fake") for _ in range(30)]
        await all_at_once(*(partial(one.send, "x") for one in sessions))
        await settle()

        assert len(fake_agent.runs) == 2
        while (await sup.list(phase="running")).items:
            assert len((await sup.list(phase="running")).items) <= 2
            (await fake_agent.next_run()).finish()
            await settle()
        assert len(fake_agent.runs) == 30
        await check_tree_counts(sup)

    async def test_turns_start_in_the_order_of_their_requests(
        self, sup: Supervisor, fake_agent: FakeAgent
    ) -> None:
        for number in range(10):
            await (await sup.create("fake")).send(str(number))
        seen = []
        for _ in range(10):
            run = await fake_agent.next_run()
            seen.append(int(run.turn.text))
            run.finish()

        assert seen == list(range(10))

    async def test_a_session_that_finished_a_turn_queues_behind_waiting_sessions(
        self, sup: Supervisor, fake_agent: FakeAgent
    ) -> None:
        greedy, busy, modest = [await sup.create("fake") for _ in range(3)]
        await greedy.send("greedy 1")
        first = await fake_agent.next_run()
        await busy.send("busy")
        await fake_agent.next_run()
        await greedy.send("greedy 2")
        await modest.send("modest")
        first.finish()

        next_one = await fake_agent.next_run()
        assert next_one.turn.text == "modest"
        next_one.finish()
        assert (await fake_agent.next_run()).turn.text == "greedy 2"

    async def test_info_of_a_session_waiting_for_a_turn_slot(self, sup: Supervisor) -> None:
        for _ in range(2):
            await (await sup.create("fake")).send("x")
        waits = await sup.create("fake")
        await waits.send("x")

        assert (await waits.info()).waiting_for == "turn_slot"

    async def test_a_spawn_needs_a_free_turn(self, sup: Supervisor, fake_agent: FakeAgent) -> None:
        parent = await sup.create("fake")
        await parent.spawn("child-agent", "x")
        await parent.spawn("child-agent", "y")
        refused = await refusal(parent.spawn("child-agent", "z"))

        assert (refused.limit, refused.used, refused.allowed) == ("max_running_turns", 2, 2)

    async def test_hundreds_of_concurrent_spawns_never_exceed_max_running_turns(
        self, sup: Supervisor
    ) -> None:
        parent = await sup.create("fake")

        assert await spawn_many(parent, 200) == {"Session": 2, "max_running_turns": 198}
        await check_tree_counts(sup)

    async def test_a_session_stopped_while_waiting_for_a_turn_slot_is_skipped(
        self, sup: Supervisor, fake_agent: FakeAgent
    ) -> None:
        sessions = [await sup.create("fake") for _ in range(4)]
        for number, one in enumerate(sessions):
            await one.send(str(number))
        await sessions[2].stop()
        (await fake_agent.next_run()).finish()
        await fake_agent.next_run()

        assert (await fake_agent.next_run()).turn.text == "3"
        await check_tree_counts(sup)

    async def test_a_session_keeps_its_queue_position_during_a_commit(
        self, sup: Supervisor, fake_agent: FakeAgent
    ) -> None:
        for pauses in range(8):
            sessions = [await sup.create("fake") for _ in range(4)]
            for number, one in enumerate(sessions):
                await one.send(str(number))
            first, second = await fake_agent.next_run(), await fake_agent.next_run()
            first.finish()
            for _ in range(pauses):
                await trio.lowlevel.checkpoint()
            await sessions[2].send("more")
            run = await fake_agent.next_run()
            assert run.turn.text == "2", f"after {pauses} pauses"
            second.finish()
            run.finish()
            await fake_agent.finish_all()

    @pytest.mark.parametrize(
        "end", ["finish", "fail", "crash", "interrupt", "stop", "delete", "zombie"]
    )
    async def test_the_end_of_a_turn_starts_the_next_waiting_session(
        self, sup: Supervisor, fake_agent: FakeAgent, shielded_agent: FakeAgent, end: str
    ) -> None:
        first = await sup.create("shielded" if end == "zombie" else "fake")
        await first.send("first")
        run = await (shielded_agent if end == "zombie" else fake_agent).next_run()
        for text in ("second", "third", "fourth"):
            await (await sup.create("fake")).send(text)
        await fake_agent.next_run()
        match end:
            case "finish":
                run.finish()
            case "fail":
                run.fail(RuntimeError("on purpose"))
            case "crash":
                run.fail(AgentDied("on purpose"))
            case "interrupt" | "zombie":
                await first.interrupt()
            case "stop":
                await first.stop()
            case "delete":
                await sup.delete(first.id)

        assert (await fake_agent.next_run()).turn.text == "third"
        await check_tree_counts(sup)

    @pytest.mark.parametrize("away", ["cancel", "clear", "stop", "delete", "interrupt"])
    async def test_a_session_that_leaves_the_turn_queue_blocks_no_other(
        self, sup: Supervisor, fake_agent: FakeAgent, away: str
    ) -> None:
        sessions = [await sup.create("fake") for _ in range(4)]
        receipts = [await one.send(str(number)) for number, one in enumerate(sessions)]
        run = await fake_agent.next_run()
        await fake_agent.next_run()
        waits = sessions[2]
        match away:
            case "cancel":
                await waits.cancel_input(receipts[2].input_id)
            case "clear":
                await waits.clear()
            case "stop":
                await waits.stop()
            case "delete":
                await sup.delete(waits.id)
            case "interrupt":
                assert (await waits.interrupt()).matched == 0
        run.finish()

        assert (await fake_agent.next_run()).turn.text == ("2" if away == "interrupt" else "3")
        await check_tree_counts(sup)

    async def test_a_session_waiting_for_a_turn_slot_is_not_suspended(
        self, sup: Supervisor, fake_agent: FakeAgent
    ) -> None:
        sessions = [await sup.create("fake", suspend_after_seconds=10.0) for _ in range(3)]
        for number, one in enumerate(sessions):
            await one.send(str(number))
        run = await fake_agent.next_run()
        await fake_agent.next_run()
        await trio.sleep(100.0)
        run.finish()

        assert (await fake_agent.next_run()).turn.text == "2"
