"""All sessions of a daemon, by the names of `supervisor.Supervisor`."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NoReturn, Unpack, get_args

from supervisor.core.agent_options import OptionChanges
from supervisor.core.errors import (
    ConfigError,
    InvalidDecision,
    NotStorable,
    PermissionNotFound,
    SessionNotFound,
    short_repr,
)
from supervisor.core.ids import SessionKey, parse_session_id
from supervisor.core.info import Badge, Info, Node
from supervisor.core.limits import Ladder, Limits, OnStall, Restart
from supervisor.core.match import IdKind, Match
from supervisor.core.permissions import Permissions
from supervisor.core.session_values import Decision, Phase
from supervisor.core.validation import check_choice, check_key, check_prompt, check_text
from supervisor.handles.arguments import (
    absolute_workspace,
    check_list_filters,
    check_options,
    check_path,
)
from supervisor.handles.page import Page

from .pages import get_page
from .transport import SLOW_SECONDS, Transport, is_id

if TYPE_CHECKING:
    from supervisor.core.agent_list import ListedAgent
    from supervisor.handles.shapes import Options
    from supervisor.handles.views import Stats
    from supervisor.sessions.inbox import PermissionRequest
    from supervisor.sessions.maintenance_reports import CleanupReport, Reloaded, SearchHit
    from supervisor.store.importing import ImportFormat

    from .feed import RemoteGlobalFeed
    from .session import RemoteSession
    from .watch import RemoteSessionFeed


class RemoteSupervisor:
    """A supervisor in another process, as `connect()` yields it.

    See `supervisor.Supervisor` for the methods.

    Paths are paths of the daemon's machine, which is this one. Hooks are functions, so they are
    added where the supervisor is opened, not here.
    """

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

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
        options: OptionChanges | None = None,
        model: str | None = None,
        effort: str | None = None,
        mcp_servers: Sequence[Mapping[str, Any]] | None = None,
        idempotency_key: str | None = None,
    ) -> RemoteSession:
        """Create a session; return when its agent has started and it is idle."""
        arguments = {name: value for name, value in locals().items() if name != "self"}
        from .arguments import session_arguments  # noqa: PLC0415 - commands that list do without it

        return await self._post_for_session(
            "v1/sessions", session_arguments(arguments, required={"agent"})
        )

    async def get_or_create(
        self, key: SessionKey | str, *, agent: str | None = None, **options: Unpack[Options]
    ) -> RemoteSession:
        """Return the holder of the key, in any phase; create it if there is none."""
        return await self._post_for_session(
            "v1/keys/get_or_create", _key_arguments(key, agent, options)
        )

    async def new(
        self, key: SessionKey | str, *, agent: str | None = None, **options: Unpack[Options]
    ) -> RemoteSession:
        """Archive the holder of the key and create another one."""
        return await self._post_for_session("v1/keys/new", _key_arguments(key, agent, options))

    async def reset(self, key: SessionKey | str) -> RemoteSession:
        """Start a new chapter in the holder of the key."""
        return await self._post_for_session("v1/keys/reset", {"key": str(check_key(key))})

    def session(self, id: str) -> RemoteSession:  # noqa: A002 - its public name
        """Return a handle without checking that the session exists."""
        from .session import RemoteSession  # noqa: PLC0415 - commands that list do without it

        return RemoteSession(self._transport, parse_session_id(id))

    async def get(self, id: str) -> RemoteSession:  # noqa: A002 - its public name
        """Return a handle of an existing session; raise `SessionNotFound` if it does not exist."""
        session = self.session(id)
        with contextlib.suppress(NotStorable):  # it exists, and can be repaired or deleted
            await session.info()
        return session

    async def exists(self, id: str) -> bool:  # noqa: A002 - its public name
        """Return True if the session exists."""
        try:
            await self.get(id)
        except SessionNotFound:
            return False
        return True

    async def delete(self, id: str) -> None:  # noqa: A002 - its public name
        """Stop the session and delete all its records."""
        path = f"v1/sessions/{parse_session_id(id)}"
        await self._transport.request_bytes("DELETE", path, timeout_seconds=SLOW_SECONDS)

    async def resolve(
        self, text: str, kind: IdKind | None = None, *, session: str | None = None
    ) -> Page[Match]:
        """Find the id that a text stands for; see `supervisor.Supervisor.resolve`."""
        if kind is not None:
            check_choice("kind", kind, IdKind)
        session_id = None if session is None else parse_session_id(session)
        arguments = {"text": check_text("text", text), "kind": kind, "session": session_id}
        return await self._transport.request(Page[Match], "GET", "v1/resolve", arguments)

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
        """Return the sessions that match all filters, oldest first."""
        arguments = {name: value for name, value in locals().items() if name != "self"}
        check_list_filters(arguments)
        arguments["workspace"] = absolute_workspace(workspace)  # relative to our working directory
        return await get_page(self._transport, Page[Info], "v1/sessions", arguments)

    async def search(
        self,
        text: str,
        *,
        session: str | None = None,
        limit: int = 20,
        cursor: str | None = None,
    ) -> Page[SearchHit]:
        """Return the messages that contain all words of the text, newest first."""
        from supervisor.sessions.maintenance_reports import (  # noqa: PLC0415 - rarely needed
            SearchHit,
        )

        session_id = None if session is None else parse_session_id(session)
        arguments = {
            "q": check_text("text", text),
            "session": session_id,
            "limit": limit,
            "cursor": cursor,
        }
        return await get_page(self._transport, Page[SearchHit], "v1/search", arguments)

    async def tree(self, root: str | None = None) -> tuple[Node, ...]:
        """Return every root that is live or has a live descendant, with its tree as nodes."""
        arguments = {"root": None if root is None else parse_session_id(root)}
        return (await self._transport.request(Page[Node], "GET", "v1/tree", arguments)).items

    async def stats(self) -> Stats:
        """Return counts of sessions by phase, and totals of their usage."""
        from supervisor.handles.views import Stats  # noqa: PLC0415 - rarely needed

        return await self._transport.request(Stats, "GET", "v1/stats")

    async def agents(self) -> tuple[ListedAgent, ...]:
        """Return the agents by name, with what is missing; no agent is started."""
        from supervisor.core.agent_list import ListedAgent  # noqa: PLC0415 - rarely needed

        return (await self._transport.request(Page[ListedAgent], "GET", "v1/agents")).items

    # Maintenance --------------------------------------------------------------------------

    async def import_(
        self,
        path: str | os.PathLike[str],
        format: ImportFormat = "jsonl",  # noqa: A002 - public name, the same in the CLI and HTTP
        *,
        agent: str | None = None,
    ) -> RemoteSession:
        """Create a session from a file in the format `jsonl`, `picoclaw` or `ggcode`."""
        from supervisor.store.importing import ImportFormat  # noqa: PLC0415 - rarely needed

        from .arguments import checked_arguments  # noqa: PLC0415 - commands that list do without it

        arguments = checked_arguments(
            {"path": _absolute_path(path), "format": format, "agent": agent}
        )
        check_choice("format", format, ImportFormat)
        return await self._post_for_session("v1/import", arguments)

    async def backup(self, path: str | os.PathLike[str]) -> int:
        """Copy the store to a new file while it is in use; return its size in bytes.

        The caller writes the file, not the daemon. Raise `ConfigError` if the file exists or cannot
        be written.
        """
        from .backup_copy import copy_backup  # noqa: PLC0415 - rarely needed

        return await copy_backup(self._transport, Path(_absolute_path(path)))

    async def cleanup(
        self,
        *,
        older_than_seconds: float | None = None,
        keep_last: int | None = None,
        max_bytes: int | None = None,
        dry_run: bool = False,
    ) -> CleanupReport:
        """Delete trees of stopped sessions by age, by number, or by total size."""
        from supervisor.sessions.maintenance_reports import (  # noqa: PLC0415 - rarely needed
            CleanupReport,
        )

        arguments = {
            "older_than_seconds": older_than_seconds,
            "keep_last": keep_last,
            "max_bytes": max_bytes,
            "dry_run": dry_run,
        }
        from .arguments import checked_arguments  # noqa: PLC0415 - commands that list do without it

        checked_arguments(arguments)
        return await self._transport.request(
            CleanupReport, "POST", "v1/cleanup", arguments, timeout_seconds=SLOW_SECONDS
        )

    @property
    def hooks(self) -> NoReturn:
        """Raise `ConfigError`: hooks are functions, so only the daemon's own process has them."""
        raise ConfigError(
            "hooks are functions and cannot be sent to the daemon",
            hint="add them where the supervisor is opened",
        )

    # Permissions --------------------------------------------------------------------------

    async def permissions(self) -> tuple[PermissionRequest, ...]:
        """Return the pending permission requests and questions of all sessions, oldest first."""
        from supervisor.sessions.inbox import PermissionRequest  # noqa: PLC0415 - rarely needed

        return (
            await self._transport.request(Page[PermissionRequest], "GET", "v1/permissions")
        ).items

    async def answer(self, request_id: str, decision: Decision) -> None:
        """Decide a permission request.

        Raise `PermissionNotFound` if the request is unknown, `PermissionConflict` if it was
        answered already, and `InvalidDecision` if the request does not offer the decision.
        """
        _check_request_id(request_id)
        # Whether a word is offered is checked by the daemon, against the request.
        if not isinstance(decision, str) or not decision.isascii():
            raise InvalidDecision(
                f"request {request_id} does not offer {short_repr(decision)}",
                hint=f"choose one of {', '.join(get_args(Decision))}",
            )
        await self._transport.request_bytes(
            "POST", f"v1/permissions/{request_id}", {"decision": decision}
        )

    async def answer_question(self, request_id: str, text: str) -> None:
        """Answer a question of an agent with a text, one of its choices or any other.

        Raise `PermissionNotFound` if the request is unknown, `PermissionConflict` if it was
        answered already, and `InvalidDecision` if it is not a question.
        """
        _check_request_id(request_id)
        await self._transport.request_bytes(
            "POST", f"v1/questions/{request_id}", {"text": check_prompt(text)}
        )

    # All sessions -------------------------------------------------------------------------

    def watch(self, after: int = 0) -> AbstractAsyncContextManager[RemoteGlobalFeed]:
        """Watch the records of all sessions in commit order, after a position.

        If `after` is beyond the last position, the feed raises `RecordNotFound`; a second
        `async for` yields all records.
        """
        if isinstance(after, bool) or not isinstance(after, int) or after < 0:
            raise ConfigError(f"after is {short_repr(after)}", hint="give a position, or 0")
        from .feed import RemoteGlobalFeed, open_feed  # noqa: PLC0415 - it needs trio

        return open_feed(RemoteGlobalFeed(self._transport, "v1/stream", {"after": after}))

    def watch_sessions(
        self, sessions: Sequence[str] = (), after: int = 0
    ) -> AbstractAsyncContextManager[RemoteSessionFeed]:
        """Watch the rows of all sessions, and the records of at most 16 named ones.

        See `supervisor.Supervisor.watch_sessions`. After a restart of the daemon the feed continues
        with a new `Snapshot`.
        """
        from supervisor.handles.session_rows import (  # noqa: PLC0415 - rarely needed
            check_named,
            check_position,
        )

        from .feed import open_feed  # noqa: PLC0415 - it needs an event loop
        from .watch import RemoteSessionFeed  # noqa: PLC0415 - as above

        named = check_named(sessions)
        check_position(after)
        return open_feed(RemoteSessionFeed(self._transport, named, after))

    async def reload(self) -> Reloaded:
        """Reload the daemon's configuration and return the changes."""
        from supervisor.sessions.maintenance_reports import (  # noqa: PLC0415 - rarely needed
            Reloaded,
        )

        return await self._transport.request(
            Reloaded, "POST", "v1/reload", timeout_seconds=SLOW_SECONDS
        )

    async def drain(self) -> None:
        """Refuse new work, let turns end within `exit_seconds`, interrupt and suspend the rest."""
        await self._transport.request_bytes("POST", "v1/drain", timeout_seconds=SLOW_SECONDS)

    async def _post_for_session(self, path: str, arguments: Mapping[str, Any]) -> RemoteSession:
        """Post the arguments and return a handle of the session in the answer."""
        info = await self._transport.request(
            Info, "POST", path, arguments, timeout_seconds=SLOW_SECONDS
        )
        return self.session(info.id)


def _key_arguments(key: SessionKey | str, agent: str | None, options: Options) -> Mapping[str, Any]:
    from .arguments import session_arguments  # noqa: PLC0415 - commands that list do without it

    check_options("a session", options)
    return session_arguments({"key": check_key(key), "agent": agent, **options})


def _check_request_id(request_id: str) -> None:
    check_text("request_id", request_id)
    if not is_id(request_id):
        raise PermissionNotFound(
            f"no pending request {short_repr(request_id)}",
            hint="list the pending requests; an interrupted turn cancels its requests",
        )


def _absolute_path(path: str | os.PathLike[str]) -> str:
    """Return the absolute path, because the daemon has another working directory."""
    return os.path.abspath(check_path("path", path))  # noqa: PTH100 - not resolved: it need not exist
