"""A supervisor, opened directly or served over a socket."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager, asynccontextmanager
from pathlib import Path
from typing import Final, Literal, TypeAlias

import trio

import supervisor
from supervisor.api.app import make_app
from supervisor.api.drain import DrainState
from supervisor.client import RemoteSession, RemoteSupervisor, connect, connect_once
from supervisor.client.address import find_address
from supervisor.client.blocking import BlockingClient
from supervisor.client.connect import check_version
from supervisor.client.http_client import HttpRequest, HttpResponse
from supervisor.client.transport import Transport
from supervisor.drivers.port import AgentKind
from supervisor.http_server.connections import open_connections
from supervisor.http_server.gate import UnixGate
from supervisor.http_server.peer import PEER_UID
from supervisor.http_server.unix_listener import unix_listener
from tests.support.asyncio_client import connect_on_asyncio

Kind: TypeAlias = Literal["embedded", "remote", "briefly", "asyncio"]
KINDS: Final[tuple[Kind, ...]] = ("embedded", "remote", "briefly", "asyncio")
Connect: TypeAlias = Callable[..., AbstractAsyncContextManager[RemoteSupervisor]]
# Either: what is called on it is checked for both.
Sup: TypeAlias = supervisor.Supervisor | RemoteSupervisor
Session: TypeAlias = supervisor.Session | RemoteSession

_WAYS_THERE: Final[Mapping[Kind, Connect]] = {
    "remote": connect,
    "briefly": connect_once,
    "asyncio": connect_on_asyncio,
}

TEST_SECONDS: Final = 30


@asynccontextmanager
async def opened(
    kind: Kind,
    folder: Path,
    *,
    agents: Sequence[AgentKind] = (),
    settings: supervisor.Settings | None = None,
) -> AsyncIterator[Sup]:
    """Open a supervisor over a file in the folder."""
    settings = settings or supervisor.Settings(exit_seconds=0.2)
    with trio.fail_after(TEST_SECONDS):
        async with supervisor.open(folder / "state.db", agents=agents, settings=settings) as sup:
            if kind == "embedded":
                yield sup
                return
            connecting = _WAYS_THERE[kind]
            async with served(sup, folder / "s") as path, connecting(path) as remote:
                yield remote


class _InThread:
    """A client that blocks, in a thread, so that the server of the test can answer."""

    def __init__(self, client: BlockingClient) -> None:
        self._client = client

    def time_limit(self, seconds: float) -> AbstractContextManager[None]:
        return self._client.time_limit(seconds)

    async def request(self, request: HttpRequest) -> HttpResponse:
        return await trio.to_thread.run_sync(self._run, request)

    def _run(self, request: HttpRequest) -> HttpResponse:
        try:
            self._client.request(request).send(None)
        except StopIteration as end:
            response: HttpResponse = end.value
            return response
        raise AssertionError("it has suspended")


@asynccontextmanager
async def connect_in_thread(
    address: str | os.PathLike[str] | None = None,
    *,
    token_file: str | os.PathLike[str] | None = None,
    environ: Mapping[str, str] = os.environ,
) -> AsyncIterator[RemoteSupervisor]:
    """Connect as `connect_blocking` does; each request is sent in a thread."""
    found = find_address(address, token_file, environ)
    transport = Transport(_InThread(BlockingClient(found)), found)
    await check_version(transport)
    yield RemoteSupervisor(transport)
    transport.close()


@asynccontextmanager
async def served(sup: supervisor.Supervisor, path: Path) -> AsyncIterator[Path]:
    """Serve the supervisor on a socket, as the daemon does."""
    doors = DrainState()
    app = make_app(
        sup,
        gate=UnixGate(own_uid=os.geteuid()),
        drain_state=doors,
        backup_folder=path.with_name("backups"),
    )
    with unix_listener(path) as listener:
        async with open_connections(max_connections=100, peer_state_key=PEER_UID) as connections:
            await connections.listen(listener, app)
            doors.open()
            yield path
            doors.close()


async def busy(sup: Sup, script: str = "sleep 60") -> Session:
    """Create a session whose turn does not end by itself."""
    session = await sup.create("scripted")
    receipt = await session.send(script)
    assert receipt.status == "started"
    return session


async def seen(session: Session, kind: str, after: int = 0) -> supervisor.Record:
    """Wait for the next record of a kind."""
    async with session.watch(after=after) as feed:
        async for item in feed:
            if isinstance(item, supervisor.Record) and item.kind == kind:
                return item
    raise AssertionError("the feed has ended")
