"""A death of the supervisor is a death of its agents: the restart policy says what comes of it."""

import pytest

from actors.testing import settle
from supervisor import Restart
from tests.support.fake_agents import FakeAgent, records
from tests.support.killed_program import Program, make_busy
from tests.support.session_states import NEVER, phase_of


async def test_a_running_session_that_is_never_restarted_has_crashed(
    program: Program, fake_agent: FakeAgent
) -> None:
    async with program.running() as sup:
        session = await make_busy(sup, fake_agent, NEVER)

    async with program.running() as sup:
        info = await sup.session(session.id).info()
        assert (info.phase, info.stop_reason, info.badge) == ("stopped", "agent_crashed", "failed")
        assert info.last_failure is not None
        assert info.last_failure.kind == "process_exit"


@pytest.mark.parametrize("policy", ["on_crash", "always"])
async def test_a_running_session_that_is_restarted_is_idle_again(
    program: Program, fake_agent: FakeAgent, policy: str
) -> None:
    async with program.running() as sup:
        session = await make_busy(sup, fake_agent, Restart(policy=policy))  # type: ignore[arg-type]

    async with program.running() as sup:
        await settle()
        info = await sup.session(session.id).info()
        assert (info.phase, info.restarts) == ("idle", 1)
        assert info.last_failure is not None


async def test_recovering_a_suspended_session_counts_no_restart(program: Program) -> None:
    async with program.running() as sup:
        session = await sup.create("fake")

    async with program.running() as sup:
        assert (await sup.session(session.id).info()).restarts == 0


async def test_deaths_of_the_supervisor_count_against_max_restarts(
    program: Program, fake_agent: FakeAgent
) -> None:
    async with program.running() as sup:
        session = await make_busy(sup, fake_agent, Restart(max_restarts=2, within_seconds=1_000.0))
    for _ in range(2):
        async with program.running() as sup:
            await settle()
            assert await phase_of(sup.session(session.id)) == "idle"
            await sup.session(session.id).send("again")
            await fake_agent.next_run()

    async with program.running() as sup:
        info = await sup.session(session.id).info()
        assert (info.phase, info.stop_reason, info.restarts) == ("stopped", "agent_crashed", 2)


async def test_deaths_that_are_long_ago_do_not_count(
    program: Program, fake_agent: FakeAgent
) -> None:
    async with program.running() as sup:
        session = await make_busy(sup, fake_agent, Restart(max_restarts=1, within_seconds=60.0))

    for _ in range(3):
        async with program.running(downtime_seconds=1_000.0) as sup:
            await settle()
            assert await phase_of(sup.session(session.id)) == "idle"
            await sup.session(session.id).send("again")
            await fake_agent.next_run()


async def test_a_kill_in_mid_restart_is_not_counted_twice(
    program: Program, fake_agent: FakeAgent
) -> None:
    async with program.running() as sup:
        session = await make_busy(sup, fake_agent, Restart(max_restarts=1, within_seconds=1_000.0))
    async with program.running(agents=[]) as sup:  # its agent is unknown, so it cannot start
        restarting = await records(sup.session(session.id), "agent_restarting")

    async with program.running() as sup:
        assert await records(sup.session(session.id), "agent_restarting") == restarting


async def test_a_restarted_session_runs_its_queue_and_repeats_no_turn(
    program: Program, fake_agent: FakeAgent
) -> None:
    async with program.running() as sup:
        session = await make_busy(sup, fake_agent, Restart())
        await session.send("second")

    async with program.running() as sup:
        run = await fake_agent.next_run()
        assert run.turn.text == "second"
    async with program.running() as sup:
        assert await fake_agent.finish_all() == []
        ended = await records(sup.session(session.id), "turn_ended")
        assert [one.body["outcome"] for one in ended] == ["lost", "lost"]
