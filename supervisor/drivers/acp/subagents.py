"""Subagents: sessions that an agent runs for itself, inside its own process.

They are no sessions of the supervisor: it can neither prompt nor stop them, and their usage is in
that of their agent. So each is only a record when it appears, and when its state or name changes.
What subagents write in their own sessions is not recorded; it counts as progress of the turn.

Rule: an update is a patch: an absent field keeps its value, null clears it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import attrs

from .content import as_mapping, as_name, as_text

MAX_SUBAGENTS: Final = 1000
MAX_ID_LETTERS: Final = 1000
MAX_TITLE_LETTERS: Final = 300
MAX_DETAIL_LETTERS: Final = 2000

UPDATE: Final = "subagent_update"
# Messages between an agent and its subagents; their text is not recorded.
MESSAGES: Final = frozenset({"session_message", "session_message_chunk"})
# The field that `Subagents.routed` adds: the subagent in whose session the update was sent.
_ABOVE: Final = "_above"


@attrs.frozen
class Subagent:
    """One subagent as its agent last described it; `above` is the subagent that runs it."""

    title: str | None = None
    description: str | None = None
    state: str | None = None
    detail: str | None = None
    above: str | None = None

    def with_update(self, update: Mapping[str, Any]) -> Subagent:
        """Return the subagent after an update."""
        changes: dict[str, str | None] = {}
        if "title" in update:
            changes["title"] = _bounded(update["title"], MAX_TITLE_LETTERS)
        if "description" in update:
            changes["description"] = _bounded(update["description"], MAX_DETAIL_LETTERS)
        if "state" in update:
            state = as_mapping(update["state"])
            changes["state"] = as_name(state.get("state"))
            changes["detail"] = _state_detail(state)
        return attrs.evolve(self, **changes)


def _state_detail(state: Mapping[str, Any]) -> str | None:
    """Return why the subagent stopped: its error, or its stop reason."""
    message = _bounded(as_mapping(state.get("error")).get("message"), MAX_DETAIL_LETTERS)
    return message or as_name(state.get("stopReason"))


def _bounded(value: object, max_letters: int) -> str | None:
    text = as_text(value)
    return text[:max_letters] if text is not None and text.strip() else None


class Subagents:
    """The subagents of one agent, by the ids of their sessions."""

    def __init__(self) -> None:
        # Invariant: at most MAX_SUBAGENTS.
        self._known: dict[str, Subagent] = {}

    def on_update(self, update: Mapping[str, Any]) -> Mapping[str, Any] | str | None:
        """Return the body of a record, the problem of a malformed update, or None."""
        key = as_name(update.get("sessionId"), max_letters=MAX_ID_LETTERS)
        if key is None:
            return "a subagent without an id"
        before = self._known.get(key)
        if before is None and len(self._known) >= MAX_SUBAGENTS:
            return "too many subagents"
        above = as_name(update.get(_ABOVE), max_letters=MAX_ID_LETTERS)
        now = (before or Subagent(above=above)).with_update(update)
        self._known[key] = now
        return None if now == before else {"subagent_id": key, **attrs.asdict(now)}

    def name_of(self, session_id: object) -> str | None:
        """Return the title or the id of a subagent; None for any other session."""
        found = self._known.get(session_id) if isinstance(session_id, str) else None
        return None if found is None else found.title or str(session_id)

    def routed(self, params: object) -> object:
        """Return the params of an update; one about a subagent's own subagent is the agent's."""
        fields = as_mapping(params)
        update = as_mapping(fields.get("update"))
        above = fields.get("sessionId")
        if update.get("sessionUpdate") != UPDATE or self.name_of(above) is None:
            return params
        return {"update": {**update, _ABOVE: above}}
