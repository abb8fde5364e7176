"""`wait_idle`: a wait for the end of all turns and inputs of a session."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest
import trio

import supervisor
from actors.testing import settle
from supervisor import Info, Phase, Restart, Session, SessionNotFound, Settings, Supervisor
from supervisor.core.info import is_idle
from tests.support.fake_agents import AgentRun, FakeAgent


class IdleWait:
    """A task in `wait_idle`, and what it returned."""

    def __init__(self, session: Session, nursery: trio.Nursery) -> None:
        self.info: Info | None = None
        nursery.start_soon(self._run, session)

    async def _run(self, session: Session) -> None:
        self.info = await session.wait_idle()


async def test_an_idle_session_is_returned_at_once(session: Session) -> None:
    began = trio.current_time()

    info = await session.wait_idle()

    assert info == await session.info()
    assert trio.current_time() == began


async def test_the_wait_goes_on_until_the_last_queued_input_has_run(
    session: Session, run: AgentRun, fake_agent: FakeAgent, nursery: trio.Nursery
) -> None:
    await session.send("second")
    wait = IdleWait(session, nursery)
    run.finish()
    second = await fake_agent.next_run()
    await settle()
    assert wait.info is None

    second.finish()
    await settle()

    assert wait.info is not None
    assert (wait.info.phase, wait.info.queued, wait.info.turns) == (Phase.IDLE, 0, 2)


@pytest.mark.parametrize(
    "end",
    [Session.interrupt, Session.stop],
    ids=["interrupt", "stop"],
)
async def test_an_interrupt_and_a_stop_end_the_wait(
    session: Session,
    run: AgentRun,
    nursery: trio.Nursery,
    end: Callable[[Session], Awaitable[object]],
) -> None:
    wait = IdleWait(session, nursery)
    await settle()

    await end(session)
    await settle()

    assert wait.info is not None
    assert wait.info.turn_id is None


async def test_a_stopped_session_that_holds_an_input_is_idle(sup: Supervisor) -> None:
    session = await sup.create("scripted", restart=Restart(max_restarts=0))
    await session.send("crash")
    await session.send("say held")

    info = await session.wait_idle()

    assert (info.phase, info.queued) == (Phase.STOPPED, 1)


async def test_a_suspended_session_is_idle(sup: Supervisor) -> None:
    session = await sup.create("echo", suspend_after_seconds=1.0)
    await trio.sleep(60)

    assert (await session.wait_idle()).phase is Phase.SUSPENDED


async def test_an_input_that_waits_for_a_turn_slot_is_waited_for() -> None:
    slow = FakeAgent("slow")
    settings = Settings(max_running_turns=1)
    async with (
        supervisor.open(":memory:", agents=[slow.agent], settings=settings) as sup,
        trio.open_nursery() as nursery,
    ):
        first, second = await sup.create("slow"), await sup.create("slow")
        await first.send("runs")
        run = await slow.next_run()
        queued = await second.send("waits")
        wait = IdleWait(second, nursery)
        await settle()
        assert wait.info is None

        await second.cancel_input(queued.input_id)
        await settle()

        assert wait.info is not None
        run.finish()


async def test_a_deleted_session_ends_the_wait_with_an_error(
    sup: Supervisor, session: Session
) -> None:
    await session.stop()
    await sup.delete(session.id)

    with pytest.raises(SessionNotFound):
        await session.wait_idle()


@pytest.mark.parametrize("phase", Phase)
def test_only_sessions_that_do_nothing_by_themselves_are_idle(phase: Phase) -> None:
    assert is_idle(phase, queued=0) == (phase in (Phase.IDLE, Phase.SUSPENDED, Phase.STOPPED))
    assert is_idle(phase, queued=1) == (phase is Phase.STOPPED)
