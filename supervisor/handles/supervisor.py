"""The supervisor that `supervisor.open()` yields."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Unpack

import attrs
import trio

from supervisor.config import Settings
from supervisor.core import events as ev
from supervisor.core.agent_options import OptionChanges
from supervisor.core.creation import SessionSpec
from supervisor.core.errors import (
    InvalidDecision,
    PermissionNotFound,
    SessionNotFound,
    short_repr,
)
from supervisor.core.ids import SessionKey, parse_session_id
from supervisor.core.limits import Ladder, Limits, OnStall, Restart
from supervisor.core.log_content import Content
from supervisor.core.mcp_server_list import check_mcp_servers
from supervisor.core.permissions import Permissions
from supervisor.core.state import Decision
from supervisor.core.validation import (
    check_bool,
    check_choice,
    check_key,
    check_name,
    check_prompt,
    check_text,
)
from supervisor.drivers.port import AgentKind
from supervisor.sessions.hooks import Hooks
from supervisor.sessions.inbox import PermissionRequest
from supervisor.sessions.maintenance import clean_up, import_session
from supervisor.sessions.maintenance_reports import CleanupReport, Reloaded
from supervisor.sessions.reload import reload
from supervisor.sessions.shutdown import drain
from supervisor.store.importing import ImportFormat

from .arguments import check_path
from .queries import SessionQueries
from .session import Session
from .shapes import Options
from .specs import make_spec
from .submission import make_idempotency
from .tool_access import ToolAccess
from .views import Introspection, make_retention_rules

logger = logging.getLogger("supervisor")


class Supervisor(SessionQueries):
    """The sessions of one store: create, find, list, search, watch, maintain and drain.

    `supervisor.open()` yields a supervisor. After that block has ended, every method raises
    `SessionNotActive`.
    """

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
    ) -> Session:
        """Create a session; return its handle when its agent is up and it is idle.

        An argument that is None has the value of the settings. `options` are those of the agent, by
        id or by the short names `mode`, `model` and `effort`; `model=` and `effort=` are the same.
        They are set when the agent starts, and one that it does not offer is a warning record.
        `mcp_servers` go to an ACP agent besides those of its configuration, as far as `permissions`
        allow. They are in memory only: a restarted supervisor has their names, for a warning.

        Raise `AgentUnknown` if no agent has that name, `AgentStartFailed` if the agent does not
        start (the session exists and is stopped), `KeyTaken` if another session holds the key,
        `NameTaken` if another root holds the name, `ConfigError` for an invalid argument, and
        `SpawnRefused` if there are `max_sessions` already. If the call is cancelled, the creation
        continues; with an `idempotency_key` the same request returns the same session.
        """
        spec = self._make_spec(
            agent,
            key=None if key is None else check_key(key),
            name=name,
            title=title,
            tags=tags,
            custom=custom,
            workspace=workspace,
            limits=limits,
            permissions=permissions,
            restart=restart,
            ladder=ladder,
            queue_cap=queue_cap,
            max_text_bytes=max_text_bytes,
            max_turn_bytes=max_turn_bytes,
            steer_fallback=steer_fallback,
            permission_timeout_seconds=permission_timeout_seconds,
            suspend_after_seconds=suspend_after_seconds,
            quiet_after_seconds=quiet_after_seconds,
            stalled_after_seconds=stalled_after_seconds,
            tool_stalled_after_seconds=tool_stalled_after_seconds,
            on_stall=on_stall,
            turn_deadline_seconds=turn_deadline_seconds,
            answers_for_children=answers_for_children,
            options=options,
            model=model,
            effort=effort,
        )
        servers = check_mcp_servers(() if mcp_servers is None else mcp_servers)
        if servers:
            spec = attrs.evolve(spec, mcp_servers=tuple(server["name"] for server in servers))
        created = await self._parts.lifecycle.create(
            spec,
            idempotency=make_idempotency(idempotency_key, spec),
            mcp_servers=servers,
        )
        return Session(self._parts, created)

    async def get_or_create(
        self,
        key: SessionKey | str,
        *,
        agent: str | None = None,
        **options: Unpack[Options],
    ) -> Session:
        """Return the session that holds the key, in any phase; create it if there is none.

        `agent` defaults to the agent of the key; the other options are those of `create`, and are
        ignored if the session exists. Concurrent calls with one key create one session. Raise
        `InvalidKey` if the key is malformed, and as `create` does. If the call is cancelled, a
        creation continues.
        """
        key = check_key(key)
        spec = self._make_spec(key.agent if agent is None else agent, key=key, **options)
        return Session(self._parts, await self._parts.lifecycle.get_or_create(key, spec))

    async def new(
        self,
        key: SessionKey | str,
        *,
        agent: str | None = None,
        **options: Unpack[Options],
    ) -> Session:
        """Stop and archive the session that holds the key, and return a new one with that key.

        Both are one commit. `agent` defaults to the agent of the old session, or of the key if
        there is none; the other options are those of `create`. Raise as `create` does. If the call
        is cancelled, the replacement continues.
        """
        key = check_key(key)
        created = await self._parts.lifecycle.replace(
            key,
            lambda old: self._make_spec(
                (old or key.agent) if agent is None else agent, key=key, **options
            ),
        )
        return Session(self._parts, created)

    async def reset(self, key: SessionKey | str) -> Session:
        """Start a new chapter in the session that holds the key, and return that session.

        Raise `SessionNotFound` if no session holds the key, and as `Session.clear` does.
        """
        self._services.refuse_if_closed()
        holder = self._parts.lifecycle.holder(check_key(key))
        if holder is None:
            raise SessionNotFound(f"no session holds the key {key}", hint="use get_or_create()")
        session = Session(self._parts, holder)
        await session.clear()
        return session

    async def delete(self, id: str) -> None:  # noqa: A002 - a public name
        """Stop the session and delete everything that is stored about it.

        Raise `SessionNotFound` if the session does not exist, and `StoreDegraded` while the store
        cannot write. If the call is cancelled, the deletion continues.
        """
        await self._parts.deletion.delete(parse_session_id(id))

    # Maintenance ----------------------------------------------------------------------------

    async def import_(
        self,
        path: str | os.PathLike[str],
        format: ImportFormat = "jsonl",  # noqa: A002 - its name in every interface
        *,
        agent: str | None = None,
    ) -> Session:
        """Create a stopped session from a file, and return its handle.

        The format is `jsonl`, `picoclaw` or `ggcode`. The session gets a new id, the records of the
        file, and the limits and permissions of a new session; `agent` replaces the agent that the
        file names, and a number is added to its name if that is taken. Raise `ImportFailed` with
        the line number if the file cannot be imported, and `ConfigError` for an invalid argument.
        If the call is cancelled, the session may have been stored.
        """
        name = check_path("path", path)
        if agent is not None:
            agent = check_name("agent", agent)
        check_choice("format", format, ImportFormat)
        imported, warnings = await import_session(
            self._services, self._parts.lifecycle, name, format, agent
        )
        for warning in warnings:
            # What follows the colon are words of the file.
            shown = warning.partition(":")[0]
            logger.warning("import of %s: %s", Content(name), Content(warning, shown=shown))
        return Session(self._parts, imported)

    async def backup(self, path: str | os.PathLike[str]) -> int:
        """Copy the store into a new file while it is in use; return the size in bytes.

        Raise `ConfigError` if the file exists or cannot be written, or the store is in memory.
        """
        self._services.refuse_if_closed()
        return await self._services.store.backup(Path(check_path("path", path)))

    async def cleanup(
        self,
        *,
        older_than_seconds: float | None = None,
        keep_last: int | None = None,
        max_bytes: int | None = None,
        dry_run: bool = False,
    ) -> CleanupReport:
        """Delete trees whose sessions are all stopped; return the deleted sessions.

        The rules select trees unchanged for `older_than_seconds`, trees beyond the newest
        `keep_last`, and the oldest trees until the rest has at most `max_bytes`. Trees without any
        message are always deleted after one hour. With `dry_run`, only report. Raise `ConfigError`
        for an invalid argument.
        """
        self._services.refuse_if_closed()
        rules = make_retention_rules(older_than_seconds, keep_last, max_bytes)
        return await clean_up(
            self._services,
            self._parts.registry,
            self._parts.deletion,
            rules,
            dry_run=check_bool("dry_run", dry_run),
        )

    # Hooks --------------------------------------------------------------------------------

    @property
    def hooks(self) -> Hooks:
        """The registered hooks; `sup.hooks.add(point, callback)` adds one."""
        return self._services.hooks

    # Permissions --------------------------------------------------------------------------

    async def permissions(self) -> tuple[PermissionRequest, ...]:
        """Return the pending permission requests and questions of all sessions, oldest first."""
        self._services.refuse_if_closed()
        await trio.lowlevel.checkpoint()
        return self._services.inbox.pending()

    async def answer(self, request_id: str, decision: Decision) -> None:
        """Answer a permission request; the agent continues with the decision.

        Raise `PermissionNotFound` if no such request waits, `PermissionConflict` if it was
        answered already, and `InvalidDecision` if it does not offer the decision.
        """
        check_text("request_id", request_id)
        self._services.refuse_if_closed()
        request = self._services.inbox.find(request_id)
        if request.asks == "question":
            raise InvalidDecision(
                f"request {request.id} is a question", hint="answer it with a text"
            )
        if decision not in request.options:
            raise InvalidDecision(
                f"request {request.id} does not offer {short_repr(decision)}",
                hint=f"choose one of {', '.join(request.options)}",
            )
        event = ev.RequestAnswered(request=request.id, decision=decision, **self._services.stamp())
        await self._answer(request, event)

    async def answer_question(self, request_id: str, text: str) -> None:
        """Answer a question of an agent with a text, one of its choices or any other.

        Raise `PermissionNotFound` if no such request waits, `PermissionConflict` if it was
        answered already, and `InvalidDecision` if it is not a question.
        """
        check_text("request_id", request_id)
        self._services.refuse_if_closed()
        request = self._services.inbox.find(request_id)
        event = ev.QuestionAnswered(
            request=request.id, text=check_prompt(text), **self._services.stamp()
        )
        await self._answer(request, event)

    async def _answer(
        self, request: PermissionRequest, event: ev.RequestAnswered | ev.QuestionAnswered
    ) -> None:
        try:
            await self._parts.router.ask(request.session_id, event, urgent=True)
        except PermissionNotFound:
            self._services.inbox.find(request.id)  # raises PermissionConflict if answered since
            raise

    # The supervisor as a whole --------------------------------------------------------------

    async def reload(
        self, *, agents: Iterable[AgentKind] | None = None, settings: Settings | None = None
    ) -> Reloaded:
        """Replace the agents and the settings; None leaves them unchanged. Return the changes.

        Running sessions are not changed: a session keeps its terms and limits, and its agent until
        that agent exits. Raise `ConfigError` for an invalid value; then nothing has changed.
        """
        self._services.refuse_if_closed()
        await trio.lowlevel.checkpoint()
        return reload(self._services, self._parts.admission, agents=agents, settings=settings)

    def introspect(self) -> Introspection:
        """Return a view of the supervisor's internals, for metrics and health checks."""
        return Introspection(self._services, self._parts.registry, self._parts.admission)

    def tool_access(self) -> ToolAccess:
        """Return what the tools of agents and assistants need besides handles."""
        return ToolAccess(self._parts)

    async def drain(self) -> None:
        """Refuse new work and return when all sessions are suspended or stopped.

        Running turns may finish within `exit_seconds`; the others are interrupted. New work stays
        refused afterwards, also if the call is cancelled.
        """
        self._services.refuse_if_closed()
        await drain(
            self._services,
            self._parts.registry,
            patience_seconds=self._services.settings().exit_seconds,
        )

    def _make_spec(self, agent: str, **options: Any) -> SessionSpec:  # noqa: ANN401 - the options of make_spec
        """Return the spec of a root.

        Missing options come from the agent's table, then the settings.
        """
        defaults = self._services.agents.defaults(agent)
        if options.get("permissions") is None:
            options["permissions"] = defaults.permissions
        if options.get("workspace") is None:
            options["workspace"] = defaults.workspace
        spec = make_spec(self._parts, agent, **options)
        if spec.limits is None:
            spec = attrs.evolve(spec, limits=defaults.limits or self._services.settings().limits)
        return spec
