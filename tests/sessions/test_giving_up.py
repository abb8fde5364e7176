"""Callers who give up leave nothing half done: what they asked for happens, or does not."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeAlias

import pytest
import trio
import trio.testing

import supervisor
from supervisor import Phase, Session, Settings, Supervisor
from tests.sessions.cast import Player, records
from tests.sessions.lives import REST_SECONDS, Understudies


@pytest.fixture
def settings() -> Settings:
    return Settings(suspend_after_seconds=REST_SECONDS)


async def test_who_gives_up_create_leaves_a_session_that_is_up(nursery: trio.Nursery) -> None:
    slow = Understudies()
    async with supervisor.open(agents=[slow]) as sup:
        with trio.move_on_after(1.0) as patience:
            await sup.create("slow", key="slow:irc:ann")
        slow.come_up()
        await trio.testing.wait_all_tasks_blocked()

        [info] = (await sup.list()).items
        found = await sup.get_or_create("slow:irc:ann")

        assert patience.cancelled_caught
        assert (info.phase, info.id) == (Phase.IDLE, found.id)


async def test_who_gives_up_create_before_it_began_leaves_nothing_half_done(
    sup: Supervisor,
) -> None:
    with trio.CancelScope() as scope:
        scope.cancel()
        await sup.create("echo", key="echo:irc:ann")
    await trio.testing.wait_all_tasks_blocked()

    session = await sup.get_or_create("echo:irc:ann")

    assert (await session.prompt("hello")).text == "hello"
    assert len((await sup.list()).items) == 1


async def test_who_gives_up_delete_does_not_undo_it(sup: Supervisor, deaf_player: Player) -> None:
    session = await sup.create("deaf", key="deaf:irc:ann")
    await session.send("first")
    scene = await deaf_player.next_scene()

    with trio.move_on_after(1.0) as patience:
        await sup.delete(session.id)
    await trio.sleep(10.0)
    scene.finish()
    await trio.testing.wait_all_tasks_blocked()

    assert patience.cancelled_caught
    assert not await sup.exists(session.id)
    assert sup._house.tree.find_seat(session.id) is None


Deed: TypeAlias = Callable[[Supervisor, Session, str], Awaitable[object]]
DEEDS: dict[str, Deed] = {
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
    """Wait for it, but not longer than so many steps of the loop."""
    with trio.CancelScope() as scope:
        async with trio.open_nursery() as nursery:

            async def lose_patience() -> None:
                for _ in range(steps):
                    await trio.lowlevel.checkpoint()
                scope.cancel()

            nursery.start_soon(lose_patience)
            await work
            nursery.cancel_scope.cancel()


@pytest.mark.parametrize("name", DEEDS)
async def test_who_gives_up_at_any_moment_leaves_nothing_half_done(
    sup: Supervisor, name: str
) -> None:
    for steps in range(25):
        own = f"echo:irc:{steps}"
        session = await sup.create("echo", key=own)
        for before in STATES.get(name, ()):
            await DEEDS[before](sup, session, own)

        await give_up_after(steps, DEEDS[name](sup, session, own))
        await trio.testing.wait_all_tasks_blocked()

        for key in (own, f"{own}:fresh"):
            found = await sup.get_or_create(key)
            infos = [info for info in (await sup.list()).items if info.key == key]
            assert [info.id for info in infos if not info.archived] == [found.id]
            assert (await found.prompt("hello")).text == "hello"


async def test_who_gives_up_a_prompt_does_not_end_its_turn(
    session: Session, player: Player
) -> None:
    with trio.move_on_after(1.0):
        await session.prompt("first")
    scene = await player.next_scene()

    scene.finish("done")
    await trio.testing.wait_all_tasks_blocked()

    [ended] = await records(session, "turn_ended")
    assert (ended.body["outcome"], ended.body["text"]) == ("completed", "done")
