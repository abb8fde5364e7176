"""Deadlines that passed during downtime are applied first in recovery."""

import trio

from actors.testing import settle
from supervisor import Restart
from supervisor.sessions.store_health import NOTE_SECONDS
from tests.support.fake_agents import FakeAgent, outcomes, records
from tests.support.killed_program import Program
from tests.support.session_states import NEVER, phase_of
from tests.support.tree_queries import ends


async def test_a_child_that_expired_while_closed_stops_with_that_reason(
    program: Program, child_agent: FakeAgent
) -> None:
    async with program.running() as sup:
        parent = await sup.create("fake")
        child = await parent.spawn("child-agent", "errand", ttl_seconds=60.0)
        await child_agent.next_run()

    async with program.running(downtime_seconds=100.0) as sup:
        info = await sup.session(child.id).info()
        assert (info.phase, info.stop_reason) == ("stopped", "ttl_expired")
        [ended] = await records(sup.session(child.id), "turn_ended")
        assert ended.body["outcome"] != "completed"


async def test_an_expiry_comes_before_a_restart(program: Program, child_agent: FakeAgent) -> None:
    async with program.running() as sup:
        parent = await sup.create("fake")
        again = Restart(policy="always")
        child = await parent.spawn("child-agent", "errand", ttl_seconds=60.0, restart=again)
        await child_agent.next_run()

    async with program.running(downtime_seconds=100.0) as sup:
        await settle()
        assert await records(sup.session(child.id), "agent_restarting") == []
        [ended] = await ends(sup.session(parent.id))
        assert ended.body["reason"] == "ttl_expired"


async def test_a_turn_open_at_expiry_during_downtime_has_its_running_time(
    program: Program, child_agent: FakeAgent
) -> None:
    async with program.running() as sup:
        parent = await sup.create("fake")
        child = await parent.spawn("child-agent", "errand", ttl_seconds=60.0)
        await child_agent.next_run()

    async with program.running(downtime_seconds=5_000.0) as sup:
        [ended] = await records(sup.session(child.id), "turn_ended")
        assert ended.body["seconds"] < 60.0


async def test_a_child_not_yet_expired_at_start_expires_later(
    program: Program, child_agent: FakeAgent
) -> None:
    async with program.running() as sup:
        parent = await sup.create("fake")
        child = await parent.spawn("child-agent", "errand", ttl_seconds=60.0)
        (await child_agent.next_run()).finish()
        await settle()

    async with program.running(downtime_seconds=30.0) as sup:
        again = sup.session(child.id)
        assert await phase_of(again) == "suspended"
        await again.wait_stopped()
        assert (await again.info()).stop_reason == "ttl_expired"


async def test_an_input_that_expired_while_closed_never_runs(
    program: Program, fake_agent: FakeAgent
) -> None:
    async with program.running() as sup:
        session = await sup.create("fake")
        await session.send("first")
        await fake_agent.next_run()
        late = await session.send("late", ttl_seconds=60.0)
        early = await session.send("early")

    async with program.running(downtime_seconds=100.0) as sup:
        assert await fake_agent.finish_all() == ["early"]
        found = await outcomes(sup.session(session.id))
        assert found[late.input_id] == ["expired"]
        assert found[early.input_id] == ["delivered"]


async def test_an_input_that_is_held_expires_in_time_after_a_restart(
    program: Program, fake_agent: FakeAgent
) -> None:
    async with program.running() as sup:
        session = await sup.create("fake", restart=NEVER)
        await session.send("first")
        await fake_agent.next_run()
        late = await session.send("late", ttl_seconds=60.0)

    async with program.running(downtime_seconds=100.0) as sup:
        await settle()
        assert (await outcomes(sup.session(session.id)))[late.input_id] == ["expired"]
        assert await phase_of(sup.session(session.id)) == "stopped"


async def test_a_clock_set_back_expires_a_session_neither_early_nor_never(
    program: Program, child_agent: FakeAgent
) -> None:
    async with program.running() as sup:
        parent = await sup.create("fake")
        child = await parent.spawn("child-agent", "errand", ttl_seconds=60.0)
        (await child_agent.next_run()).finish()
        await settle()

    async with program.running(downtime_seconds=-10_000.0) as sup:
        assert await phase_of(sup.session(child.id)) == "suspended"
        with trio.fail_after(60.0 + NOTE_SECONDS):
            await sup.session(child.id).wait_stopped()
