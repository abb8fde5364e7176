"""Refused spawns that are recorded once per turn and limit."""

from __future__ import annotations

from supervisor.core.ids import SessionId, TurnId


class SpawnRefusals:
    """Limits by which an agent was refused a child in its current turn."""

    __slots__ = ("_refused",)

    def __init__(self) -> None:
        self._refused: dict[SessionId, tuple[TurnId, set[str]]] = {}

    def add(self, parent_id: SessionId, turn: TurnId, limit: str) -> bool:
        """Note a refusal; return whether it is the first by that limit in the turn."""
        known = self._refused.setdefault(parent_id, (turn, set()))
        if known[0] != turn:
            known = self._refused[parent_id] = (turn, set())
        if limit in known[1]:
            return False
        known[1].add(limit)
        return True

    def forget(self, session_id: SessionId) -> None:
        """Drop the refusals of a deleted session."""
        self._refused.pop(session_id, None)
