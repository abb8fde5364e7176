"""What the tests of the scripted process share."""

from __future__ import annotations

import pytest

from tests.drivers.scripted.client import Client


@pytest.fixture
def client() -> Client:
    """A client of an agent without any flags."""
    return Client()


@pytest.fixture
def session(client: Client) -> str:
    """An open session of that agent."""
    return client.open()
