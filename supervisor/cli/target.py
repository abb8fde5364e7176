"""The target of a command: its configuration, the daemon or a store file, and the session.

Both have the methods and errors of the embedding API, so a command works with either. A session is
found by its id, a part of its id, its name, its key or a path of names; other ids also by a part.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, TypeAlias, cast

from supervisor.core.errors import (
    PermissionNotFound,
    SessionNotFound,
    SupervisorError,
    short_repr,
)

from .async_runner import NeedsTrio, interrupted_by_signals
from .common_options import chosen_host, refuse_typed_host
from .daemon_place import DaemonPlace
from .error_words import remember_typed, reword
from .failures import IdNotFound, require_file
from .output import Screen

if TYPE_CHECKING:
    from supervisor.client import NoDaemon
    from supervisor.configuration import Configuration
    from supervisor.core.info import Badge, Info
    from supervisor.core.match import IdKind, Match
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
    screen: Screen,
    *,
    state: str | None = None,
    access: Access = "live",
    start: bool = False,
    before_start: Callable[[], None] = lambda: None,
) -> AsyncIterator[Target]:
    """Open the file `state`, or connect to the daemon if `state` is None.

    Without a daemon, `start` starts one, and `access="read"` reads its store; `before_start` may
    raise an error that the daemon would answer with, so that none is started for it. Raise
    `NoDaemon` if neither is possible, and the errors of `reach_daemon`, `connect` and `open`.
    """
    async with AsyncExitStack() as held:
        if state is not None:
            refuse_typed_host("--state names a file of this machine")
            sup = await held.enter_async_context(_open_file(screen, state, access))
        elif chosen_host() is not None:
            sup = await held.enter_async_context(_connected_to_host(screen))
        else:
            sup = await _open_daemon(held, screen, access, before_start if start else None)
        try:
            yield sup
        except SupervisorError as error:
            await reword(error, sup, screen)
            raise


async def _open_daemon(
    held: AsyncExitStack, screen: Screen, access: Access, before_start: Callable[[], None] | None
) -> Target:
    """Connect to the daemon; without one start it if that is allowed, or read its store."""
    from supervisor.client import NoDaemon  # noqa: PLC0415 - only for who talks to it

    try:
        return await held.enter_async_context(_connected(access))
    except NoDaemon as error:
        if before_start is not None and _start(screen, before_start):
            return await held.enter_async_context(_connected(access))
        if access == "read":
            return await held.enter_async_context(_open_daemon_store(screen, error))
        raise


@asynccontextmanager
async def _connected(access: Access) -> AsyncIterator[Target]:
    """Connect to the configured daemon of this machine."""
    from supervisor.client import NoDaemon  # noqa: PLC0415 - see above

    require_configuration_file(None)
    async with AsyncExitStack() as held:
        try:
            sup = await held.enter_async_context(_connection(DaemonPlace()))
        except NoDaemon as error:
            raise NoDaemon(str(error.args[0]), hint=_no_daemon_hint(access)) from None
        yield sup


@asynccontextmanager
async def _connected_to_host(screen: Screen) -> AsyncIterator[Target]:
    """Connect to the daemon of the host that the user has chosen."""
    from supervisor.client import AnswerLost, NoDaemon  # noqa: PLC0415 - see above

    from .daemon_start import reach_daemon  # noqa: PLC0415 - rarely needed

    async with AsyncExitStack() as held:
        with interrupted_by_signals():
            place = held.enter_context(reach_daemon(screen))
        try:
            sup = await held.enter_async_context(_connection(place))
        except (NoDaemon, AnswerLost):
            detail = place.detail()
            check = "check its socket with `understudy config get daemon.socket`"
            if place.token_file is not None:
                check = "check that the tunnel is open"
            raise NoDaemon(
                f"no daemon answers on host {place.host}{f': {detail}' if detail else ''}",
                hint=f"start it there, and {check}",
            ) from None
        yield sup


@asynccontextmanager
async def _connection(place: DaemonPlace) -> AsyncIterator[Target]:
    from supervisor.client import (  # noqa: PLC0415 - see above
        connect_blocking,
        connect_once,
    )
    from supervisor.client.running_loop import is_in_event_loop  # noqa: PLC0415 - the same

    connect = connect_once if is_in_event_loop() else connect_blocking
    async with connect(place.address, token_file=place.token_file) as sup:
        yield cast("Target", sup)  # it has the same methods; a test compares them


def _no_daemon_hint(access: Access) -> str:
    if access == "live":
        return "start it with `understudy serve --detach`"
    return "start it with `understudy serve --detach`, or name a file of sessions with --state PATH"


@asynccontextmanager
async def _open_file(screen: Screen, state: str, access: Access) -> AsyncIterator[Target]:
    from supervisor.offline import open_for_maintenance, open_for_reading  # noqa: PLC0415 - see above

    if access == "keep":
        async with open_for_maintenance(state, load_configuration(None).settings) as sup:
            yield sup
        return
    require_file(state)
    async with open_for_reading(state) as sup:
        _note_dead_owner(screen, state)
        yield sup


def _start(screen: Screen, before_start: Callable[[], None]) -> bool:
    from .daemon_start import start_if_allowed  # noqa: PLC0415 - rarely needed

    before_start()
    with interrupted_by_signals():
        return start_if_allowed(screen)


@asynccontextmanager
async def _open_daemon_store(screen: Screen, absent: NoDaemon) -> AsyncIterator[Target]:
    """Open the store of the daemon, which does not listen, to read it.

    Raise `NoDaemon` without a store, and `NeedsTrio` if the caller does not run on trio.
    """
    from supervisor.client.running_loop import is_in_event_loop  # noqa: PLC0415 - see above

    path = load_configuration(None).daemon.database
    if not os.path.exists(path):  # noqa: ASYNC240, PTH110 - fast, and as in require_file
        raise type(absent)(
            f"{absent.args[0]}, and no store exists at {path}", hint=absent.hint
        ) from None
    if not is_in_event_loop():
        raise NeedsTrio
    from supervisor.offline import open_for_reading  # noqa: PLC0415 - see above

    async with open_for_reading(path) as sup:
        note = _absence_note(path)
        if screen.as_json:
            screen.warn(note)
        else:
            screen.note(note)
        yield sup


def _absence_note(store: str) -> str:
    from supervisor.store.sqlite.lock import is_held, read_notes  # noqa: PLC0415 - see above

    path = Path(os.path.realpath(store))
    if is_held(path):
        return f"The daemon (process {read_notes(path).pid}) does not listen; showing its store."
    return "The daemon is not running; showing its store as the next start will recover it."


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


_PAGE_SIZE: Final = 500


async def find_session(sup: Target, text: str) -> Session:
    """Return the session that the text names, by one request.

    Raise `SessionNotFound` if there is none, and `AmbiguousId` if there are several.
    """
    found = (await _find(sup, "session", text, None)).id
    remember_typed(found, text)
    return sup.session(found)


async def find_id(
    sup: Target,
    kind: IdKind,
    text: str,
    *,
    session: Session | None = None,
    typed: str | None = None,
) -> str:
    """Return the id of the kind that the text stands for, in the session if one is given.

    `typed` is how the user named the session; errors name it so.

    Raise `SessionNotFound`, `PermissionNotFound` or `IdNotFound` if there is none, and
    `AmbiguousId` if there are several.
    """
    return (await _find(sup, kind, text, session, typed)).id


async def find_exact_session(sup: Target, text: str) -> Session:
    """Return the session with this whole id, the root with this name, or the child of this path.

    A part of an id is refused, and the bare name of a child, so that a command that is repeated
    never means another session.
    """
    match = await _find(sup, "session", text, None)
    found = sup.session(match.id)
    if text != match.id and not _is_exact(text, match, await found.info()):
        raise SessionNotFound(
            f"no session has the id or the path {short_repr(text)}, and no root has that name",
            hint="write the whole id or the name of a root, as listed by `understudy ps --all`, or"
            " for a child a path ROOT/CHILD",
        )
    remember_typed(match.id, text)
    return found


def _is_exact(text: str, match: Match, info: Info) -> bool:
    """Return True if the text is the name of the root, or a path to the child."""
    from supervisor.core.validation import make_session_name  # noqa: PLC0415 - only to delete

    if info.parent is None:
        return text == info.name == make_session_name(text)
    above, _, last = text.rpartition("/")
    return bool(above) and last in (match.id, info.name)


async def _find(
    sup: Target, kind: IdKind, text: str, session: Session | None, typed: str | None = None
) -> Match:
    shown = typed if typed is not None or session is None else session.id
    if not text.strip():
        raise _not_found(kind, text, shown)
    inside = None if session is None else session.id
    found = (await sup.resolve(text, kind, session=inside)).items
    if not found:
        raise _not_found(kind, text, shown)
    return found[0]


def _not_found(kind: IdKind, text: str, session: str | None) -> SupervisorError:
    """Return the error for a text that stands for no id of the kind."""
    if kind == "session":
        return SessionNotFound(
            f"no session matches {short_repr(text)}", hint="`understudy ps` lists them"
        )
    if kind == "request":
        return PermissionNotFound(
            f"no pending request matches {short_repr(text)}", hint="`understudy inbox` lists them"
        )
    where = "" if session is None else f" of session {session}"
    shown = "ID" if session is None else shlex.quote(session)
    command = f"understudy {'inputs' if kind == 'input' else 'log'} {shown}"
    return IdNotFound(
        f"no {kind}{where} matches {short_repr(text)}", hint=f"`{command}` lists them"
    )


async def all_sessions(
    sup: Target,
    *,
    with_text: str | None = None,
    root: str | None = None,
    badge: Badge | None = None,
    tag: str | None = None,
) -> AsyncIterator[Info]:
    """Yield all sessions, or those that match the filters, read page by page.

    `with_text` is part of the name, title or key.
    """
    cursor: str | None = None
    while True:
        page = await sup.list(
            text=with_text, root=root, badge=badge, tag=tag, limit=_PAGE_SIZE, cursor=cursor
        )
        for info in page.items:
            yield info
        cursor = page.next
        if cursor is None:
            return
