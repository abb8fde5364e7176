"""`connect()`: a connection to the daemon for the duration of a block."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Final

from supervisor.api.reports import VersionReport

from .address import find_address
from .blocking import BlockingClient
from .running_loop import running_loop
from .supervisor import RemoteSupervisor
from .transport import AnswerLost, Transport

_API: Final = "v1"


@asynccontextmanager
async def connect(
    address: str | os.PathLike[str] | None = None,
    *,
    token_file: str | os.PathLike[str] | None = None,
    environ: Mapping[str, str] | None = None,
) -> AsyncIterator[RemoteSupervisor]:
    """Connect to the daemon: the same names, arguments, results and errors as with `open()`.

    It works on trio and on asyncio.
    `address` is the path of its socket, or `http://127.0.0.1:PORT` with the token in `token_file`;
    None means the configured value. Raise `NoDaemon` if no daemon listens there.
    """
    from .pool import open_pool  # noqa: PLC0415 - httpx is slow to import

    running_loop()  # refuses without one
    found = find_address(address, token_file, os.environ if environ is None else environ)
    async with open_pool(found) as pool, _open_supervisor(Transport(pool, found)) as sup:
        yield sup


@asynccontextmanager
async def connect_once(
    address: str | os.PathLike[str] | None = None,
    *,
    token_file: str | os.PathLike[str] | None = None,
    environ: Mapping[str, str] | None = None,
) -> AsyncIterator[RemoteSupervisor]:
    """Connect for a few requests: starts faster, but opens a connection for each request."""
    from .one_shot import OneShotClient  # noqa: PLC0415 - it needs trio, connect_blocking does not

    running_loop()  # refuses without one
    found = find_address(address, token_file, os.environ if environ is None else environ)
    async with _open_supervisor(Transport(OneShotClient(found), found)) as sup:
        yield sup


@asynccontextmanager
async def connect_blocking(
    address: str | os.PathLike[str] | None = None,
    *,
    token_file: str | os.PathLike[str] | None = None,
    environ: Mapping[str, str] | None = None,
) -> AsyncIterator[RemoteSupervisor]:
    """Connect as `connect_once` does, without trio: requests block, and no coroutine suspends.

    What needs an event loop, such as feeds, cannot be used.
    """
    found = find_address(address, token_file, os.environ if environ is None else environ)
    async with _open_supervisor(Transport(BlockingClient(found), found)) as sup:
        yield sup


@asynccontextmanager
async def _open_supervisor(transport: Transport) -> AsyncIterator[RemoteSupervisor]:
    await check_version(transport)
    try:
        yield RemoteSupervisor(transport)
    finally:
        transport.close()


async def check_version(transport: Transport) -> None:
    """Raise `AnswerLost` if the daemon speaks another version of the interface."""
    version = await transport.request(VersionReport, "GET", "v1/version")
    if version.api != _API:
        raise AnswerLost(
            f"the daemon on {transport.display_name} speaks {version.api}, this client {_API}",
            hint="use the same version of understudy on both sides",
        )
    transport.daemon_version = version.version
