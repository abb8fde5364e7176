"""Sessions that are stopping, and a supervisor that is closed."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import trio

import supervisor
from actors.testing import settle
from supervisor import (
    Phase,
    Session,
    SessionNotActive,
    Supervisor,
    SupervisorError,
    ToolCall,
)
from tests.support.fake_agents import AgentRun, waiting_texts
from tests.support.session_states import phase_of


@pytest.fixture
async def stopping(
    shielded_session: Session, shielded_run: AgentRun, nursery: trio.Nursery
) -> Session:
    """Return a session that stays stopping because its agent ignores the interrupt."""
    nursery.start_soon(shielded_session.stop)
    await settle()
    assert await phase_of(shielded_session) is Phase.STOPPING
    return shielded_session


async def test_a_session_that_stops_takes_no_replacement(
    stopping: Session, shielded_run: AgentRun
) -> None:
    with pytest.raises(SessionNotActive, match="stopping") as refused:
        await stopping.interrupt(replace_with="something else")

    assert refused.value.hint
    shielded_run.finish()
    await stopping.wait_stopped()
    assert await waiting_texts(stopping) == []


async def test_interrupting_a_call_of_a_stopping_session_waits_for_the_call(
    shielded_session: Session, shielded_run: AgentRun, nursery: trio.Nursery
) -> None:
    call = await shielded_run.open_call("bash")
    nursery.start_soon(shielded_session.stop)
    nursery.start_soon(end_later, shielded_run)
    await settle()

    report = await shielded_session.interrupt(ToolCall(call.id))

    assert (report.matched, report.stopped, report.seconds) == (1, 1, 2.0)


async def end_later(run: AgentRun) -> None:
    await trio.sleep(2.0)
    run.finish()


async def test_a_stop_is_not_refused_because_of_interrupts(
    sup: Supervisor,
    session: Session,
    run: AgentRun,
    nursery: trio.Nursery,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store, go_on = sup._services.store, trio.Event()
    commit = store.commit

    async def commit_late(writes: Any) -> Any:  # noqa: ANN401 - as the store's own
        await go_on.wait()
        return await commit(writes)

    monkeypatch.setattr(store, "commit", commit_late)
    refusals: list[SupervisorError] = []
    for _ in range(2):  # the second time there is room for only as many as were taken in hand
        for _ in range(1_100):
            nursery.start_soon(interrupt_or_keep_why_not, session, refusals)
        await settle()
    assert refusals, "there was room for all of them"
    nursery.start_soon(set_after, go_on, 1.0)

    await session.stop()

    assert await phase_of(session) is Phase.STOPPED


async def interrupt_or_keep_why_not(session: Session, refusals: list[SupervisorError]) -> None:
    try:
        await session.interrupt()
    except SupervisorError as refusal:
        refusals.append(refusal)


async def set_after(event: trio.Event, seconds: float) -> None:
    await trio.sleep(seconds)
    event.set()


# After close  --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "do",
    [
        lambda sup: sup.list(),
        lambda sup: sup.drain(),
        lambda sup: sup.reset("echo:here:me"),
    ],
    ids=["list", "drain", "reset"],
)
async def test_a_closed_supervisor_raises(
    do: Callable[[Supervisor], Awaitable[object]],
) -> None:
    async with supervisor.open() as sup:
        await sup.create("echo", key="echo:here:me")

    with pytest.raises(SessionNotActive, match="is closed"):
        await do(sup)
