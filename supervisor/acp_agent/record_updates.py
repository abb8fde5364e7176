"""Records and deltas of one session as updates of the protocol. Pure.

Rule 1: order is kept, and each text, call and plan is told once.
Rule 2: a record kind that people do not see in a conversation leads to no update.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Final, TypeAlias

import attrs

from supervisor.core.records import Delta, Record
from supervisor.drivers.acp.content import as_list, as_mapping, as_text

from . import tool_cards
from .text_parts import TextParts
from .tool_cards import Update

_CHUNKS: Final[Mapping[str, str]] = {
    "agent_text": "agent_message_chunk",
    "thought": "agent_thought_chunk",
}
_PRIORITIES: Final = ("high", "medium", "low")
_PLAN_STATUSES: Final = ("pending", "in_progress", "completed")


# A method of `SessionTranslator`: the body of a record to its updates.
_Handler: TypeAlias = Callable[["SessionTranslator", Mapping[str, Any]], list[Update]]


@attrs.define(eq=False)
class SessionTranslator:
    """Translates the feed of one session.

    `open_calls` are the running tool calls by id, with their names, the newest last; `open_cards`
    the children whose first input has not ended. `title` and `agent_choices` are the last ones
    that were recorded.
    """

    open_calls: dict[str, str] = attrs.field(factory=dict)
    open_cards: set[str] = attrs.field(factory=set)
    agent_choices: Mapping[str, Any] = attrs.field(factory=dict)
    title: str | None = None
    _parts: TextParts = attrs.field(factory=TextParts)
    # Whether the running turn has said anything: a text that is only returned is told at its end.
    _has_spoken: bool = False

    def of_delta(self, delta: Delta) -> list[Update]:
        """Return the update for streamed text."""
        chunk = _CHUNKS.get(delta.kind)
        text = "" if chunk is None else self._parts.add_delta(delta)
        if not text or chunk is None:
            return []
        return [chunk_of(chunk, text)]

    def of_record(self, record: Record, *, is_own: bool = False) -> list[Update]:
        """Return the updates for a record; of an own input the client knows the text."""
        if record.kind == "user_text" and is_own:
            return []
        handler = self._HANDLERS.get(record.kind)
        return [] if handler is None else handler(self, record.body)

    def forget_parts(self) -> None:
        """Forget the streamed text: the feed starts again."""
        self._parts.clear()

    # One for each kind --------------------------------------------------------------------

    def _turn_started(self, _: Mapping[str, Any]) -> list[Update]:
        self._has_spoken = False
        return []

    def _user_text(self, body: Mapping[str, Any]) -> list[Update]:
        text = as_text(body.get("text"))
        return [chunk_of("user_message_chunk", text)] if text else []

    def _agent_text(self, body: Mapping[str, Any]) -> list[Update]:
        self._has_spoken = True
        return self._rest_of("agent_message_chunk", body)

    def _thought(self, body: Mapping[str, Any]) -> list[Update]:
        return self._rest_of("agent_thought_chunk", body)

    def _rest_of(self, chunk: str, body: Mapping[str, Any]) -> list[Update]:
        text = self._parts.close(body.get("part"), as_text(body.get("text")) or "")
        return [chunk_of(chunk, text)] if text else []

    def _turn_ended(self, body: Mapping[str, Any]) -> list[Update]:
        returned = as_text(body.get("text"))
        is_told, self._has_spoken = self._has_spoken, False
        self.open_calls.clear()
        if is_told or not returned:
            return []
        return [chunk_of("agent_message_chunk", returned)]

    def _tool_call(self, body: Mapping[str, Any]) -> list[Update]:
        self.open_calls[str(body["call_id"])] = str(body.get("name"))
        return [tool_cards.call_started(body)]

    def _tool_update(self, body: Mapping[str, Any]) -> list[Update]:
        update = tool_cards.call_changed(body)
        return [] if update is None else [update]

    def _tool_ended(self, body: Mapping[str, Any]) -> list[Update]:
        self.open_calls.pop(str(body["call_id"]), None)
        return [tool_cards.call_ended(body)]

    def _plan(self, body: Mapping[str, Any]) -> list[Update]:
        entries = [_plan_entry(entry) for entry in as_list(body.get("entries"))]
        return [{"sessionUpdate": "plan", "entries": [one for one in entries if one is not None]}]

    def _changed(self, body: Mapping[str, Any]) -> list[Update]:
        if isinstance(body.get("choices"), dict):
            self.agent_choices = {**self.agent_choices, **body["choices"]}
        if "title" not in body or body["title"] == self.title:
            return []
        self.title = as_text(body["title"])
        return [{"sessionUpdate": "session_info_update", "title": self.title}]

    def _child_started(self, body: Mapping[str, Any]) -> list[Update]:
        self.open_cards.add(str(body["child"]))
        return [tool_cards.child_started(body)]

    def _child_ended(self, body: Mapping[str, Any]) -> list[Update]:
        self.open_cards.discard(str(body["child"]))
        return [tool_cards.child_ended(body)]

    def _stopped(self, _: Mapping[str, Any]) -> list[Update]:
        self.forget_parts()
        return []

    _HANDLERS: ClassVar[Mapping[str, _Handler]] = {
        "turn_started": _turn_started,
        "user_text": _user_text,
        "agent_text": _agent_text,
        "thought": _thought,
        "turn_ended": _turn_ended,
        "tool_call": _tool_call,
        "tool_update": _tool_update,
        "tool_ended": _tool_ended,
        "plan": _plan,
        "session_changed": _changed,
        "child_started": _child_started,
        "child_ended": _child_ended,
        "session_stopped": _stopped,
    }


def chunk_of(kind: str, text: str) -> Update:
    """Return an update with a piece of text."""
    return {"sessionUpdate": kind, "content": {"type": "text", "text": text}}


def _plan_entry(entry: object) -> dict[str, Any] | None:
    fields = as_mapping(entry)
    content = as_text(entry) if isinstance(entry, str) else as_text(fields.get("content"))
    if not content:
        return None
    priority, status = fields.get("priority"), fields.get("status")
    return {
        "content": content,
        "priority": priority if priority in _PRIORITIES else "medium",
        "status": status if status in _PLAN_STATUSES else "pending",
    }
