"""One suite, whichever way: in this process, and behind a real socket, by either way there."""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from supervisor.client import connect, connect_once
from tests.support.asyncio_client import connect_on_asyncio
from tests.support.served_supervisor import (
    KINDS,
    Connect,
    Kind,
    Sup,
    connect_in_thread,
    opened,
)


@pytest.fixture
def folder() -> Iterator[Path]:
    """With a short name: the address of a unix socket has 107 bytes."""
    with tempfile.TemporaryDirectory(prefix="us-") as made:
        yield Path(made)


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> Kind:
    found: Kind = request.param
    return found


@pytest.fixture(
    name="connect", params=[connect, connect_once, connect_in_thread, connect_on_asyncio]
)
def way_there(request: pytest.FixtureRequest) -> Connect:
    found: Connect = request.param
    return found


@pytest.fixture
async def sup(kind: Kind, folder: Path) -> AsyncIterator[Sup]:
    async with opened(kind, folder) as made:
        yield made
