"""`connect()`: a connection to the daemon for the duration of a block."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Final

import trio

from supervisor.api.reports import VersionReport
from supervisor.core.errors import ConfigError

from .address import find_address
from .http_client import OneShotClient
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

    `address` is the path of its socket, or `http://127.0.0.1:PORT` with the token in `token_file`;
    None means the configured value. Raise `NoDaemon` if no daemon listens there.
    """
    from .pool import open_pool  # noqa: PLC0415 - httpx is slow to import, connect_once skips it

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
    found = find_address(address, token_file, os.environ if environ is None else environ)
    async with _open_supervisor(Transport(OneShotClient(found), found)) as sup:
        yield sup


@asynccontextmanager
async def _open_supervisor(transport: Transport) -> AsyncIterator[RemoteSupervisor]:
    if not trio.lowlevel.in_trio_task():
        raise ConfigError("supervisor.connect() needs trio", hint="run the program with trio.run()")
    await _check_version(transport)
    try:
        yield RemoteSupervisor(transport)
    finally:
        transport.close()


async def _check_version(transport: Transport) -> None:
    version = await transport.request(VersionReport, "GET", "v1/version")
    if version.api != _API:
        raise AnswerLost(
            f"the daemon on {transport.display_name} speaks {version.api}, this client {_API}",
            hint="use the same version of understudy on both sides",
        )
