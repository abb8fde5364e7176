"""What the tests of an agent's news share; they run in virtual time."""

from __future__ import annotations

from pathlib import Path

import pytest

from supervisor.core.ids import TurnId
from supervisor.drivers.acp.news.updates import Updates
from tests.drivers.acp.news.saying import FakeReach
from tests.drivers.office import StandInOffice
from tests.virtual_time import use_virtual_time

TURN = TurnId("turn_1")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    use_virtual_time(items, Path(__file__).parent)


@pytest.fixture
def office() -> StandInOffice:
    office = StandInOffice()
    office.begin(TURN)
    return office


@pytest.fixture
def reach() -> FakeReach:
    return FakeReach()


@pytest.fixture
def updates(office: StandInOffice, reach: FakeReach) -> Updates:
    """In the middle of a turn."""
    updates = Updates(office, reach=reach)
    updates.begin_turn(TURN)
    return updates
