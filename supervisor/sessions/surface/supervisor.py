"""What `supervisor.open()` gives: make sessions, find them, and answer what they ask."""

from __future__ import annotations

import logging
import os
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar, Unpack

import attrs
import trio

from supervisor.config import Settings
from supervisor.core import events as ev
from supervisor.core.creation import Plan
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
from supervisor.drivers.port import AgentKind
from supervisor.sessions.hooks import Hooks
from supervisor.sessions.house.leaving import leave
from supervisor.sessions.house.reloading import Reloaded, reload
from supervisor.sessions.inbox import PermissionRequest
from supervisor.sessions.library.cleaning import CleanupReport, clean_up
from supervisor.sessions.library.importing import import_session
from supervisor.sessions.library.searching import SearchHit, search
from supervisor.sessions.refusals import not_found
from supervisor.sessions.shell.feed import Everything
from supervisor.store.importing import Format

from .checks import a_flag, checked_path, decoded, known_word, some_number, some_text
from .handle import Session
from .listing import checked_filter, checked_rules, encoded, listed
from .overview import Stats, stats_of, tree_of
from .plans import make_plan
from .sending import idempotency_of
from .shapes import Options, Page

if TYPE_CHECKING:
    from supervisor.sessions.house.house import House

T = TypeVar("T")
logger = logging.getLogger("supervisor")


