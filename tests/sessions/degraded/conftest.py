"""What the tests of a degraded store share: one that falls ill, in virtual time, and no crash."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

import supervisor.runtime
from tests.support.fake_agents import FakeAgent
from tests.support.fake_store import FailingStore
from tests.support.virtual_time import use_virtual_time


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    use_virtual_time(items, Path(__file__).parent)


@pytest.fixture(autouse=True)
def store(monkeypatch: pytest.MonkeyPatch) -> FailingStore:
    """The store of every supervisor that is opened in the test."""
    frail = FailingStore()
    monkeypatch.setattr(supervisor.runtime, "MemoryStore", lambda: frail)
    return frail


@pytest.fixture(autouse=True)
def _no_crashes(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """A degraded store is never an actor's crash: none restarts, and none is given up."""
    caplog.set_level(logging.WARNING)
    yield
    said = [one.getMessage() for one in caplog.records if one.name == "actors"]
    assert said == []
    assert not [one for one in caplog.records if "given up" in one.getMessage()]


@pytest.fixture
def kid() -> FakeAgent:
    """What children are, so that their turns are not mixed up with those of `fake`."""
    return FakeAgent("kid")
