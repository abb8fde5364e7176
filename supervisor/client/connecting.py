"""`connect()`: a line to the daemon, for as long as a block runs."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Final

import httpcore
import httpx

from supervisor.api.wire.answers import Version

from .address import find_address
from .dialling import Backend
from .errors import AnswerLost
from .line import Line
from .supervisor import RemoteSupervisor

_API: Final = "v1"


@asynccontextmanager
async def connect(
    address: str | os.PathLike[str] | None = None,
    *,
    token_file: str | os.PathLike[str] | None = None,
    environ: Mapping[str, str] | None = None,
) -> AsyncIterator[RemoteSupervisor]:
    """Talk to the daemon: the same names, arguments, results and errors as those of `open()`.

    `address` is the path of its socket, or `http://127.0.0.1:PORT` with the token in `token_file`;
    what is None is where the configuration has it. Raises `NoDaemon` if nobody listens there.
    """
    found = find_address(address, token_file, os.environ if environ is None else environ)
    # Proxies and passwords that the environment names are for other people's servers.
    async with httpx.AsyncClient(
        transport=_Transport(found.socket),
        base_url=found.base_url,
        headers=found.headers,
        trust_env=False,
    ) as http:
        line = Line(http, found)
        await _greet(line)
        try:
            yield RemoteSupervisor(line)
        finally:
            line.close()


class _Transport(httpx.AsyncHTTPTransport):
    """One that waits in line."""

    def __init__(self, socket: str | None) -> None:
        # There is no TLS here, ever; to read all certificates for it would take 66 ms.
        super().__init__(verify=False, trust_env=False)
        # httpx has no other way to be given a way to connect.
        self._pool = httpcore.AsyncConnectionPool(
            uds=socket, max_connections=None, keepalive_expiry=5.0, network_backend=Backend()
        )


async def _greet(line: Line) -> None:
    version = await line.ask(Version, "GET", "v1/version")
    if version.api != _API:
        raise AnswerLost(
            f"the daemon on {line.where} speaks {version.api}, and this speaks {_API}",
            hint="use the same version of understudy on both sides",
        )
