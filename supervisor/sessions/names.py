"""Index of session names: the holders of each name."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import count
from typing import Final, TypeAlias

from supervisor.core import events as ev
from supervisor.core.errors import NameTaken
from supervisor.core.ids import SessionId
from supervisor.core.names import held_name, name_scope
from supervisor.core.state import SessionState
from supervisor.core.validation import make_session_name
from supervisor.store.port import SuspendedRow

# A scope and a name that is unique in it.
_Key: TypeAlias = tuple[str, str]

# Events after which a session may hold another name, or its own again.
NAMING_EVENTS: Final[frozenset[type[ev.Event]]] = frozenset(
    {ev.DetailsChanged, ev.UnarchiveRequested}
)


class NameIndex:
    """Maps each name of a scope to the session that holds it."""

    __slots__ = ("_holders", "_keys")

    def __init__(self) -> None:
        # Invariant: a name has at most one holder, except that names which were doubled in a store
        # keep all their holders, and a session keeps its name until the commit that replaces it.
        # It is listed from the reservation, before the commit, until a commit of the holder gives
        # it up, the holder is deleted, or its creation has failed. The check and the change are one
        # synchronous step.
        self._holders: dict[_Key, tuple[SessionId, ...]] = {}
        # The names of each session: two while a change of name is being committed.
        self._keys: dict[SessionId, tuple[_Key, ...]] = {}

    def problem(
        self,
        scope: str,
        name: str,
        session_id: SessionId,
        *,
        may_name_holder: Callable[[SessionId], bool] | None = None,
    ) -> NameTaken | None:
        """Return why the session cannot have the name; None if it can.

        The hint names the holder, unless `may_name_holder` forbids it.
        """
        holders = self._holders.get((scope, name), ())
        if not holders or session_id in holders:
            return None
        hint = "choose another name"
        if may_name_holder is None or may_name_holder(holders[0]):
            hint = f"use session {holders[0]}, which holds it, or {hint}"
        where = "in this tree" if scope else "by another session"
        return NameTaken(f"the name {name!r} is taken {where}", hint=hint)

    def take(
        self,
        scope: str,
        name: str | None,
        session_id: SessionId,
        *,
        replacing: SessionId | None = None,
        may_name_holder: Callable[[SessionId], bool] | None = None,
    ) -> None:
        """Reserve the name for a new session; raise NameTaken if another session holds it.

        A session that replaces another in one commit may take the name of that session.
        """
        if name is None:
            return
        if replacing is None or replacing not in self._holders.get((scope, name), ()):
            taken = self.problem(scope, name, session_id, may_name_holder=may_name_holder)
            if taken is not None:
                raise taken
        self._add((scope, name), session_id)

    def refusal(self, session: SessionState, event: ev.Event | None = None) -> NameTaken | None:
        """Return why the session cannot have the name of the event, or its own again, or None."""
        name = event.name if isinstance(event, ev.DetailsChanged) else session.name
        return None if name is None else self.problem(name_scope(session), name, session.id)

    def free_name(self, scope: str, name: str | None) -> str | None:
        """Return the name, or if it is taken the name with the first free number after it.

        A name that no new session may have is replaced by one like it.
        """
        name = None if name is None else make_session_name(name)
        if name is None or (scope, name) not in self._holders:
            return name
        others = (f"{name}-{number}" for number in count(2))
        return next(other for other in others if (scope, other) not in self._holders)

    def reserve(self, session: SessionState) -> None:
        """Reserve the name that a state holds, before the state is committed."""
        name = held_name(session)
        if name is not None:
            self._add((name_scope(session), name), session.id)

    def apply(self, session: SessionState) -> None:
        """Keep the name that a committed state holds, and release any other of the session."""
        self.reserve(session)
        known = self._keys.get(session.id)
        if known is None:
            return
        held = (name_scope(session), held_name(session))
        for key in known:
            if key != held:
                self._release(key, session.id)

    def forget(self, session_id: SessionId) -> None:
        """Release the names of a session that is deleted, or was not created."""
        for key in self._keys.get(session_id, ()):
            self._release(key, session_id)

    def restore(self, rows: Iterable[SessionState], suspended: Iterable[SuspendedRow]) -> None:
        """Add the names of stored sessions, after a restart of the supervisor."""
        for row in rows:
            self.reserve(row)
        for one in suspended:
            if one.name is not None:
                self._add((one.name_scope, one.name), one.id)

    def _add(self, key: _Key, session_id: SessionId) -> None:
        holders = self._holders.get(key, ())
        if session_id not in holders:
            self._holders[key] = (*holders, session_id)
            self._keys[session_id] = (*self._keys.get(session_id, ()), key)

    def _release(self, key: _Key, session_id: SessionId) -> None:
        holders = tuple(one for one in self._holders[key] if one != session_id)
        keys = tuple(one for one in self._keys[session_id] if one != key)
        if holders:
            self._holders[key] = holders
        else:
            del self._holders[key]
        if keys:
            self._keys[session_id] = keys
        else:
            del self._keys[session_id]
