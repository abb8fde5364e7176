"""Caps of the whole process: so many sessions, so many running turns, and a fair line for these."""

from __future__ import annotations

from functools import partial

import pytest
import trio

from actors.testing import settle
from supervisor import Settings, Supervisor
from supervisor.drivers.python import AgentDied
from tests.sessions.cast import Player
from tests.sessions.family.kin import (
    WIDE,
    all_at_once,
    outcome_of,
    refusal,
    refuse_false_books,
    spawn_many,
)
from tests.sessions.lives import phase_of


class TestOfSessions:
    @pytest.fixture
    def settings(self) -> Settings:
        return Settings(max_sessions=4, limits=WIDE)

    async def test_roots_and_children_are_counted_together(self, sup: Supervisor) -> None:
        root = await sup.create("player")
        results = outcome_of(
            await all_at_once(
                *[partial(sup.create, "player")] * 20, *[partial(root.spawn, "kid", "x")] * 20
            )
        )

        assert results == {"Session": 3, "max_sessions": 37}
        await refuse_false_books(sup)

    async def test_the_refusal_says_how_many_there_are(self, sup: Supervisor) -> None:
        for _ in range(4):
            await sup.create("player")
        refused = await refusal(sup.create("player"))

        assert (refused.limit, refused.used, refused.allowed) == ("max_sessions", 4, 4)

    async def test_a_stopped_session_makes_room_and_needs_it_to_return(
        self, sup: Supervisor
    ) -> None:
        first = await sup.create("player")
        for _ in range(3):
            await sup.create("player")
        await first.stop()
        await sup.create("player")

        assert (await refusal(first.resume())).limit == "max_sessions"
        assert (await refusal(first.send("x"))).limit == "max_sessions"
        await refuse_false_books(sup)

    async def test_a_session_is_replaced_by_another_though_all_places_are_taken(
        self, sup: Supervisor
    ) -> None:
        for number in range(4):
            await sup.get_or_create(f"player:test:{number}")

        assert await phase_of(await sup.new("player:test:0")) == "idle"


