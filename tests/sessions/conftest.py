"""What the tests of sessions share: a supervisor on virtual time, and agents that wait for orders.

Every async test of this folder runs in virtual time: a time-out costs nothing and is exact, and
a deadlock fails the test with the names of those who wait.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import trio

import supervisor
from actors.testing import settle
from supervisor import Session, Settings, Supervisor
from tests.sessions.cast import Follow, Item, Player, Scene, watch_into
from tests.virtual_time import use_virtual_time


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    use_virtual_time(items, Path(__file__).parent)


@pytest.fixture
def player() -> Player:
    """Hears interrupts, as agents should."""
    return Player("player")


@pytest.fixture
def deaf_player() -> Player:
    """Does not hear them."""
    return Player("deaf", deaf=True)


@pytest.fixture
def settings() -> Settings:
    """Those of `sup`; a module may have its own."""
    return Settings()


@pytest.fixture
async def sup(player: Player, deaf_player: Player, settings: Settings) -> AsyncIterator[Supervisor]:
    """Has the agents `player` and `deaf`, besides `echo` and `scripted`."""
    agents = [player.agent, deaf_player.agent]
    async with supervisor.open(":memory:", agents=agents, settings=settings) as opened:
        try:
            yield opened
        finally:
            player.dismiss()
            deaf_player.dismiss()


@pytest.fixture
async def session(sup: Supervisor) -> Session:
    """An idle session of `player`."""
    return await sup.create("player")


@pytest.fixture
async def scene(session: Session, player: Player) -> Scene:
    """The turn on "first" that `session` is in the middle of."""
    await session.send("first")
    return await player.next_scene()


@pytest.fixture
async def deaf_session(sup: Supervisor) -> Session:
    """An idle session whose agent hears no interrupts."""
    return await sup.create("deaf")


@pytest.fixture
async def deaf_scene(deaf_session: Session, deaf_player: Player) -> Scene:
    """Its turn on "first"."""
    await deaf_session.send("first")
    return await deaf_player.next_scene()


@pytest.fixture
def follow(nursery: trio.Nursery) -> Follow:
    """Watch a session for the rest of the test; gives the list that what it sees is put into."""

    async def begin(session: Session, *, after: int = 0) -> list[Item]:
        seen: list[Item] = []
        nursery.start_soon(watch_into, session, seen, after)
        await settle()
        return seen

    return begin
