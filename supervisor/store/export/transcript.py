"""Build the items of a transcript from records as they arrive.

Rule 1: a text stored in parts becomes one item, and a tool call or permission request becomes one
        item with its end, even if other records came in between.
Rule 2: items after an unfinished item wait for its end, so that they come in the order of their
        starts. At most `MAX_BUFFERED` items wait; then an unfinished item is yielded without its
        end, which becomes a note.
Rule 3: no content of a body raises an exception: every session can be exported.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, Literal

import attrs

from supervisor.core.records import Record
from supervisor.core.redaction import redact, redact_value

from .items import (
    CallItem,
    ChapterItem,
    PermissionItem,
    PlanItem,
    TextItem,
    TranscriptItem,
    TurnEndItem,
    TurnStartItem,
    call_note,
    decision_note,
    input_note,
    record_note,
)

MAX_BUFFERED: Final = 500
# The kinds that end a text. An input that arrives in the middle of it does not.
TEXT_BREAKS: Final = frozenset(
    {
        "user_text",
        "agent_text",
        "thought",
        "tool_call",
        "tool_ended",
        "plan",
        "turn_started",
        "turn_ended",
        "session_cleared",
    }
)
_USAGE_FIELDS: Final = ("input_tokens", "output_tokens", "cost")


def transcript_items(
    records: Iterable[Record], *, redact: bool = False
) -> Iterator[TranscriptItem]:
    """Yield the items of the records, each when it is complete."""
    builder = _TranscriptBuilder()
    for record in records:
        builder.add(record)
        yield from _redacted(builder.ready()) if redact else builder.ready()
    builder.end()
    yield from _redacted(builder.ready()) if redact else builder.ready()


class _TranscriptBuilder:
    """The items that are started and not yet yielded."""

    def __init__(self) -> None:
        self._buffer: deque[TranscriptItem] = deque()
        self._text: TextItem | None = None
        self._calls: dict[str, CallItem] = {}
        self._permissions: dict[str, PermissionItem] = {}
        # Texts of queued inputs, in case they never run; bounded by the input queue.
        self._waiting: dict[str, str] = {}
        self._turns = 0
        self._turn: TurnStartItem | None = None
        self._usage: dict[str, float] = {}
        self._last_at = 0.0

    def ready(self) -> Iterator[TranscriptItem]:
        """Yield the items at the front that are complete, or that exceed the buffer limit."""
        while self._buffer and (
            len(self._buffer) > MAX_BUFFERED or not self._is_open(self._buffer[0])
        ):
            item = self._buffer.popleft()
            self._forget(item)
            yield item

    def _is_open(self, item: TranscriptItem) -> bool:
        match item:
            case TextItem():
                return item is self._text
            case CallItem():
                return self._calls.get(item.call_id) is item
            case PermissionItem():
                return self._permissions.get(item.request_id) is item
            case _:
                return False

    def _forget(self, item: TranscriptItem) -> None:
        if item is self._text:
            self._text = None
        elif isinstance(item, CallItem) and self._is_open(item):
            del self._calls[item.call_id]
        elif isinstance(item, PermissionItem) and self._is_open(item):
            del self._permissions[item.request_id]

    def add(self, record: Record) -> None:
        """Add the content of a record."""
        self._last_at = record.at
        continues = self._text is not None and record.body.get("continues") is True
        if record.kind in TEXT_BREAKS and not (continues and record.kind == _kind_of(self._text)):
            self._text = None
        _HANDLERS.get(record.kind, _TranscriptBuilder.add_note)(self, record)

    def end(self) -> None:
        """Close the open turn and add the queued inputs; called after the last record."""
        self._close_turn_without_end()
        for text in self._waiting.values():
            self._buffer.append(input_note("waits", text, self._last_at))

    def add_user_text(self, record: Record) -> None:
        steered = record.body.get("steered") is True
        self._buffer.append(TextItem("user", record.at, [_text(record.body, "text")], steered))

    def add_usage(self, record: Record) -> None:
        for name in _USAGE_FIELDS:
            self._usage[name] = self._usage.get(name, 0) + _number(record.body.get(name))

    def add_chapter(self, record: Record) -> None:
        self._close_turn_without_end()
        # Shown from 1 on; the first chapter has no record.
        number = int(_number(record.body.get("chapter"))) + 1
        self._buffer.append(ChapterItem(number, record.at))

    def add_plan(self, record: Record) -> None:
        entries = record.body.get("entries")
        self._buffer.append(
            PlanItem(entries if isinstance(entries, list) else [entries], record.at)
        )

    def add_agent_text(self, record: Record) -> None:
        role: Literal["agent", "thought"] = "thought" if record.kind == "thought" else "agent"
        piece = _text(record.body, "text")
        if self._text is not None:
            self._text.pieces.append(piece)
            return
        text = TextItem(role, record.at, [piece])
        self._buffer.append(text)
        if record.body.get("part") is not None:  # None: not streamed, complete
            self._text = text

    def begin_turn(self, record: Record) -> None:
        body = record.body
        self._close_turn_without_end()
        self._turns += 1
        turn_id, source = _text(body, "turn_id"), _text(body, "source")
        self._turn = TurnStartItem(self._turns, turn_id, source, record.at)
        self._buffer.append(self._turn)

    def end_turn(self, record: Record) -> None:
        body = record.body
        usage = body.get("usage")
        self._close(
            TurnEndItem(
                _text(body, "turn_id"),
                _text(body, "outcome"),
                record.at,
                stop_reason=_optional(body, "stop_reason"),
                error=_optional(body, "error"),
                seconds=_number(body.get("seconds")),
                usage=usage if isinstance(usage, Mapping) else self._usage,
            )
        )

    def _close_turn_without_end(self) -> None:
        if self._turn is not None:
            self._close(TurnEndItem(self._turn.turn_id, None, self._last_at, usage=self._usage))

    def _close(self, turn_end: TurnEndItem) -> None:
        # No item of a turn continues after its end.
        self._text = None
        self._calls.clear()
        self._permissions.clear()
        self._buffer.append(turn_end)
        self._turn = None
        self._usage = {}

    def add_call(self, record: Record) -> None:
        body = record.body
        call_id = _text(body, "call_id")
        call = self._calls.get(call_id)
        if record.kind == "tool_call":
            call = CallItem(call_id, _text(body, "name"), body.get("input"), record.at)
            self._calls[call_id] = call
            self._buffer.append(call)
        elif record.kind == "tool_update" and call is not None:
            update = body.get("update")
            call.updates.append(update)
            # An agent may report the name of its tool after the start of the call.
            name = update.get("name") if isinstance(update, Mapping) else None
            call.name = name if isinstance(name, str) else call.name
        elif record.kind == "tool_ended" and call is not None:
            call.outcome = _text(body, "outcome")
            call.result = body.get("result")
            call.ended_at = record.at
            del self._calls[call_id]
        else:
            self._buffer.append(call_note(record))

    def add_permission(self, record: Record) -> None:
        body = record.body
        request_id = _text(body, "request_id")
        if record.kind == "permission_asked":
            question = PermissionItem(
                request_id,
                _text(body, "tool"),
                _text(body, "question"),
                body.get("input"),
                record.at,
                is_question=body.get("kind") == "question",
            )
            self._permissions[request_id] = question
            self._buffer.append(question)
            return
        asked = self._permissions.pop(request_id, None)
        if asked is None:
            self._buffer.append(decision_note(record))
        else:
            asked.decision, asked.by = _text(body, "decision"), _text(body, "by")
            asked.answer = _text(body, "text") or None

    def add_note(self, record: Record) -> None:
        body = record.body
        if record.kind == "input_accepted":
            self._waiting[_text(body, "input_id")] = _text(body, "text")
        elif record.kind == "input_changed":
            self._change_inputs(body.get("inputs"))
        elif record.kind == "input_settled":
            text = self._waiting.pop(_text(body, "input_id"), "")
            if body.get("outcome") not in ("delivered", "steered"):
                self._buffer.append(input_note(_text(body, "outcome"), text, record.at))
        elif (note := record_note(record)) is not None:
            self._buffer.append(note)

    def _change_inputs(self, changed: object) -> None:
        for input_id, changes in changed.items() if isinstance(changed, Mapping) else ():
            if input_id in self._waiting and isinstance(changes, Mapping) and "text" in changes:
                self._waiting[input_id] = _text(changes, "text")


_HANDLERS: Final[Mapping[str, Callable[[_TranscriptBuilder, Record], None]]] = {
    "user_text": _TranscriptBuilder.add_user_text,
    "agent_text": _TranscriptBuilder.add_agent_text,
    "thought": _TranscriptBuilder.add_agent_text,
    "turn_started": _TranscriptBuilder.begin_turn,
    "turn_ended": _TranscriptBuilder.end_turn,
    "usage": _TranscriptBuilder.add_usage,
    "session_cleared": _TranscriptBuilder.add_chapter,
    "plan": _TranscriptBuilder.add_plan,
    "tool_call": _TranscriptBuilder.add_call,
    "tool_update": _TranscriptBuilder.add_call,
    "tool_ended": _TranscriptBuilder.add_call,
    "permission_asked": _TranscriptBuilder.add_permission,
    "permission_answered": _TranscriptBuilder.add_permission,
}


def _kind_of(text: TextItem | None) -> str | None:
    if text is None:
        return None
    return "thought" if text.role == "thought" else "agent_text"


def _text(body: Mapping[str, Any], name: str) -> str:
    value = body.get(name)
    return value if isinstance(value, str) else "" if value is None else str(value)


def _optional(body: Mapping[str, Any], name: str) -> str | None:
    return _text(body, name) or None


def _number(value: object) -> float:
    return value if isinstance(value, int | float) else 0


# Secrets ---------------------------------------------------------------------------------------


def _redacted(items: Iterable[TranscriptItem]) -> Iterator[TranscriptItem]:
    """Yield the items with secrets replaced; each text is searched as a whole."""
    for item in items:
        if isinstance(item, TextItem):
            yield attrs.evolve(item, pieces=[redact(item.text)])
        else:
            fields = {name: getattr(item, name) for name in _REDACTED_FIELDS if hasattr(item, name)}
            yield attrs.evolve(item, **redact_value(fields))


# The fields whose text comes from users or agents.
_REDACTED_FIELDS: Final = (
    "turn_id", "source", "outcome", "stop_reason", "error", "call_id", "name", "input", "updates",
    "result", "request_id", "tool", "question", "decision", "by", "entries", "detail",
)  # fmt: skip
