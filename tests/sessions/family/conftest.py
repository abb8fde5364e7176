"""What the tests of families share: parents and children that wait for orders, in virtual time."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

import supervisor
from supervisor import Session, Settings, Supervisor
from tests.sessions.cast import Player, Scene
from tests.sessions.family.kin import brood
from tests.sessions.lives import Understudies
from tests.virtual_time import use_virtual_time


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    use_virtual_time(items, Path(__file__).parent)


@pytest.fixture
def kid() -> Player:
    """What children are, so that their turns are not mixed up with those of `player`."""
    return Player("kid")


@pytest.fixture
def slow() -> Understudies:
    """An agent that comes up, or fails to, when the test says so."""
    return Understudies()


@pytest.fixture
async def sup(
    player: Player, deaf_player: Player, kid: Player, slow: Understudies, settings: Settings
) -> AsyncIterator[Supervisor]:
    """Has the agents `player`, `deaf`, `kid`, `slow` and `brood`, besides `echo` and `scripted`."""
    agents: list[Any] = [player.agent, deaf_player.agent, kid.agent, slow, brood]
    async with supervisor.open(":memory:", agents=agents, settings=settings) as opened:
        try:
            yield opened
        finally:
            for one in (player, deaf_player, kid):
                one.dismiss()


@pytest.fixture
async def child(session: Session) -> Session:
    """A child of `session`, which is idle itself."""
    return await session.spawn("kid", "errand")


@pytest.fixture
async def errand(child: Session, kid: Player) -> Scene:
    """The child's turn on its errand."""
    return await kid.next_scene()
