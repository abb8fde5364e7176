"""A supervisor, whichever way one holds it."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Final, Literal, TypeAlias

import trio

import supervisor
from supervisor.api.app import make_app
from supervisor.api.doors import Doors
from supervisor.api.gate import PEER_UID, UnixGate
from supervisor.client import RemoteSession, RemoteSupervisor, connect, connect_briefly
from supervisor.daemon.listening.connections import open_connections
from supervisor.daemon.listening.sockets import unix_listener
from supervisor.drivers.port import AgentKind

Kind: TypeAlias = Literal["embedded", "remote", "briefly"]
KINDS: Final[tuple[Kind, ...]] = ("embedded", "remote", "briefly")
Connect: TypeAlias = Callable[..., AbstractAsyncContextManager[RemoteSupervisor]]
# Either: what is called on it is checked for both.
Sup: TypeAlias = supervisor.Supervisor | RemoteSupervisor
Session: TypeAlias = supervisor.Session | RemoteSession

TEST_SECONDS: Final = 30


@asynccontextmanager
async def opened(
    kind: Kind,
    folder: Path,
    *,
    agents: Sequence[AgentKind] = (),
    settings: supervisor.Settings | None = None,
) -> AsyncIterator[Sup]:
    """A supervisor over a file in the folder."""
    settings = settings or supervisor.Settings(exit_seconds=0.2)
    with trio.fail_after(TEST_SECONDS):
        async with supervisor.open(folder / "state.db", agents=agents, settings=settings) as sup:
            if kind == "embedded":
                yield sup
                return
            connecting = connect if kind == "remote" else connect_briefly
            async with served(sup, folder / "s") as path, connecting(path) as remote:
                yield remote


@asynccontextmanager
async def served(sup: supervisor.Supervisor, path: Path) -> AsyncIterator[Path]:
    """The supervisor behind a socket, as the daemon has it."""
    doors = Doors()
    app = make_app(sup, gate=UnixGate(own_uid=os.geteuid()), doors=doors)
    with unix_listener(path) as listener:
        async with open_connections(most=100, peer_name=PEER_UID) as connections:
            await connections.listen(listener, app)
            doors.open()
            yield path
            doors.close()


async def busy(sup: Sup, script: str = "sleep 60") -> Session:
    """A session whose turn does not end by itself."""
    session = await sup.create("scripted")
    receipt = await session.send(script)
    assert receipt.status == "started"
    return session


async def seen(session: Session, kind: str, after: int = 0) -> supervisor.Record:
    """The next record of a kind, once it is there."""
    async with session.watch(after=after) as feed:
        async for item in feed:
            if isinstance(item, supervisor.Record) and item.kind == kind:
                return item
    raise AssertionError("the feed has ended")
