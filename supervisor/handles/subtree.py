"""The part of a tree that the agent of one session may reach, for the tools of agents.

Rule 1: a session outside it and one that does not exist are the same: the same reads are made, and
        the same error is raised.
Rule 2: it only finds and reads. What an agent changes, it changes through the handles it gets here,
        which know who calls.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, aclosing, contextmanager, suppress
from typing import Final, TypeAlias

import attrs
import trio

from supervisor.core.errors import (
    AmbiguousId,
    NotRunning,
    NotStorable,
    SessionNotFound,
    SupervisorError,
    short_repr,
)
from supervisor.core.ids import SessionId, parse_session_id
from supervisor.core.info import Info
from supervisor.core.match import PREFIXES, Match
from supervisor.core.names import held_name
from supervisor.core.records import Record
from supervisor.core.state import RUNNING, STOPPED, SessionState
from supervisor.store.list_filter import Filter

from .parts import Parts
from .session import Session

# A part of a session's state, which a wait compares with what it was.
StateKey: TypeAlias = Callable[[SessionState], Hashable]

_MAX_CANDIDATES: Final = 20
_GENERATED_ID: Final = re.compile(rf"{PREFIXES['session']}[0-9a-z]{{12}}")


@attrs.frozen(kw_only=True)
class Allowance:
    """What a session and its descendants may still use; None is without a limit.

    `levels` counts the levels below the session, `children` and `descendants` sessions that may be
    live at the same time, `spawns` all that may still be started.
    """

    children: int
    descendants: int
    levels: int
    spawns: int
    turns: int | None = None
    tokens: int | None = None
    cost: float | None = None
    wall_seconds: float | None = None


@attrs.frozen
class SessionSnapshot:
    """A session at one instant: its state, and its Info, whose `last_seq` is the last record."""

    state: SessionState
    info: Info


class Subtree:
    """A session and its descendants, as the agent of that session may reach them."""

    def __init__(self, parts: Parts, session_id: SessionId) -> None:
        self._parts = parts
        self._services = parts.services
        self.id = session_id

    def around(self, session_id: SessionId) -> Subtree:  # noqa: ARG002 - see `EverySession`
        """Return what a call reaches that has named this session: the same."""
        return self

    # Finding ------------------------------------------------------------------------------

    async def find(self, text: str) -> SessionId:
        """Return the session with this id, or the descendant with this name or role.

        Raise SessionNotFound for a session outside the subtree as for one that does not exist, and
        AmbiguousId with descendants only if several have the name or the role.
        """
        with suppress(SessionNotFound):
            session_id = parse_session_id(text)
            if await self.contains(session_id):
                return session_id
        if _GENERATED_ID.fullmatch(text):  # no name
            raise _not_found(text)
        named = _with_name(text, await self.descendants())
        if len(named) > 1:
            raise _ambiguous(text, named)
        if not named:
            raise _not_found(text)
        return named[0].id

    async def contains(self, session_id: SessionId) -> bool:
        """Return True for the session itself and for its descendants, the stopped ones included."""
        if session_id == self.id or self._parts.admission.is_descendant(session_id, self.id):
            return True
        # The tree does not have all stopped sessions. Read also if it has this one, see rule 1.
        try:
            stored = await self._services.store.read(session_id)
        except NotStorable:  # a damaged row says nothing about its place
            return False
        return stored is not None and self._is_above(stored.row)

    async def descendants(self) -> list[SessionState]:
        """Return the descendants that are stored, in order of creation."""
        return [one.state for one in await self.snapshots()]

    async def snapshots(self) -> list[SessionSnapshot]:
        """Return the stored descendants as of their last commits, in order of creation."""
        root = (await self._parts.registry.row(self.id)).lineage.root or self.id
        found = self._services.store.rows(matching=Filter(root=root))
        async with aclosing(found) as rows:
            return [
                SessionSnapshot(one.row, self._parts.info(one.row, last_seq=one.last_seq))
                async for one in rows
                if self._is_above(one.row)
            ]

    def _is_above(self, row: SessionState) -> bool:
        return self.id in (row.lineage.above or ())

    # Handles ------------------------------------------------------------------------------

    def session(self, session_id: SessionId) -> Session:
        """Return the handle of the agent on a session that was found here."""
        return Session(self._parts, session_id, caller=self.id)

    async def working_session(self) -> Session:
        """Return the handle of the session on itself in its running turn.

        Work that an agent gives belongs to a turn. Raise NotRunning if none runs, or if it is being
        interrupted: then the agent must begin nothing new.
        """
        state = await self._parts.registry.row(self.id)
        if state.turn is None or state.phase is not RUNNING:
            raise NotRunning(
                f"no turn of session {self.id} runs" + (" on" if state.turn is not None else ""),
                hint="work is given inside a turn: wait for the next input",
            )
        return Session(self._parts, self.id, caller=self.id, turn=state.turn.id)

    # Reading ------------------------------------------------------------------------------

    async def snapshot(self, session_id: SessionId) -> SessionSnapshot:
        """Return the session as of now; raise SessionNotFound if it was deleted."""
        slot = self._parts.registry.find_slot(session_id)
        if slot is not None and slot.session is not None and slot.log is not None:
            state, last_seq = slot.session, slot.log.published_seq
            await trio.lowlevel.checkpoint()
        else:
            stored = await self._parts.registry.stored(session_id)
            state, last_seq = stored.row, stored.last_seq
        return SessionSnapshot(state, self._parts.info(state, last_seq=last_seq))

    async def records(self, session_id: SessionId, *, after: int, limit: int) -> Sequence[Record]:
        """Return records of a session that was found here, from number `after + 1` on."""
        return await self._services.store.records(session_id, after=after, limit=limit)

    async def find_record(self, session_id: SessionId, seq: int) -> Record | None:
        """Return the record with this number, or None."""
        found = await self._services.store.records(session_id, after=seq - 1, limit=1)
        return found[0] if found and found[0].seq == seq else None

    def allowance(self, state: SessionState) -> Allowance:
        """Return what may still be used, given the state of the session itself."""
        tree, now = self._parts.admission.tree, self._services.clock.loop_time()
        node = tree.find(self.id) or tree.add(state)
        limits, path = node.effective_limits, list(node.path())
        counted = [(one, one.limits) for one in path if one.limits is not None]
        budgets = {
            name: [
                max(0, allowed - one.used(name, now))
                for one, given in counted
                if (allowed := getattr(given, name)) is not None
            ]
            for name in ("turns", "tokens", "cost", "wall_seconds")
        }
        descendants = [limit.max_descendants - one.descendant_count for one, limit in counted]
        spawns = [limit.max_spawns - one.spawns for one, limit in counted]
        return Allowance(
            children=max(0, limits.max_children - node.active_children),
            descendants=max(0, min(descendants, default=limits.max_descendants)),
            levels=max(0, limits.max_depth - node.depth),
            spawns=max(0, min(spawns, default=limits.max_spawns)),
            **{name: min(left) for name, left in budgets.items() if left},
        )

    # Waiting ------------------------------------------------------------------------------

    def awaiting(self, session_ids: Sequence[SessionId]) -> AbstractContextManager[None]:
        """Return a context in which the session counts as waiting for these, for `why` and stalls.

        `why` follows the last one.
        """
        return self._awaiting(session_ids)

    @contextmanager
    def _awaiting(self, session_ids: Sequence[SessionId]) -> Iterator[None]:
        with ExitStack() as stack:
            for one in session_ids:
                stack.enter_context(self._parts.registry.awaiting(self.id, one))
            yield

    def waits_for_this(self, session_id: SessionId) -> bool:
        """Return True if the other session waits for this one, directly or through others."""
        seen: set[SessionId] = set()
        ahead = [session_id]
        while ahead:
            one = ahead.pop()
            slot = self._parts.registry.find_slot(one)
            if one == self.id:
                return True
            if slot is not None and one not in seen:
                seen.add(one)
                ahead += slot.progress.awaited_sessions or ()
        return False

    async def wait_for_change(self, keys: Mapping[SessionId, Hashable], key: StateKey) -> None:
        """Return when the key of a session is no longer this one, or a session was deleted."""
        async with trio.open_nursery() as nursery:

            async def watch(session_id: SessionId) -> None:
                with suppress(SupervisorError):  # deleted, or its actor crashed: look again
                    await self._parts.registry.wait_until(
                        session_id, lambda state: key(state) != keys[session_id]
                    )
                nursery.cancel_scope.cancel(reason="a session has changed")

            for one in keys:
                nursery.start_soon(watch, one)


def _with_name(text: str, rows: Sequence[SessionState]) -> list[SessionState]:
    """Return the sessions that the text means: the holder of a name, then live ones by role."""
    live = [row for row in rows if row.phase is not STOPPED]
    for found in (
        [row for row in live if held_name(row) == text],
        [row for row in live if row.lineage.role == text],
        [row for row in rows if held_name(row) == text],
        [row for row in rows if row.lineage.role == text],
    ):
        if found:
            return found
    return []


def _not_found(text: str) -> SessionNotFound:
    return SessionNotFound(
        f"you have no session {short_repr(text)}",
        hint="give the id, the name or the role of a session below yours; tree lists them",
    )


def _ambiguous(text: str, found: Sequence[SessionState]) -> AmbiguousId:
    shown = [Match("session", row.id, row.id, row.name) for row in found[:_MAX_CANDIDATES]]
    ids = ", ".join(row.id for row in found[:_MAX_CANDIDATES])
    return AmbiguousId(
        f"{short_repr(text)} is the name or the role of {len(found)} of your sessions: {ids}",
        hint="give the id of one of them",
        candidates=shown,
    )
