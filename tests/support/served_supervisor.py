"""A supervisor, opened directly or served over a socket."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Final, Literal, TypeAlias

import trio

import supervisor
from supervisor.api.app import make_app
from supervisor.api.drain import DrainState
from supervisor.api.gate import PEER_UID, UnixGate
from supervisor.client import RemoteSession, RemoteSupervisor, connect, connect_once
from supervisor.daemon.connections import open_connections
from supervisor.daemon.listeners import unix_listener
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
    """Open a supervisor over a file in the folder."""
    settings = settings or supervisor.Settings(exit_seconds=0.2)
    with trio.fail_after(TEST_SECONDS):
        async with supervisor.open(folder / "state.db", agents=agents, settings=settings) as sup:
            if kind == "embedded":
                yield sup
                return
            connecting = connect if kind == "remote" else connect_once
            async with served(sup, folder / "s") as path, connecting(path) as remote:
                yield remote


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
