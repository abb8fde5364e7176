"""All sessions, as the assistant of a person may reach them through tools.

Rule 1: it finds any session, and what it changes is on record as done by a person.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Final

from supervisor.core.errors import ConfigError, SessionNotFound, short_repr
from supervisor.core.ids import SessionId, parse_session_id

from .parts import Parts
from .resolve import resolve
from .session import Session
from .subtree import SessionSnapshot, Subtree

# Before a session is named: no session has it.
_NOBODY: Final = SessionId("")


class EverySession(Subtree):
    """Every session; `id` is the one that the call has named, whose subtree it reads."""

    def __init__(self, parts: Parts, session_id: SessionId = _NOBODY) -> None:
        super().__init__(parts, session_id)

    def around(self, session_id: SessionId) -> EverySession:
        """Return the same with the session that the call has named."""
        return EverySession(self._parts, session_id)

    async def find(self, text: str) -> SessionId:
        """Return the session that a text names: by id, name, key or path."""
        match = await resolve(self._parts, text, "session", None) if text.strip() else None
        if match is None:
            raise SessionNotFound(
                f"no session {short_repr(text)}", hint="list has the sessions, archived ones too"
            )
        return parse_session_id(match.id)

    async def contains(self, session_id: SessionId) -> bool:
        """Return True if the session exists."""
        return await self._services.store.read(session_id) is not None

    def session(self, session_id: SessionId) -> Session:
        """Return the handle of a person on a session."""
        return Session(self._parts, session_id)

    async def working_session(self) -> Session:
        """Return the handle on the named session: a person gives work at any time."""
        self._refuse_nobody(self.id)
        return self.session(self.id)

    async def snapshot(self, session_id: SessionId) -> SessionSnapshot:
        """Return the session as of now; raise ConfigError if the call has named none."""
        self._refuse_nobody(session_id)
        return await super().snapshot(session_id)

    def awaiting(self, session_ids: Sequence[SessionId]) -> AbstractContextManager[None]:
        """Return a context without effect: no session waits for a person's assistant."""
        del session_ids
        return nullcontext()

    def waits_for_this(self, session_id: SessionId) -> bool:
        """Return False: the caller is no session."""
        del session_id
        return False

    def _refuse_nobody(self, session_id: SessionId) -> None:
        if session_id == _NOBODY:
            raise ConfigError("the call names no session", hint="name one: list has them")
