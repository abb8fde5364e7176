"""All sessions of a daemon, by the names of `supervisor.Supervisor`."""

from __future__ import annotations

import builtins
import contextlib
import os
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any, Final, Literal, NoReturn, TypeVar, Unpack, get_args

import supervisor  # for answers that are hardly ever asked for: they come in when they are
from supervisor.api.wire.answers import BackupReport
from supervisor.core.errors import (
    ConfigError,
    InvalidDecision,
    NotStorable,
    PermissionNotFound,
    SessionNotFound,
    shown,
)
from supervisor.core.ids import SessionKey, as_key, session_id
from supervisor.core.info import Badge, Info, Node
from supervisor.core.limits import Ladder, Limits, Restart
from supervisor.core.permissions import Permissions
from supervisor.core.session import Decision, OnStall, Phase
from supervisor.sessions.inbox import PermissionRequest
from supervisor.sessions.surface.checks import (
    checked_path,
    checked_wanted,
    decoded,
    known_options,
    known_word,
    some_number,
    some_text,
    whole_workspace,
)
from supervisor.sessions.surface.shapes import Options, Page

from .given import checked, of_session
from .line import SLOW_SECONDS, Line, is_id
from .session import RemoteSession
from .watching import RemoteEverything, following

if TYPE_CHECKING:
    from supervisor.store.importing import Format

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
        return await self._made("v1/sessions", of_session(given, needed={"agent"}))

    async def get_or_create(
        self, key: SessionKey | str, *, agent: str | None = None, **options: Unpack[Options]
    ) -> RemoteSession:
        """The session that bears the key, in any phase; made if there is none."""
        return await self._made("v1/keys/get_or_create", _of_key(key, agent, options))

    async def new(
        self, key: SessionKey | str, *, agent: str | None = None, **options: Unpack[Options]
    ) -> RemoteSession:
        """Archive the session that bears the key, and begin another one that does."""
        return await self._made("v1/keys/new", _of_key(key, agent, options))

    async def reset(self, key: SessionKey | str) -> RemoteSession:
        """Begin a new chapter in the session that bears the key."""
        return await self._made("v1/keys/reset", {"key": str(as_key(key))})

    def session(self, id: str) -> RemoteSession:  # noqa: A002 - its public name
        """A handle, without looking whether there is such a session."""
        return RemoteSession(self._line, session_id(id))

    async def get(self, id: str) -> RemoteSession:  # noqa: A002 - its public name
        """A handle on a session that exists, or `SessionNotFound`."""
        session = self.session(id)
        with contextlib.suppress(NotStorable):  # it is there: it can be repaired, or deleted
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
        checked_wanted(given)
        given["workspace"] = whole_workspace(workspace)  # of our working folder
        return await self._page(Page[Info], "v1/sessions", given)

    async def search(
        self,
        text: str,
        *,
        session: str | None = None,
        limit: int = 20,
        cursor: str | None = None,
    ) -> Page[supervisor.SearchHit]:
        """What people and agents have said that has all these words, the last said first."""
        whose = None if session is None else session_id(session)
        given = {"q": some_text("text", text), "session": whose, "limit": limit, "cursor": cursor}
        return await self._page(Page[supervisor.SearchHit], "v1/search", given)

    async def tree(self, root: str | None = None) -> tuple[Node, ...]:
        """Every root that lives, or has somebody below it who does, with its children as nodes."""
        given = {"root": None if root is None else session_id(root)}
        return (await self._line.ask(Page[Node], "GET", "v1/tree", given)).items

    async def stats(self) -> supervisor.Stats:
        """How many sessions there are, in which phase, and what they come to."""
        return await self._line.ask(supervisor.Stats, "GET", "v1/stats")

    # Keeping ------------------------------------------------------------------------------

    async def import_(
        self,
        path: str | os.PathLike[str],
        format: Format = "jsonl",  # noqa: A002 - the word that every surface uses for it
        *,
        agent: str | None = None,
    ) -> RemoteSession:
        """Make a session of a file: our `jsonl`, or the files of `picoclaw` and `ggcode`."""
        from supervisor.store.importing import Format  # noqa: PLC0415 - only for this

        given = checked({"path": _absolute(path), "format": format, "agent": agent})
        known_word("format", format, Format)
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
    ) -> supervisor.CleanupReport:
        """Delete trees in which all are stopped: old ones, too many, or too large in all."""
        given = {
            "older_than_seconds": older_than_seconds,
            "keep_last": keep_last,
            "max_bytes": max_bytes,
            "dry_run": dry_run,
        }
        checked(given)
        return await self._line.ask(
            supervisor.CleanupReport, "POST", "v1/cleanup", given, timeout_seconds=SLOW_SECONDS
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
        some_text("request_id", request_id)
        if not is_id(request_id):
            raise PermissionNotFound(
                f"no request {shown(request_id)} is waiting",
                hint="list the requests that wait; an interrupted turn cancels its own",
            )
        # Of words it is the request that says whether it offers them.
        if not isinstance(decision, str) or not decision.isascii():
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

    async def reload(self) -> supervisor.Reloaded:
        """Have the daemon read its configuration again; says what has changed by that."""
        return await self._line.ask(
            supervisor.Reloaded, "POST", "v1/reload", timeout_seconds=SLOW_SECONDS
        )

    async def drain(self) -> None:
        """Refuse new work, let turns end within `exit_seconds`, interrupt the rest, and rest."""
        await self._line.fetch("POST", "v1/drain", timeout_seconds=SLOW_SECONDS)

    async def _page(self, kind: type[Page[T]], path: str, given: Mapping[str, Any]) -> Page[T]:
        """As many as were asked for, in as many questions as that takes."""
        wanted = some_number("limit", given["limit"])
        decoded(given["cursor"])
        if wanted <= MAX_PAGE:
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
        info = await self._line.ask(Info, "POST", path, given, timeout_seconds=SLOW_SECONDS)
        return RemoteSession(self._line, info.id)


def _of_key(key: SessionKey | str, agent: str | None, options: Options) -> Mapping[str, Any]:
    known_options("a session", options)
    return of_session({"key": as_key(key), "agent": agent, **options})


def _absolute(path: str | os.PathLike[str]) -> str:
    """The daemon has another working folder than we."""
    return os.path.abspath(checked_path("path", path))  # noqa: PTH100 - not resolved: it may not exist
