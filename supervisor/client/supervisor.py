"""All sessions of a daemon, by the names of `supervisor.Supervisor`."""

from __future__ import annotations

import builtins
import os
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Final, Literal, NoReturn, TypeVar, Unpack, get_args

from supervisor.api.wire.answers import BackupReport
from supervisor.core.errors import (
    ConfigError,
    InvalidDecision,
    PermissionNotFound,
    SessionNotFound,
    shown,
)
from supervisor.core.ids import SessionKey, as_key, session_id
from supervisor.core.info import Badge, Info, Node
from supervisor.core.limits import Ladder, Limits, Restart
from supervisor.core.permissions import Permissions
from supervisor.core.session import Decision, OnStall, Phase
from supervisor.sessions.house.reloading import Reloaded
from supervisor.sessions.inbox import PermissionRequest
from supervisor.sessions.library.cleaning import CleanupReport
from supervisor.sessions.library.searching import SearchHit
from supervisor.sessions.surface.checks import checked_path, some_text
from supervisor.sessions.surface.listing import checked_filter, decoded, some_number
from supervisor.sessions.surface.overview import Stats
from supervisor.sessions.surface.shapes import Options
from supervisor.sessions.surface.supervisor import Page
from supervisor.store.importing import Format

from .given import prepared
from .line import SLOW_SECONDS, Line, is_id
from .session import RemoteSession
from .watching import RemoteEverything, following

T = TypeVar("T")
# More than this the daemon does not give in one answer.
MAX_PAGE: Final = 1_000


