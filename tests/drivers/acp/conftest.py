"""Fixtures of the tests of the ACP driver. Async tests run in virtual time, so timeouts are exact.

The tests in `test_terminals_real.py` start real processes and so need real time.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import trio

from supervisor.core.ids import TurnId
from supervisor.drivers.acp.permissions import Grants
from supervisor.drivers.acp.terminals import Terminals
from supervisor.drivers.acp.updates import Updates
from tests.support.acp_decider import FakeUser
from tests.support.acp_terminals import make_terminals
from tests.support.acp_updates import FakeTerminalAccess
from tests.support.driver_context import FakeDriverContext
from tests.support.fake_processes import FakeProcesses
from tests.support.rpc_peer import CallResults
from tests.support.virtual_time import use_virtual_time

TURN = TurnId("turn_1")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    virtual = [item for item in items if item.path.name != "test_terminals_real.py"]
    use_virtual_time(virtual, Path(__file__).parent)


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "workspace"
    folder.mkdir()
    return folder


@pytest.fixture
def context(workspace: Path) -> FakeDriverContext:
    return FakeDriverContext(workspace=str(workspace))


@pytest.fixture
def user() -> FakeUser:
    return FakeUser()


@pytest.fixture
def grants() -> Grants:
    return Grants()


@pytest.fixture
def limiter() -> trio.CapacityLimiter:
    return trio.CapacityLimiter(4)


@pytest.fixture
def processes() -> FakeProcesses:
    return FakeProcesses()


@pytest.fixture
def terminals(
    context: FakeDriverContext,
    processes: FakeProcesses,
    nursery: trio.Nursery,
    user: FakeUser,
    grants: Grants,
) -> Terminals:
    return make_terminals(context, processes, nursery, ask=user.ask, grants=grants)


@pytest.fixture
def turn_context() -> FakeDriverContext:
    """Return a context with a running turn."""
    context = FakeDriverContext()
    context.begin(TURN)
    return context


@pytest.fixture
def terminal_access() -> FakeTerminalAccess:
    return FakeTerminalAccess()


@pytest.fixture
def updates(turn_context: FakeDriverContext, terminal_access: FakeTerminalAccess) -> Updates:
    """Return updates with a running turn."""
    updates = Updates(turn_context, terminal_access=terminal_access)
    updates.begin_turn(TURN)
    return updates


@pytest.fixture
def results(nursery: trio.Nursery) -> CallResults:
    return CallResults(nursery)


@pytest.fixture
def no_open_descriptors() -> Iterator[None]:
    """Fail a test that leaves a file descriptor open."""
    before = _descriptors()
    yield
    assert _descriptors() <= before


def _descriptors() -> int:
    folder = Path("/proc/self/fd")
    return len(list(folder.iterdir())) if folder.exists() else 0
