"""`connect()`: a line to the daemon, for as long as a block runs."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Final

from supervisor.api.wire.answers import Version

from .address import find_address
from .asking import Caller
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
    from .pool import open_pool  # noqa: PLC0415 - commands, which come by below, need none

    found = find_address(address, token_file, os.environ if environ is None else environ)
    async with open_pool(found) as pool, _open(Line(pool, found)) as sup:
        yield sup


@asynccontextmanager
async def connect_briefly(
    address: str | os.PathLike[str] | None = None,
    *,
    token_file: str | os.PathLike[str] | None = None,
    environ: Mapping[str, str] | None = None,
) -> AsyncIterator[RemoteSupervisor]:
    """The same, for who asks a few things and leaves: up in a fraction of the time."""
    found = find_address(address, token_file, os.environ if environ is None else environ)
    async with _open(Line(Caller(found), found)) as sup:
        yield sup


@asynccontextmanager
async def _open(line: Line) -> AsyncIterator[RemoteSupervisor]:
    await _greet(line)
    try:
        yield RemoteSupervisor(line)
    finally:
        line.close()


async def _greet(line: Line) -> None:
    version = await line.ask(Version, "GET", "v1/version")
    if version.api != _API:
        raise AnswerLost(
            f"the daemon on {line.where} speaks {version.api}, and this speaks {_API}",
            hint="use the same version of understudy on both sides",
        )
