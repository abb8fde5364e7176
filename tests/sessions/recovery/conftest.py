"""What the tests of recovery share: a program that is killed and begun again, in virtual time.

A real file is written in real threads; virtual time stands still while they work.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.sessions.cast import Player
from tests.virtual_time import use_virtual_time

from .lives import Program


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    use_virtual_time(items, Path(__file__).parent)


@pytest.fixture
def kid() -> Player:
    """What children are, so that their turns are not mixed up with those of `player`."""
    return Player("kid")


@pytest.fixture
def program(tmp_path: Path, player: Player, deaf_player: Player, kid: Player) -> Program:
    """Has the agents `player`, `deaf` and `kid`, besides `echo` and `scripted`."""
    return Program(tmp_path / "state.db", player, deaf_player, kid)