class TestOfTurns:
    @pytest.fixture
    def settings(self) -> Settings:
        return Settings(max_running_turns=2, limits=WIDE)

    async def test_no_more_turns_run_than_may(self, sup: Supervisor, player: Player) -> None:
        sessions = [await sup.create("player") for _ in range(30)]
        await all_at_once(*(partial(one.send, "x") for one in sessions))
        await settle()

        assert len(player.scenes) == 2
        while (await sup.list(phase="running")).items:
            assert len((await sup.list(phase="running")).items) <= 2
            (await player.next_scene()).finish()
            await settle()
        assert len(player.scenes) == 30
        await refuse_false_books(sup)

    async def test_turns_begin_in_the_order_in_which_they_were_asked_for(
        self, sup: Supervisor, player: Player
    ) -> None:
        for number in range(10):
            await (await sup.create("player")).send(str(number))
        seen = []
        for _ in range(10):
            scene = await player.next_scene()
            seen.append(int(scene.turn.text))
            scene.finish()

        assert seen == list(range(10))

    async def test_who_has_had_a_turn_goes_behind_those_who_wait(
        self, sup: Supervisor, player: Player
    ) -> None:
        greedy, busy, modest = [await sup.create("player") for _ in range(3)]
        await greedy.send("greedy 1")
        first = await player.next_scene()
        await busy.send("busy")
        await player.next_scene()
        await greedy.send("greedy 2")
        await modest.send("modest")
        first.finish()

        next_one = await player.next_scene()
        assert next_one.turn.text == "modest"
        next_one.finish()
        assert (await player.next_scene()).turn.text == "greedy 2"

    async def test_whoever_waits_for_a_turn_says_so(self, sup: Supervisor) -> None:
        for _ in range(2):
            await (await sup.create("player")).send("x")
        waits = await sup.create("player")
        await waits.send("x")

        assert (await waits.info()).waiting_for == "a free turn"

    async def test_a_spawn_needs_a_free_turn(self, sup: Supervisor, player: Player) -> None:
        parent = await sup.create("player")
        await parent.spawn("kid", "x")
        await parent.spawn("kid", "y")
        refused = await refusal(parent.spawn("kid", "z"))

        assert (refused.limit, refused.used, refused.allowed) == ("max_running_turns", 2, 2)

    async def test_hundreds_who_spawn_at_once_have_as_many_turns_as_there_are(
        self, sup: Supervisor
    ) -> None:
        parent = await sup.create("player")

        assert await spawn_many(parent, 200) == {"Session": 2, "max_running_turns": 198}
        await refuse_false_books(sup)

    async def test_who_stops_while_it_waits_is_not_waited_for(
        self, sup: Supervisor, player: Player
    ) -> None:
        sessions = [await sup.create("player") for _ in range(4)]
        for number, one in enumerate(sessions):
            await one.send(str(number))
        await sessions[2].stop()
        (await player.next_scene()).finish()
        await player.next_scene()

        assert (await player.next_scene()).turn.text == "3"
        await refuse_false_books(sup)

    async def test_whoever_waits_for_a_turn_keeps_its_place_while_it_writes(
        self, sup: Supervisor, player: Player
    ) -> None:
        for pauses in range(8):
            sessions = [await sup.create("player") for _ in range(4)]
            for number, one in enumerate(sessions):
                await one.send(str(number))
            first, second = await player.next_scene(), await player.next_scene()
            first.finish()
            for _ in range(pauses):
                await trio.lowlevel.checkpoint()
            await sessions[2].send("more")
            scene = await player.next_scene()
            assert scene.turn.text == "2", f"after {pauses} pauses"
            second.finish()
            scene.finish()
            await player.play_all()

    @pytest.mark.parametrize(
        "end", ["finish", "fail", "crash", "interrupt", "stop", "delete", "zombie"]
    )
    async def test_a_turn_that_is_over_lets_the_next_one_begin(
        self, sup: Supervisor, player: Player, deaf_player: Player, end: str
    ) -> None:
        first = await sup.create("deaf" if end == "zombie" else "player")
        await first.send("first")
        scene = await (deaf_player if end == "zombie" else player).next_scene()
        for text in ("second", "third", "fourth"):
            await (await sup.create("player")).send(text)
        await player.next_scene()
        match end:
            case "finish":
                scene.finish()
            case "fail":
                scene.fail(RuntimeError("on purpose"))
            case "crash":
                scene.fail(AgentDied("on purpose"))
            case "interrupt" | "zombie":
                await first.interrupt()
            case "stop":
                await first.stop()
            case "delete":
                await sup.delete(first.id)

        assert (await player.next_scene()).turn.text == "third"
        await refuse_false_books(sup)

    @pytest.mark.parametrize("away", ["cancel", "clear", "stop", "delete", "interrupt"])
    async def test_whoever_leaves_the_line_keeps_nobody_waiting(
        self, sup: Supervisor, player: Player, away: str
    ) -> None:
        sessions = [await sup.create("player") for _ in range(4)]
        receipts = [await one.send(str(number)) for number, one in enumerate(sessions)]
        scene = await player.next_scene()
        await player.next_scene()
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
        scene.finish()

        assert (await player.next_scene()).turn.text == ("2" if away == "interrupt" else "3")
        await refuse_false_books(sup)

    async def test_whoever_waits_for_a_turn_is_not_suspended_meanwhile(
        self, sup: Supervisor, player: Player
    ) -> None:
        sessions = [await sup.create("player", suspend_after_seconds=10.0) for _ in range(3)]
        for number, one in enumerate(sessions):
            await one.send(str(number))
        scene = await player.next_scene()
        await player.next_scene()
        await trio.sleep(100.0)
        scene.finish()

        assert (await player.next_scene()).turn.text == "2"
