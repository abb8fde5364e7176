"""Fixtures of the scripted agent's tests."""

from __future__ import annotations

import pytest

from tests.support.scripted_client import Client


@pytest.fixture
def client() -> Client:
    """Return a client of an agent without flags."""
    return Client()


@pytest.fixture
def session(client: Client) -> str:
    """Return an open session of that agent."""
    return client.open()
