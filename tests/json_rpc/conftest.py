"""Fixtures of the tests of JSON-RPC. Async tests run in virtual time, so timeouts are exact."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio

from tests.support.rpc_peer import CallResults
from tests.support.virtual_time import use_virtual_time


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    use_virtual_time(items, Path(__file__).parent)


@pytest.fixture
def results(nursery: trio.Nursery) -> CallResults:
    return CallResults(nursery)
