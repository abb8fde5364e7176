"""Identity of a session handle, and the calls that all groups of its methods share."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

from supervisor.core import events as ev
from supervisor.core.errors import InputRefused
from supervisor.core.ids import SessionId, TurnId
from supervisor.core.state import SessionState as Row
from supervisor.core.state import Source
from supervisor.core.step import ReplyValue
from supervisor.drivers.turn import CURRENT_SESSION

from .parts import Parts


class SessionBase:
    """Base of `Session`: its id, its equality, and requests to its actor."""

    __slots__ = ("_caller", "_parts", "_turn", "id")

    def __init__(
        self,
        parts: Parts,
        session_id: SessionId,
        *,
        caller: SessionId | None = None,
        turn: TurnId | None = None,
    ) -> None:
        self._parts = parts
        # The session whose agent holds this handle and the turn in which it got it; None for users.
        self._caller = caller
        self._turn = turn
        self.id = session_id

    def __repr__(self) -> str:
        return f"<Session {self.id}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SessionBase) and other.id == self.id

    def __hash__(self) -> int:
        return hash(self.id)

    def _source(self) -> Source:
        """Return the source of an input: `parent` for an agent above this session, else `user`."""
        inside = self._calling_session()
        return (
            "parent" if inside and self._parts.admission.is_descendant(self.id, inside) else "user"
        )

    def _mark_awaited(self) -> AbstractContextManager[None]:
        """Record during the block that the calling agent's session waits for this session."""
        return self._parts.registry.awaiting(self._calling_session(), self.id)

    def _calling_session(self) -> SessionId | None:
        """Return the session whose agent makes this call, or None for a user."""
        return self._caller or CURRENT_SESSION.get()

    def _refuse_own_session(self, what: str, instead: str) -> None:
        """Raise if the caller is this session's agent: it would wait for its own turn for ever."""
        if CURRENT_SESSION.get() == self.id:
            raise InputRefused(
                f"{what} on the agent's own session would never return", hint=instead
            )

    def _stamp(self) -> Any:  # noqa: ANN401 - a Stamp
        return self._parts.services.stamp()

    async def _ask(self, event: ev.Event) -> ReplyValue:
        return await self._parts.router.ask(self.id, event)

    async def _row(self) -> Row:
        return await self._parts.registry.row(self.id)
