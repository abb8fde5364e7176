"""Saved conversations of a scripted agent, which outlive the agent."""

from __future__ import annotations

import json
from typing import Protocol

from .wire import Json


class SavedConversations(Protocol):
    """Storage of conversations."""

    def new_conversation_id(self) -> str:
        """Return an unused conversation id."""

    def load(self, name: str) -> Json | None:
        """Return the saved state of a conversation, or None if none was saved."""

    def save(self, name: str, saved: Json) -> None:
        """Save the state of a conversation."""


class MemoryConversations:
    """Storage in memory; tests pass it from one agent to the next."""

    def __init__(self) -> None:
        self._saved: dict[str, str] = {}

    def new_conversation_id(self) -> str:
        """Return an unused conversation id."""
        name = f"scripted-{len(self._saved) + 1}"
        self._saved[name] = "{}"
        return name

    def load(self, name: str) -> Json | None:
        """Return the saved state of a conversation, or None if none was saved."""
        text = self._saved.get(name)
        return None if text is None else dict(json.loads(text))

    def save(self, name: str, saved: Json) -> None:
        """Keep the state of a conversation in memory."""
        self._saved[name] = json.dumps(saved)
