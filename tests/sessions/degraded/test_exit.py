"""Leaving while the store is degraded is bounded, and says what was lost."""

from __future__ import annotations

import pytest
import trio

import supervisor
from actors.testing import settle
from supervisor import Settings, Supervisor
from tests.support.fake_agents import FakeAgent, records
from tests.support.fake_store import FailingStore, check_stored, degrade

# `exit_seconds`, and what the exit may take after them.
BOUND_SECONDS = 10.0 + 5.0


async def leave_ill(
    store: FailingStore, fake_agent: FakeAgent, *, well_after_seconds: float | None = None
) -> tuple[Supervisor, float]:
    """Leave with a turn that was interrupted while the store was ill; gives how long that took."""
    async with trio.open_nursery() as nursery:
        async with supervisor.open(agents=[fake_agent.agent], settings=Settings()) as sup:
            session = await sup.create("fake")
            await session.send("first")
            await fake_agent.next_run()
            await degrade(store, sup)
            await session.interrupt()
            if well_after_seconds is not None:
                nursery.start_soon(_recover, store, well_after_seconds)
            began = trio.current_time()
        return sup, trio.current_time() - began


async def _recover(store: FailingStore, after_seconds: float) -> None:
    await trio.sleep(after_seconds)
    store.is_failing = False


async def test_leaving_is_bounded(store: FailingStore, fake_agent: FakeAgent) -> None:
    _, seconds = await leave_ill(store, fake_agent)

    assert seconds <= BOUND_SECONDS


@pytest.mark.parametrize("sessions", [1, 20])
@pytest.mark.parametrize("seconds", [0.0, 3600.0], ids=["refuses", "hangs"])
@pytest.mark.parametrize("text", [None, "first"], ids=["idle", "busy"])
async def test_draining_and_leaving_have_one_bound_whatever_the_store_does(
    store: FailingStore, fake_agent: FakeAgent, text: str | None, seconds: float, sessions: int
) -> None:
    async with supervisor.open(agents=[fake_agent.agent]) as sup:
        for _ in range(sessions):
            session = await sup.create("fake")
            if text is not None:
                await session.send(text)
                await fake_agent.next_run()
        store.fails_after_seconds = seconds
        store.start_failing()
        began = trio.current_time()
        await sup.drain()

    assert trio.current_time() - began <= BOUND_SECONDS


async def test_leaving_while_degraded_reports_lost_steps(
    store: FailingStore, fake_agent: FakeAgent, caplog: pytest.LogCaptureFixture
) -> None:
    await leave_ill(store, fake_agent)

    said = [
        one.getMessage()
        for one in caplog.records
        if one.name == "supervisor" and "cannot be used" not in one.getMessage()
    ]
    assert any("abandoned" in line and "pending writes" in line for line in said), said


async def test_a_store_that_recovers_during_the_exit_loses_nothing(
    store: FailingStore, fake_agent: FakeAgent
) -> None:
    sup, seconds = await leave_ill(store, fake_agent, well_after_seconds=3.0)

    assert seconds <= BOUND_SECONDS
    (stored,) = [one async for one in store.rows()]
    assert stored.row.phase == "suspended"
    await check_stored(store, sup.session(stored.row.id))


async def test_a_running_turn_is_interrupted_at_the_exit(
    store: FailingStore, fake_agent: FakeAgent
) -> None:
    async with supervisor.open(agents=[fake_agent.agent]) as sup:
        session = await sup.create("fake")
        await session.send("first")
        run = await fake_agent.next_run()
        await degrade(store, sup)
        began = trio.current_time()

    assert run.over.is_set()
    assert trio.current_time() - began <= BOUND_SECONDS


async def test_a_raising_block_exits_without_waiting_for_the_store(
    store: FailingStore, fake_agent: FakeAgent
) -> None:
    async def raise_inside() -> None:
        async with supervisor.open(agents=[fake_agent.agent]) as sup:
            session = await sup.create("fake")
            await session.send("first")
            await fake_agent.next_run()
            await degrade(store, sup)
            raise ZeroDivisionError

    began = trio.current_time()
    with pytest.raises(ZeroDivisionError):
        await raise_inside()

    assert trio.current_time() - began <= BOUND_SECONDS


async def test_a_pending_acknowledgement_fails_when_the_supervisor_leaves(
    store: FailingStore, fake_agent: FakeAgent
) -> None:
    told: list[BaseException] = []
    async with trio.open_nursery() as outside:
        async with supervisor.open(agents=[fake_agent.agent]) as sup:
            session = await sup.create("fake")
            await session.send("first")
            await fake_agent.next_run()

            async def send() -> None:
                try:
                    await session.send("second")
                except supervisor.SupervisorError as error:
                    told.append(error)

            store.start_failing()
            outside.start_soon(send)
            await settle()
        with trio.fail_after(1):
            await settle()

    assert [bool(getattr(error, "hint", "")) for error in told] == [True]


async def test_draining_is_bounded_while_degraded(
    store: FailingStore, fake_agent: FakeAgent
) -> None:
    async with supervisor.open(agents=[fake_agent.agent]) as sup:
        session = await sup.create("fake")
        await session.send("first")
        await fake_agent.next_run()
        await degrade(store, sup)

        with trio.fail_after(BOUND_SECONDS):
            await sup.drain()

        await store.recover()


async def test_the_next_supervisor_recovers_turns_lost_on_leaving(
    store: FailingStore, fake_agent: FakeAgent
) -> None:
    await leave_ill(store, fake_agent)
    store.is_failing = False

    async with supervisor.open(agents=[fake_agent.agent]) as again:
        (info,) = (await again.list()).items
        session = again.session(info.id)
        await trio.sleep(5)  # it is started again, as after any other death
        outcome = (await records(session, "turn_ended"))[-1].body["outcome"]
        assert (outcome, (await session.info()).phase) == ("lost", "idle")
        await check_stored(store, session)