class Supervisor:
    """Holds the reins of all sessions of one store."""

    def __init__(self, house: House) -> None:
        self._house = house

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
    ) -> Session:
        """Make a session; answers when its agent is up and it is idle.

        What is None is as the settings have it. Raises `AgentUnknown`, `AgentStartFailed`,
        `KeyTaken`, and `SpawnRefused` if there are `max_sessions` already. Giving up the wait does
        not undo it.
        """
        plan = self._plan(
            agent,
            key=None if key is None else as_key(key),
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
        )
        idempotency = idempotency_of(idempotency_key, plan)
        made = await self._house.register.create(plan, idempotency=idempotency)
        return Session(self._house, made)

    async def get_or_create(
        self,
        key: SessionKey | str,
        *,
        agent: str | None = None,
        **options: Unpack[Options],
    ) -> Session:
        """The session that bears the key, in any phase; made if there is none.

        `agent` is the key's own unless you name another, and further options are those of `create`.
        """
        key = as_key(key)
        plan = self._plan(key.agent if agent is None else agent, key=key, **options)
        return Session(self._house, await self._house.register.get_or_create(key, plan))

    async def new(
        self,
        key: SessionKey | str,
        *,
        agent: str | None = None,
        **options: Unpack[Options],
    ) -> Session:
        """Archive the session that bears the key, and begin another one that does."""
        key = as_key(key)
        made = await self._house.register.replace(
            key,
            lambda old: self._plan(
                (old or key.agent) if agent is None else agent, key=key, **options
            ),
        )
        return Session(self._house, made)

    async def reset(self, key: SessionKey | str) -> Session:
        """Begin a new chapter in the session that bears the key."""
        self._house.tree.refuse_if_closed()
        bearer = self._house.register.bearer(as_key(key))
        if bearer is None:
            raise SessionNotFound(f"no session bears the key {key}", hint="use get_or_create()")
        session = Session(self._house, bearer)
        await session.clear()
        return session

    def session(self, id: str) -> Session:  # noqa: A002 - its public name
        """A handle, without looking whether there is such a session."""
        return Session(self._house, session_id(id))

    async def get(self, id: str) -> Session:  # noqa: A002 - its public name
        """A handle on a session that exists, or `SessionNotFound`.

        One whose row cannot be read exists: it can be repaired, or deleted.
        """
        session = self.session(id)
        if not await self._house.tree.exists(session.id):
            raise not_found(session.id)
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
        await self._house.register.delete(session_id(id))

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
        """Sessions in the order of their making, those that fit all that is given.

        `text` is part of the name, the title or the key. `cursor` is the `next` of the page before;
        what is made or deleted meanwhile shifts nothing.
        """
        self._house.tree.refuse_if_closed()
        wanted = checked_filter(
            agent=agent,
            phase=phase,
            badge=badge,
            tag=tag,
            workspace=workspace,
            channel=channel,
            peer=peer,
            parent=parent,
            root=root,
            archived=archived,
            text=text,
            created_after=created_after,
            created_before=created_before,
            updated_after=updated_after,
            updated_before=updated_before,
        )
        items, more = await listed(
            self._house, wanted, decoded(cursor), some_number("limit", limit)
        )
        return Page(items, encoded(more))

    async def search(
        self,
        text: str,
        *,
        session: str | None = None,
        limit: int = 20,
        cursor: str | None = None,
    ) -> Page[SearchHit]:
        """What people and agents have said that has all these words, the last said first."""
        self._house.tree.refuse_if_closed()
        hits, more = await search(
            self._house,
            some_text("text", text),
            session_id=None if session is None else session_id(session),
            before=decoded(cursor) if cursor is not None else None,
            limit=some_number("limit", limit),
        )
        return Page(hits, encoded(more))

    async def tree(self, root: str | None = None) -> tuple[Node, ...]:
        """Every root that lives, or has somebody below it who does, with its children as nodes.

        With `root`, only what is below that session; raises `SessionNotFound`.
        """
        self._house.tree.refuse_if_closed()
        if root is None:
            return await tree_of(self._house, None)
        return await tree_of(self._house, (await self.get(root)).id)

    async def stats(self) -> Stats:
        """How many sessions there are, in which phase, and what they come to."""
        self._house.tree.refuse_if_closed()
        return await stats_of(self._house)

    # Keeping ------------------------------------------------------------------------------

    async def import_(
        self,
        path: str | os.PathLike[str],
        format: Format = "jsonl",  # noqa: A002 - the word that every surface uses for it
        *,
        agent: str | None = None,
    ) -> Session:
        """Make a session of a file: our `jsonl`, or the files of `picoclaw` and `ggcode`.

        It gets a new id, its records are those of the file, and it is stopped: what it may do is
        what any new session of this supervisor may. Raises `ImportFailed` with the line's number.
        """
        name = checked_path("path", path)
        if agent is not None:
            agent = some_text("agent", agent)
        known_word("format", format, Format)
        made, warnings = await import_session(self._house, name, format, agent)
        for warning in warnings:
            logger.warning("import of %s: %s", name, warning)
        return Session(self._house, made)

    async def backup(self, path: str | os.PathLike[str]) -> int:
        """Copy the whole store into a new file, while it is in use; gives its size in bytes."""
        self._house.tree.refuse_if_closed()
        return await self._house.store.backup(Path(checked_path("path", path)))

    async def cleanup(
        self,
        *,
        older_than_seconds: float | None = None,
        keep_last: int | None = None,
        max_bytes: int | None = None,
        dry_run: bool = False,
    ) -> CleanupReport:
        """Delete trees in which all are stopped: old ones, too many, or too large in all.

        Roots in which nobody ever said anything go after an hour, whatever else is asked.
        """
        self._house.tree.refuse_if_closed()
        rules = checked_rules(older_than_seconds, keep_last, max_bytes)
        return await clean_up(self._house, rules, dry_run=a_flag("dry_run", dry_run))

    # Hooks --------------------------------------------------------------------------------

    @property
    def hooks(self) -> Hooks:
        """Functions of yours that are asked, or told: `sup.hooks.add(point, callback)`."""
        return self._house.hooks

    # Permissions --------------------------------------------------------------------------

    async def permissions(self) -> tuple[PermissionRequest, ...]:
        """What waits for a decision, over all sessions, the oldest first."""
        self._house.tree.refuse_if_closed()
        await trio.lowlevel.checkpoint()
        return self._house.inbox.waiting()

    async def answer(self, request_id: str, decision: Decision) -> None:
        """Decide; raises `PermissionNotFound`, `PermissionConflict` or `InvalidDecision`."""
        some_text("request_id", request_id)
        self._house.tree.refuse_if_closed()
        request = self._house.inbox.find(request_id)
        if decision not in request.options:
            raise InvalidDecision(
                f"request {request.id} does not offer {shown(decision)}",
                hint=f"choose one of {', '.join(request.options)}",
            )
        event = ev.RequestAnswered(request=request.id, decision=decision, **self._house.stamp())
        try:
            await self._house.lines.ask(request.session_id, event, urgent=True)
        except PermissionNotFound:
            self._house.inbox.find(request_id)  # says who was faster, if somebody was
            raise

    # Everything ---------------------------------------------------------------------------

    @asynccontextmanager
    async def watch(self, after: int = 0) -> AsyncIterator[Everything]:
        """The records of all sessions, in the order of their commits, from a position on."""
        if isinstance(after, bool) or not isinstance(after, int) or after < 0:
            raise ConfigError(f"after is {shown(after)}", hint="give a position, or 0")
        house = self._house
        house.tree.refuse_if_closed()
        reader = Everything(house.store, after=after, is_published=house.is_published)
        self._house.readers.append(reader)
        try:
            yield reader
        finally:
            self._house.readers.remove(reader)

    async def reload(
        self, *, agents: Iterable[AgentKind] | None = None, settings: Settings | None = None
    ) -> Reloaded:
        """Have these agents and settings from now on, and leave what is None.

        No session that lives is touched: its terms and limits are its own, and its agent stays
        until it ends. Raises `ConfigError`, and then nothing has changed.
        """
        self._house.tree.refuse_if_closed()
        await trio.lowlevel.checkpoint()
        return reload(self._house, agents=agents, settings=settings)

    async def drain(self) -> None:
        """Refuse new work, let turns end within `exit_seconds`, interrupt the rest, and rest."""
        self._house.tree.refuse_if_closed()
        await leave(self._house, patience_seconds=self._house.settings.exit_seconds)

    def _plan(self, agent: str, **options: Any) -> Plan:  # noqa: ANN401 - see make_plan
        usual = self._house.confinement(agent)
        if options.get("permissions") is None:
            options["permissions"] = usual.permissions
        if options.get("workspace") is None:
            options["workspace"] = usual.workspace
        plan = make_plan(self._house, agent, **options)
        if plan.limits is None:
            plan = attrs.evolve(plan, limits=usual.limits or self._house.settings.limits)
        return plan
