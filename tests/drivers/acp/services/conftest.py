"""What the tests of files, terminals and questions share; they run in virtual time."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import trio

from supervisor.drivers.acp.services.grants import Grants
from tests.drivers.acp.services.people import Person
from tests.drivers.office import StandInOffice
from tests.virtual_time import use_virtual_time


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    use_virtual_time(items, Path(__file__).parent)


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "workspace"
    folder.mkdir()
    return folder


@pytest.fixture
def office(workspace: Path) -> StandInOffice:
    return StandInOffice(workspace=str(workspace))


@pytest.fixture
def person() -> Person:
    return Person()


@pytest.fixture
def grants() -> Grants:
    return Grants()


@pytest.fixture
def limiter() -> trio.CapacityLimiter:
    return trio.CapacityLimiter(4)


@pytest.fixture(autouse=True)
def _no_descriptor_is_left_open() -> Iterator[None]:
    before = _descriptors()
    yield
    assert _descriptors() <= before


def _descriptors() -> int:
    folder = Path("/proc/self/fd")
    return len(list(folder.iterdir())) if folder.exists() else 0
