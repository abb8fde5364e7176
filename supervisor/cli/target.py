"""The target of a command: its configuration, the daemon or a store file, and the session.

Both have the methods and errors of the embedding API, so a command works with either. A session is
found by its id, the beginning or end of its id, its name or its key.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, TypeAlias, cast

from supervisor.core.errors import SessionNotFound, short_repr

from .failures import require_file
from .output import Screen

if TYPE_CHECKING:
    from supervisor.configuration import Configuration
    from supervisor.core.info import Info
    from supervisor.handles.session import Session


def load_configuration(
    path: str | None, *, flags: Mapping[str, object] | None = None
) -> Configuration:
    """Return all configuration layers, or only the given file.

    Raise `ConfigError` with all problems.
    """
    from supervisor.configuration import load  # noqa: PLC0415 - slow to import

    require_configuration_file(path)
    return load(cwd=_working_folder(), environ=os.environ, flags=flags, path=path)


def require_configuration_file(path: str | None) -> None:
    """Raise `FileNotThere` if the file named by the user or by the environment does not exist."""
    named = path or os.environ.get("UNDERSTUDY_CONFIG")
    if named:
        hint = "check the path" if path else "correct or unset $UNDERSTUDY_CONFIG"
        require_file(os.path.expanduser(named), hint=hint)  # noqa: PTH111 - it may be no path


def _working_folder() -> Path | None:
    try:
        return Path.cwd()
    except FileNotFoundError:
        return None  # the working directory was deleted


if TYPE_CHECKING:  # a file loads the store and the sessions, a daemon does not
    from supervisor.handles.supervisor import Supervisor

    Target: TypeAlias = Supervisor

# The access that a command needs. A file can be read and maintained; only a daemon runs sessions.
Access: TypeAlias = Literal["read", "keep", "live"]


@asynccontextmanager
async def open_target(
    screen: Screen, *, state: str | None = None, access: Access = "live"
) -> AsyncIterator[Target]:
    """Open the file `state`, or connect to the daemon if `state` is None.

    Raise `NoDaemon` if no daemon listens, and the errors of `connect` and `open`.
    """
    if state is None:
        async with _connected(access) as sup:
            yield sup
        return
    from supervisor.offline import open_for_maintenance, open_for_reading  # noqa: PLC0415 - see above

    if access == "keep":
        async with open_for_maintenance(state, load_configuration(None).settings) as sup:
            yield sup
        return
    require_file(state)
    async with open_for_reading(state) as sup:
        _note_dead_owner(screen, state)
        yield sup


@asynccontextmanager
async def _connected(access: Access) -> AsyncIterator[Target]:
    from supervisor.client import (  # noqa: PLC0415 - only for who talks to it
        NoDaemon,
        connect_blocking,
        connect_once,
    )
    from supervisor.client.running_loop import is_in_event_loop  # noqa: PLC0415 - the same

    require_configuration_file(None)
    connect = connect_once if is_in_event_loop() else connect_blocking
    try:
        async with connect() as sup:
            yield cast("Target", sup)  # it has the same methods; a test compares them
    except NoDaemon as error:
        raise NoDaemon(str(error.args[0]), hint=_no_daemon_hint(access)) from None


def _no_daemon_hint(access: Access) -> str:
    if access == "live":
        return "start one with `understudy serve`; `understudy run` and `chat` need none"
    return "start one with `understudy serve`, or name a file of sessions with --state PATH"


def _note_dead_owner(screen: Screen, state: str) -> None:
    """Print a note if the supervisor of the file died without closing it."""
    from supervisor.store.sqlite.lock import is_held, read_notes  # noqa: PLC0415 - see above

    path = Path(os.path.realpath(state))
    pid = read_notes(path).pid
    if pid is not None and not is_held(path):
        screen.note(
            f"The supervisor of this file (process {pid}) has died."
            " Sessions are shown as the next one will recover them."
        )


# A shorter text is a part of too many ids; it can be a name.
_MIN_ID_PART: Final = 2

_MAX_CANDIDATES_SHOWN: Final = 5

_PAGE_SIZE: Final = 500


async def find_session(sup: Target, text: str) -> Session:
    """Return the session that the text names; raise `SessionNotFound` if none or several match.

    An exact id is used without a search, a name or key is looked up. A part of an id is compared
    with the ids of all sessions, which is slower.
    """
    try:
        return await sup.get(text)
    except SessionNotFound as error:
        found = await _matching_ids(sup, text)
        if len(found) == 1:
            return sup.session(found[0])
        if not found:
            raise SessionNotFound(
                f"no session matches {short_repr(text)}", hint="`understudy ps` lists them"
            ) from error
    named = ", ".join(found[:_MAX_CANDIDATES_SHOWN])
    more = ", and others" if len(found) > _MAX_CANDIDATES_SHOWN else ""
    raise SessionNotFound(
        f"{short_repr(text)} matches {len(found)} sessions: {named}{more}",
        hint="write the id of one of them",
    )


async def _matching_ids(sup: Target, text: str) -> list[str]:
    """Return the ids of sessions with this name or key; else ids that begin or end with it."""
    named = all_sessions(sup, with_text=text)
    exact: list[str] = [one.id async for one in named if text in (one.name, one.key)]
    if exact or len(text) < _MIN_ID_PART:
        return exact
    ids: list[str] = [one.id async for one in all_sessions(sup)]
    ids += (await sup.stats()).damaged  # only the id of a damaged row is readable
    return [one for one in ids if one.startswith(text) or one.endswith(text)]


async def all_sessions(
    sup: Target, *, with_text: str | None = None, root: str | None = None
) -> AsyncIterator[Info]:
    """Yield all sessions, or those whose name, title or key contains `with_text`.

    The sessions are read page by page.
    """
    cursor: str | None = None
    while True:
        page = await sup.list(text=with_text, root=root, limit=_PAGE_SIZE, cursor=cursor)
        for info in page.items:
            yield info
        cursor = page.next
        if cursor is None:
            return
