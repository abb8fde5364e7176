"""Fixtures of the HTTP tests: a supervisor, an app over it, and a client.

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
from supervisor.api.drain import DrainState
from supervisor.http_server.gate import UnixGate
from tests.support.asgi_exchange import Exchange, Watch, begin
from tests.support.fake_agents import AgentRun, FakeAgent
from tests.support.virtual_time import use_virtual_time


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for folder in (here, here / "routes", here / "wire"):
        use_virtual_time(items, folder)


@pytest.fixture
def fake_agent() -> FakeAgent:
    """An agent that does what the test says."""
    return FakeAgent("fake")


@pytest.fixture
def settings() -> Settings:
    """Those of `sup`; a module may have its own."""
    return Settings()


@pytest.fixture
async def sup(fake_agent: FakeAgent, settings: Settings) -> AsyncIterator[Supervisor]:
    """Has the agent `fake`, besides `echo` and `scripted`."""
    async with supervisor.open(":memory:", agents=[fake_agent.agent], settings=settings) as opened:
        try:
            yield opened
        finally:
            fake_agent.finish_open_runs()


@pytest.fixture
def drain_state() -> DrainState:
    """Open ones."""
    made = DrainState()
    made.open()
    return made


@pytest.fixture
def app(sup: Supervisor, drain_state: DrainState) -> ASGIApp:
    """As on a unix socket."""
    return make_app(sup, gate=UnixGate(own_uid=None), drain_state=drain_state)


@pytest.fixture
async def client(app: ASGIApp) -> AsyncIterator[httpx.AsyncClient]:
    """A client of the app."""
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as made:
        yield made


@pytest.fixture
async def session(sup: Supervisor) -> Session:
    """An idle session of `fake`."""
    return await sup.create("fake")


@pytest.fixture
async def run(session: Session, fake_agent: FakeAgent) -> AgentRun:
    """The turn on "first" that `session` is in the middle of."""
    await session.send("first")
    return await fake_agent.next_run()


@pytest.fixture
def watch(nursery: trio.Nursery, app: ASGIApp) -> Watch:
    """Open a stream for the rest of the test."""

    async def opened(target: str, **options: Any) -> Exchange:  # noqa: ANN401 - see begin
        return await begin(nursery, app, target, **options)

    return opened