class RemoteSupervisor:
    """What `connect()` gives. See `supervisor.Supervisor` for what the methods do.

    Paths that are given are those of the daemon's machine, which is this one. Hooks are functions,
    so they are added where the supervisor is opened, and not here.
    """

    def __init__(self, line: Line) -> None:
        self._line = line

    async def create(
        self,
        agent: str,
        *,
        key: SessionKey | str | None = None,
        name: str | None = None,
        title: str | None = None,
        tags: Sequence[str] = (),
        custom: Mapping[str, str] | None = None,
        workspace: str | None = None,
        limits: Limits | None = None,
        permissions: Permissions | None = None,
        restart: Restart | None = None,
        ladder: Ladder | None = None,
        queue_cap: int | None = None,
        max_text_bytes: int | None = None,
        max_turn_bytes: int | None = None,
        steer_fallback: Literal["queue", "interrupt"] | None = None,
        permission_timeout_seconds: float | None = None,
        suspend_after_seconds: float | None = None,
        quiet_after_seconds: float | None = None,
        stalled_after_seconds: float | None = None,
        tool_stalled_after_seconds: float | None = None,
        on_stall: OnStall | None = None,
        turn_deadline_seconds: float | None = None,
        answers_for_children: bool | None = None,
        idempotency_key: str | None = None,
    ) -> RemoteSession:
        """Make a session; answers when its agent is up and it is idle."""
        given = {name: value for name, value in locals().items() if name != "self"}
        return await self._made("v1/sessions", given)

    async def get_or_create(
        self, key: SessionKey | str, *, agent: str | None = None, **options: Unpack[Options]
    ) -> RemoteSession:
        """The session that bears the key, in any phase; made if there is none."""
        return await self._made("v1/keys/get_or_create", {"key": key, "agent": agent, **options})

    async def new(
        self, key: SessionKey | str, *, agent: str | None = None, **options: Unpack[Options]
    ) -> RemoteSession:
        """Archive the session that bears the key, and begin another one that does."""
        return await self._made("v1/keys/new", {"key": key, "agent": agent, **options})

    async def reset(self, key: SessionKey | str) -> RemoteSession:
        """Begin a new chapter in the session that bears the key."""
        return await self._made("v1/keys/reset", {"key": key})

    def session(self, id: str) -> RemoteSession:  # noqa: A002 - its public name
        """A handle, without looking whether there is such a session."""
        return RemoteSession(self._line, session_id(id))

    async def get(self, id: str) -> RemoteSession:  # noqa: A002 - its public name
        """A handle on a session that exists, or `SessionNotFound`."""
        session = self.session(id)
        await session.info()
        return session

    async def exists(self, id: str) -> bool:  # noqa: A002 - its public name
        """Whether there is such a session."""
        try:
            await self.get(id)
        except SessionNotFound:
            return False
        return True

    async def delete(self, id: str) -> None:  # noqa: A002 - its public name
        """Stop the session, and leave nothing of it."""
        path = f"v1/sessions/{session_id(id)}"
        await self._line.fetch("DELETE", path, timeout_seconds=SLOW_SECONDS)

    async def list(
        self,
        *,
        agent: str | None = None,
        phase: Phase | str | None = None,
        badge: Badge | None = None,
        tag: str | None = None,
        workspace: str | None = None,
        channel: str | None = None,
        peer: str | None = None,
        parent: str | None = None,
        root: str | None = None,
        archived: bool | None = None,
        text: str | None = None,
        created_after: float | None = None,
        created_before: float | None = None,
        updated_after: float | None = None,
        updated_before: float | None = None,
        limit: int = 100,
        cursor: str | None = None,
    ) -> Page[Info]:
        """Sessions in the order of their making, those that fit all that is given."""
        given = {name: value for name, value in locals().items() if name != "self"}
        # A query is all text: what is of another type would only look right once it was sent.
        filters = {name: value for name, value in given.items() if name not in ("limit", "cursor")}
        given["workspace"] = checked_filter(**filters).workspace  # of our working folder
        some_number("limit", limit)
        decoded(cursor)
        return await self._page(Page[Info], "v1/sessions", given)

    async def search(
        self,
        text: str,
        *,
        session: str | None = None,
        limit: int = 20,
        cursor: str | None = None,
    ) -> Page[SearchHit]:
        """What people and agents have said that has all these words, the last said first."""
        given = {
            "q": some_text("text", text),
            "session": None if session is None else session_id(session),
            "limit": some_number("limit", limit),
            "cursor": cursor,
        }
        decoded(cursor)
        return await self._page(Page[SearchHit], "v1/search", given)

    async def tree(self, root: str | None = None) -> tuple[Node, ...]:
        """Every root that lives, or has somebody below it who does, with its children as nodes."""
        given = {"root": None if root is None else session_id(root)}
        return (await self._line.ask(Page[Node], "GET", "v1/tree", given)).items

    async def stats(self) -> Stats:
        """How many sessions there are, in which phase, and what they come to."""
        return await self._line.ask(Stats, "GET", "v1/stats")

    # Keeping ------------------------------------------------------------------------------

    async def import_(
        self,
        path: str | os.PathLike[str],
        format: Format = "jsonl",  # noqa: A002 - the word that every surface uses for it
        *,
        agent: str | None = None,
    ) -> RemoteSession:
        """Make a session of a file: our `jsonl`, or the files of `picoclaw` and `ggcode`."""
        given = {"path": _absolute(path), "format": format, "agent": agent}
        return await self._made("v1/import", given)

    async def backup(self, path: str | os.PathLike[str]) -> int:
        """Copy the whole store into a new file, while it is in use; gives its size in bytes."""
        given = {"path": _absolute(path)}
        report = await self._line.ask(
            BackupReport, "POST", "v1/backup", given, timeout_seconds=SLOW_SECONDS
        )
        return report.bytes

    async def cleanup(
        self,
        *,
        older_than_seconds: float | None = None,
        keep_last: int | None = None,
        max_bytes: int | None = None,
        dry_run: bool = False,
    ) -> CleanupReport:
        """Delete trees in which all are stopped: old ones, too many, or too large in all."""
        given = {
            "older_than_seconds": older_than_seconds,
            "keep_last": keep_last,
            "max_bytes": max_bytes,
            "dry_run": dry_run,
        }
        return await self._line.ask(
            CleanupReport, "POST", "v1/cleanup", given, timeout_seconds=SLOW_SECONDS
        )

    @property
    def hooks(self) -> NoReturn:
        """Not here; raises `ConfigError`."""
        raise ConfigError(
            "hooks are functions, and cannot be sent to the daemon",
            hint="add them where the supervisor is opened",
        )

    # Permissions --------------------------------------------------------------------------

    async def permissions(self) -> tuple[PermissionRequest, ...]:
        """What waits for a decision, over all sessions, the oldest first."""
        return (await self._line.ask(Page[PermissionRequest], "GET", "v1/permissions")).items

    async def answer(self, request_id: str, decision: Decision) -> None:
        """Decide; raises `PermissionNotFound`, `PermissionConflict` or `InvalidDecision`."""
        if not is_id(request_id):
            raise PermissionNotFound(
                f"no request is called {shown(request_id)}", hint="list the requests that wait"
            )
        if decision not in get_args(Decision):
            raise InvalidDecision(
                f"request {request_id} does not offer {shown(decision)}",
                hint=f"choose one of {', '.join(get_args(Decision))}",
            )
        await self._line.fetch("POST", f"v1/permissions/{request_id}", {"decision": decision})

    # Everything ---------------------------------------------------------------------------

    def watch(self, after: int = 0) -> AbstractAsyncContextManager[RemoteEverything]:
        """The records of all sessions, in the order of their commits, from a position on."""
        if isinstance(after, bool) or not isinstance(after, int) or after < 0:
            raise ConfigError(f"after is {shown(after)}", hint="give a position, or 0")
        return following(RemoteEverything(self._line, "v1/stream", {"after": after}))

    async def reload(self) -> Reloaded:
        """Have the daemon read its configuration again; says what has changed by that."""
        return await self._line.ask(Reloaded, "POST", "v1/reload", timeout_seconds=SLOW_SECONDS)

    async def drain(self) -> None:
        """Refuse new work, let turns end within `exit_seconds`, interrupt the rest, and rest."""
        await self._line.fetch("POST", "v1/drain", timeout_seconds=SLOW_SECONDS)

    async def _page(self, kind: type[Page[T]], path: str, given: Mapping[str, Any]) -> Page[T]:
        """As many as were asked for, in as many questions as that takes."""
        wanted = given["limit"]
        if type(wanted) is not int or wanted <= MAX_PAGE:
            return await self._line.ask(kind, "GET", path, given)
        found: builtins.list[T] = []
        following = given["cursor"]
        while True:
            limit = min(wanted - len(found), MAX_PAGE)
            asked = {**given, "limit": limit, "cursor": following}
            page = await self._line.ask(kind, "GET", path, asked)
            found += page.items
            following = page.next
            if following is None or len(found) == wanted:
                return Page(tuple(found), following)

    async def _made(self, path: str, given: Mapping[str, Any]) -> RemoteSession:
        """The session that an answer tells of."""
        given = prepared(given)
        if given.get("key") is not None:
            given["key"] = str(as_key(given["key"]))
        info = await self._line.ask(Info, "POST", path, given, timeout_seconds=SLOW_SECONDS)
        return RemoteSession(self._line, info.id)


def _absolute(path: str | os.PathLike[str]) -> str:
    """The daemon has another working folder than we."""
    return os.path.abspath(checked_path("path", path))  # noqa: PTH100 - not resolved: it may not exist
