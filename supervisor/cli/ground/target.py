"""Whom a command talks to: the daemon, or a file while no daemon has it.

Both have the names and the errors of the embedding API, so that a command does not know which of
them it has.
"""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias, cast

from supervisor.cli.terminal.screen import Screen

from .failures import refuse_unless_file
from .settings import load_configuration

if TYPE_CHECKING:  # a file brings the store and all of the sessions with it, a daemon does not
    from supervisor.sessions.surface.supervisor import Supervisor

    Target: TypeAlias = Supervisor

# What a command does to its target. A file can be read and kept; only a daemon has sessions live.
Access: TypeAlias = Literal["read", "keep", "live"]


@asynccontextmanager
async def open_target(
    screen: Screen, *, state: str | None = None, access: Access = "live"
) -> AsyncIterator[Target]:
    """The file `state`, or the daemon if that is None; raises `NoDaemon`, and what they raise."""
    if state is None:
        async with _connected(access) as sup:
            yield sup
        return
    from supervisor.still import open_for_keeping, open_for_reading  # noqa: PLC0415 - see above

    if access == "keep":
        async with open_for_keeping(state, load_configuration(None).settings) as sup:
            yield sup
        return
    refuse_unless_file(state)
    async with open_for_reading(state) as sup:
        await _say_how_old_it_is(screen, sup, state)
        yield sup


@asynccontextmanager
async def _connected(access: Access) -> AsyncIterator[Target]:
    from supervisor.client import NoDaemon, connect_briefly  # noqa: PLC0415 - only for who talks to it

    try:
        async with connect_briefly() as sup:
            yield cast("Target", sup)  # it has the same names, and a test sees to it
    except NoDaemon as error:
        raise NoDaemon(str(error.args[0]), hint=_hint(access)) from None


def _hint(access: Access) -> str:
    if access == "live":
        return "start one with `understudy serve`; `understudy run` and `chat` need none"
    return "start one with `understudy serve`, or name a file of sessions with --state PATH"


async def _say_how_old_it_is(screen: Screen, sup: Target, state: str) -> None:
    """Say so if sessions look busy in a file that nobody has open."""
    pid = _last_owner(state)
    if pid is None:
        return
    stats = await sup.stats()
    if stats.live > stats.phases.get("suspended", 0):
        screen.note(
            f"The supervisor of this file (process {pid}) is gone."
            " Sessions are shown as it left them."
        )


def _last_owner(state: str) -> int | None:
    """The process that had the file open last, if it has not said that it left, and is gone."""
    try:
        signature = Path(f"{os.path.realpath(state)}.lock").read_bytes()
        pid = int(json.loads(signature)["pid"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
    # Not by trying the lock: whoever opens the file at that moment would be refused.
    is_gone = Path("/proc/self").exists() and not Path(f"/proc/{pid}").exists()
    return pid if is_gone else None
