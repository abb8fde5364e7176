"""Ends that once hung, lied or left something behind: starting, stopping, leaving, deleting."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import trio

import supervisor
from actors.testing import VirtualClock, settle
from supervisor import (
    Everything,
    Ladder,
    Phase,
    Session,
    SessionNotActive,
    SessionNotFound,
    Settings,
    Supervisor,
    SupervisorError,
    ToolCall,
    Watcher,
)
from supervisor.core import events as ev
from supervisor.core.ids import InputId
from supervisor.core.step import Refused
from supervisor.sessions.shell.repeats import Request
from supervisor.sessions.surface.waiting import ResultOf
from supervisor.sessions.time.timers import Timer, Timers
from tests.sessions.cast import Scene, last_seq, records, waiting_texts
from tests.sessions.lives import is_in_memory, phase_of

MOST_CHECKPOINTS = 20
REST_SECONDS = 10.0


@pytest.fixture
def settings() -> Settings:
    return Settings(suspend_after_seconds=REST_SECONDS)


async def cancel_after(scope: trio.CancelScope, checkpoints: int) -> None:
    for _ in range(checkpoints):
        await trio.lowlevel.checkpoint()
    scope.cancel()


# Starting -------------------------------------------------------------------------------------


async def give_up_opening(checkpoints: int) -> int:
    """Gives how many tasks are left over."""
    before = trio.lowlevel.current_statistics().tasks_living
    async with trio.open_nursery() as nursery:
        nursery.start_soon(cancel_after, nursery.cancel_scope, checkpoints)
        async with supervisor.open():
            await trio.sleep_forever()
    return trio.lowlevel.current_statistics().tasks_living - before


def test_opening_can_be_cancelled_at_every_checkpoint() -> None:
    for checkpoints in range(MOST_CHECKPOINTS + 1):
        left = trio.run(give_up_opening, checkpoints, clock=VirtualClock())

        assert left == 0, f"{left} tasks are left after {checkpoints} checkpoints"


async def test_a_session_that_was_woken_for_one_who_gave_up_goes_back_to_sleep(
    sup: Supervisor, session: Session
) -> None:
    for checkpoints in range(MOST_CHECKPOINTS + 1):
        await trio.sleep(2 * REST_SECONDS)
        assert not is_in_memory(sup, session)

        with trio.CancelScope() as scope:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(cancel_after, scope, checkpoints)
                await session.set(title="another")
        await trio.sleep(5.0)

        assert not is_in_memory(sup, session), f"it is awake after {checkpoints} checkpoints"


# Stopping -------------------------------------------------------------------------------------


@pytest.fixture
async def stopping(deaf_session: Session, deaf_scene: Scene, nursery: trio.Nursery) -> Session:
    """A session that is stopping, for its agent does not hear of it."""
    nursery.start_soon(deaf_session.stop)
    await settle()
    assert await phase_of(deaf_session) is Phase.STOPPING
    return deaf_session


async def test_a_session_that_stops_takes_no_replacement(
    stopping: Session, deaf_scene: Scene
) -> None:
    with pytest.raises(SessionNotActive, match="stopping") as refused:
        await stopping.interrupt(replace_with="something else")

    assert refused.value.hint
    deaf_scene.finish()
    await stopping.wait_stopped()
    assert await waiting_texts(stopping) == []


async def test_who_interrupts_a_call_of_a_session_that_stops_waits_for_that_call(
    deaf_session: Session, deaf_scene: Scene, nursery: trio.Nursery
) -> None:
    call = await deaf_scene.open_call("bash")
    nursery.start_soon(deaf_session.stop)
    nursery.start_soon(end_later, deaf_scene)
    await settle()

    report = await deaf_session.interrupt(ToolCall(call.id))

    assert (report.matched, report.stopped, report.seconds) == (1, 1, 2.0)


async def end_later(scene: Scene) -> None:
    await trio.sleep(2.0)
    scene.finish()


async def test_a_stop_is_not_refused_because_of_interrupts(
    sup: Supervisor,
    session: Session,
    scene: Scene,
    nursery: trio.Nursery,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store, go_on = sup._house.store, trio.Event()
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


# Deleting -------------------------------------------------------------------------------------


async def test_a_session_with_a_task_that_will_not_end_is_deleted_at_once(
    sup: Supervisor, deaf_session: Session, deaf_scene: Scene
) -> None:
    await deaf_session.interrupt()
    assert (await deaf_session.info()).badge == "unhealthy"
    began = trio.current_time()

    await sup.delete(deaf_session.id)

    assert trio.current_time() == began
    assert not await sup.exists(deaf_session.id)


async def test_who_watches_a_deleted_session_can_leave_though_another_came_after_it(
    sup: Supervisor, session: Session
) -> None:
    """The seat is still there, for somebody waits for a result and has not heard yet."""
    with ResultOf(sup._house, session.id, InputId("in_1")):
        async with session.watch():
            await sup.delete(session.id)
            with pytest.raises(SessionNotFound):
                async with session.watch():
                    pass

    assert not await sup.exists(session.id)


# Two who read one feed ------------------------------------------------------------------------


async def read_into(feed: Watcher, seen: list[object]) -> None:
    async for item in feed:
        seen.append(item)  # noqa: PERF401 - others look at it meanwhile


async def test_two_who_read_one_feed_lose_nothing_of_what_is_old(session: Session) -> None:
    for number in range(5):
        await session.append("user", f"message {number}")
    seen: list[object] = []

    async with session.watch() as feed, trio.open_nursery() as readers:
        readers.start_soon(read_into, feed, seen)
        readers.start_soon(read_into, feed, seen)
        await settle()
        readers.cancel_scope.cancel()

    assert seen == await records(session)


async def test_two_who_read_one_feed_lose_nothing_of_what_is_new(session: Session) -> None:
    seen: list[object] = []
    before = await last_seq(session)

    async with session.watch(after=before) as feed, trio.open_nursery() as readers:
        readers.start_soon(read_into, feed, seen)
        readers.start_soon(read_into, feed, seen)
        await settle()
        for number in range(5):
            await session.append("user", f"message {number}")
        await settle()
        readers.cancel_scope.cancel()

    assert seen == (await records(session))[before:]


async def test_two_who_read_one_feed_both_hear_of_its_end(
    sup: Supervisor, session: Session
) -> None:
    seen: list[object] = []

    async with session.watch() as feed, trio.open_nursery() as readers:
        readers.start_soon(read_into, feed, seen)
        readers.start_soon(read_into, feed, seen)
        await settle()
        await sup.delete(session.id)
        await settle()
        left = len(readers.child_tasks)
        readers.cancel_scope.cancel()

    assert left == 0


async def read_all_into(feed: Everything, seen: list[object]) -> None:
    async for item in feed:
        seen.append(item)  # noqa: PERF401 - others look at it meanwhile


async def test_two_who_read_the_feed_of_everything_lose_nothing(
    sup: Supervisor, session: Session
) -> None:
    seen: list[object] = []

    async with sup.watch() as feed, trio.open_nursery() as readers:
        readers.start_soon(read_all_into, feed, seen)
        readers.start_soon(read_all_into, feed, seen)
        await settle()
        for number in range(5):
            await session.append("user", f"message {number}")
            await settle()
        readers.cancel_scope.cancel()

    assert seen == await records(session)


# Deleting -------------------------------------------------------------------------------------


async def test_what_was_on_its_way_does_not_bring_back_one_that_is_being_deleted(
    sup: Supervisor,
) -> None:
    session = await sup.create("echo")
    await session.stop()
    tree = sup._house.tree
    ref = await tree.reach(session.id)
    tree.ending.add(session.id)  # as a deletion does before it stops it

    resume = Request(ev.ResumeRequested(**sup._house.stamp()))
    answer = await ref.ask(resume)

    assert isinstance(answer, Refused)
    assert "deleted" in str(answer.error)


# After leaving --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "do",
    [
        lambda sup: sup.list(),
        lambda sup: sup.drain(),
        lambda sup: sup.reset("echo:here:me"),
    ],
    ids=["list", "drain", "reset"],
)
async def test_a_supervisor_that_has_left_says_so(
    do: Callable[[Supervisor], Awaitable[object]],
) -> None:
    async with supervisor.open() as sup:
        await sup.create("echo", key="echo:here:me")

    with pytest.raises(SessionNotActive, match="has left"):
        await do(sup)


# Timers ---------------------------------------------------------------------------------------


async def test_timers_that_were_dropped_do_not_pile_up() -> None:
    timers, rung = Timers(), list[str]()
    kept = Timer("kept", rung.append)
    timers.set(kept, 3600.0)

    for number in range(5_000):
        timer = Timer(f"{number}", rung.append)
        timers.set(timer, 1800.0)
        timers.drop(timer)

    assert len(timers._heap) <= 1_001
    with trio.move_on_after(7200.0):
        await timers.run()
    assert rung == ["kept"]


async def test_sessions_that_are_gone_leave_no_timers(
    monkeypatch: pytest.MonkeyPatch, sup: Supervisor
) -> None:
    monkeypatch.setattr("supervisor.sessions.time.timers._FEW", 10, raising=False)
    for _ in range(50):
        session = await sup.create("echo", ladder=Ladder(ask_seconds=1000.0))
        await sup.delete(session.id)

    assert len(sup._house.timers._heap) < 20
