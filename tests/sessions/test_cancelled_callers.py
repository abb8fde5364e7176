"""Cancelled calls leave nothing half done: the request is carried out, or not at all."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeAlias

import pytest
import trio
import trio.testing

import supervisor
from actors.testing import VirtualClock
from supervisor import (
    Phase,
    Session,
    Settings,
    Supervisor,
)
from tests.support.fake_agents import FakeAgent, records
from tests.support.session_states import REST_SECONDS, SlowStartAgent, is_in_memory


@pytest.fixture
def settings() -> Settings:
    return Settings(suspend_after_seconds=REST_SECONDS)


async def test_a_cancelled_create_leaves_a_started_session(nursery: trio.Nursery) -> None:
    slow = SlowStartAgent()
    async with supervisor.open(agents=[slow]) as sup:
        with trio.move_on_after(1.0) as patience:
            await sup.create("slow", key="slow:irc:ann")
        slow.report_start()
        await trio.testing.wait_all_tasks_blocked()

        [info] = (await sup.list()).items
        found = await sup.get_or_create("slow:irc:ann")

        assert patience.cancelled_caught
        assert (info.phase, info.id) == (Phase.IDLE, found.id)


async def test_a_create_cancelled_before_its_commit_leaves_nothing(
    sup: Supervisor,
) -> None:
    with trio.CancelScope() as scope:
        scope.cancel()
        await sup.create("echo", key="echo:irc:ann")
    await trio.testing.wait_all_tasks_blocked()

    session = await sup.get_or_create("echo:irc:ann")

    assert (await session.prompt("hello")).text == "hello"
    assert len((await sup.list()).items) == 1


async def test_a_cancelled_delete_is_carried_out(
    sup: Supervisor, shielded_agent: FakeAgent
) -> None:
    session = await sup.create("shielded", key="shielded:irc:ann")
    await session.send("first")
    run = await shielded_agent.next_run()

    with trio.move_on_after(1.0) as patience:
        await sup.delete(session.id)
    await trio.sleep(10.0)
    run.finish()
    await trio.testing.wait_all_tasks_blocked()

    assert patience.cancelled_caught
    assert not await sup.exists(session.id)
    assert sup._parts.registry.find_slot(session.id) is None


AgentAction: TypeAlias = Callable[[Supervisor, Session, str], Awaitable[object]]
ACTIONS: dict[str, AgentAction] = {
    "create": lambda sup, session, key: sup.create("echo", key=f"{key}:fresh"),
    "get_or_create": lambda sup, session, key: sup.get_or_create(f"{key}:fresh"),
    "new": lambda sup, session, key: sup.new(key),
    "stop": lambda sup, session, key: session.stop(),
    "resume": lambda sup, session, key: session.resume(),
    "archive": lambda sup, session, key: session.archive(),
    "unarchive": lambda sup, session, key: session.unarchive(),
    "clear": lambda sup, session, key: session.clear(),
    "fork": lambda sup, session, key: session.fork(),
    "delete": lambda sup, session, key: sup.delete(session.id),
}
STATES = {"resume": ["stop"], "archive": ["stop"], "unarchive": ["stop", "archive"]}


async def give_up_after(steps: int, work: Awaitable[object]) -> None:
    """Await the call, cancelled after this many scheduler steps."""
    with trio.CancelScope() as scope:
        async with trio.open_nursery() as nursery:

            async def lose_patience() -> None:
                for _ in range(steps):
                    await trio.lowlevel.checkpoint()
                scope.cancel()

            nursery.start_soon(lose_patience)
            await work
            nursery.cancel_scope.cancel()


@pytest.mark.parametrize("name", ACTIONS)
async def test_a_caller_cancelled_at_any_moment_leaves_nothing_half_done(
    sup: Supervisor, name: str
) -> None:
    for steps in range(25):
        own = f"echo:irc:{steps}"
        session = await sup.create("echo", key=own)
        for before in STATES.get(name, ()):
            await ACTIONS[before](sup, session, own)

        await give_up_after(steps, ACTIONS[name](sup, session, own))
        await trio.testing.wait_all_tasks_blocked()

        for key in (own, f"{own}:fresh"):
            found = await sup.get_or_create(key)
            infos = [info for info in (await sup.list()).items if info.key == key]
            assert [info.id for info in infos if not info.archived] == [found.id]
            assert (await found.prompt("hello")).text == "hello"


async def test_a_cancelled_prompt_does_not_end_its_turn(
    session: Session, fake_agent: FakeAgent
) -> None:
    with trio.move_on_after(1.0):
        await session.prompt("first")
    run = await fake_agent.next_run()

    run.finish("done")
    await trio.testing.wait_all_tasks_blocked()

    [ended] = await records(session, "turn_ended")
    assert (ended.body["outcome"], ended.body["text"]) == ("completed", "done")


MOST_CHECKPOINTS = 20


# Cancelled after any number of checkpoints --------------------------------------------------


async def cancel_after(scope: trio.CancelScope, checkpoints: int) -> None:
    for _ in range(checkpoints):
        await trio.lowlevel.checkpoint()
    scope.cancel()


async def give_up_opening(checkpoints: int) -> int:
    """Return the number of tasks left over."""
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


async def test_a_session_woken_for_a_cancelled_caller_is_suspended_again(
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
