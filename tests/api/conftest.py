"""What the tests of the HTTP surface share: a supervisor, an app over it, and somebody who asks.

Every async test runs in virtual time, without a server and without a socket.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import trio
from starlette.types import ASGIApp

import supervisor
from supervisor import Session, Settings, Supervisor
from supervisor.api.app import make_app
from supervisor.api.doors import Doors
from supervisor.api.gate import UnixGate
from tests.api.asgi import Exchange, Watch, begin
from tests.sessions.cast import Player, Scene
from tests.virtual_time import use_virtual_time


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for folder in (here, here / "routes", here / "wire"):
        use_virtual_time(items, folder)


@pytest.fixture
def player() -> Player:
    """An agent that does what the test says."""
    return Player("player")


@pytest.fixture
def settings() -> Settings:
    """Those of `sup`; a module may have its own."""
    return Settings()


@pytest.fixture
async def sup(player: Player, settings: Settings) -> AsyncIterator[Supervisor]:
    """Has the agent `player`, besides `echo` and `scripted`."""
    async with supervisor.open(":memory:", agents=[player.agent], settings=settings) as opened:
        try:
            yield opened
        finally:
            player.dismiss()


@pytest.fixture
def doors() -> Doors:
    """Open ones."""
    made = Doors()
    made.open()
    return made


@pytest.fixture
def app(sup: Supervisor, doors: Doors) -> ASGIApp:
    """As on a unix socket."""
    return make_app(sup, gate=UnixGate(own_uid=None), doors=doors)


@pytest.fixture
async def client(app: ASGIApp) -> AsyncIterator[httpx.AsyncClient]:
    """Somebody who asks."""
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as made:
        yield made


@pytest.fixture
async def session(sup: Supervisor) -> Session:
    """An idle session of `player`."""
    return await sup.create("player")


@pytest.fixture
async def scene(session: Session, player: Player) -> Scene:
    """The turn on "first" that `session` is in the middle of."""
    await session.send("first")
    return await player.next_scene()


@pytest.fixture
def watch(nursery: trio.Nursery, app: ASGIApp) -> Watch:
    """Open a stream for the rest of the test."""

    async def opened(target: str, **options: Any) -> Exchange:  # noqa: ANN401 - see begin
        return await begin(nursery, app, target, **options)

    return opened
