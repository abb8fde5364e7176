"""What a person reads, made from records as they come.

Rule 1: a text that was stored in parts is one text again, and a tool call or a question is one
        thing with its end, though other things came in between.
Rule 2: what follows something that has not ended waits for it, so that the order stays that of
        the beginnings; but only so many things wait, and what is still open then goes without
        its end, which is told as a note.
Rule 3: whatever a body has or lacks, nothing here fails: a session can always be exported.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, Literal

import attrs

from supervisor.core.records import Record
from supervisor.core.redaction import redacted, redacted_value

from .items import Call, ChapterBegan, Item, Plan, Question, Text, TurnBegan, TurnOver
from .notes import decision_note, ending_note, input_note, note_of

MAX_HELD: Final = 500
# What ends a text; that somebody sends an input in the middle of a sentence does not.
BREAKS: Final = frozenset(
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
_SPENT: Final = ("input_tokens", "output_tokens", "cost")


def tell(records: Iterable[Record], *, redact: bool = False) -> Iterator[Item]:
    """The records as items; each is given when nothing can be added to it any more."""
    teller = _Teller()
    for record in records:
        teller.take(record)
        yield from _redacted(teller.ready()) if redact else teller.ready()
    teller.end()
    yield from _redacted(teller.ready()) if redact else teller.ready()


class _Teller:
    """What was begun and has not been given yet."""

    def __init__(self) -> None:
        self._held: deque[Item] = deque()
        self._text: Text | None = None
        self._calls: dict[str, Call] = {}
        self._questions: dict[str, Question] = {}
        # Inputs that wait: their texts, in case they never get to run. As many as a queue has.
        self._waiting: dict[str, str] = {}
        self._turns = 0
        self._turn: TurnBegan | None = None
        self._spent: dict[str, float] = {}
        self._last_at = 0.0

    def ready(self) -> Iterator[Item]:
        """Take out whatever is at the front and complete, or has waited long enough."""
        while self._held and (len(self._held) > MAX_HELD or not self._is_open(self._held[0])):
            item = self._held.popleft()
            self._forget(item)
            yield item

    def _is_open(self, item: Item) -> bool:
        match item:
            case Text():
                return item is self._text
            case Call():
                return self._calls.get(item.call_id) is item
            case Question():
                return self._questions.get(item.request_id) is item
            case _:
                return False

    def _forget(self, item: Item) -> None:
        if item is self._text:
            self._text = None
        elif isinstance(item, Call) and self._is_open(item):
            del self._calls[item.call_id]
        elif isinstance(item, Question) and self._is_open(item):
            del self._questions[item.request_id]

    def take(self, record: Record) -> None:
        """Add what a record says."""
        self._last_at = record.at
        goes_on = self._text is not None and record.body.get("continues") is True
        if record.kind in BREAKS and not (goes_on and record.kind == _kind_of(self._text)):
            self._text = None
        _TAKERS.get(record.kind, _Teller.add_note)(self, record)

    def end(self) -> None:
        """There is no more."""
        self._close_turn_without_end()
        for text in self._waiting.values():
            self._held.append(input_note("waits", text, self._last_at))

    def add_said(self, record: Record) -> None:
        steered = record.body.get("steered") is True
        self._held.append(Text("user", record.at, [_text(record.body, "text")], steered))

    def add_spent(self, record: Record) -> None:
        for name in _SPENT:
            self._spent[name] = self._spent.get(name, 0) + _number(record.body.get(name))

    def add_chapter(self, record: Record) -> None:
        self._close_turn_without_end()
        # People count from 1, and the first chapter is the one that nobody began.
        number = int(_number(record.body.get("chapter"))) + 1
        self._held.append(ChapterBegan(number, record.at))

    def add_plan(self, record: Record) -> None:
        entries = record.body.get("entries")
        self._held.append(Plan(entries if isinstance(entries, list) else [entries], record.at))

    def add_text(self, record: Record) -> None:
        who: Literal["agent", "thought"] = "thought" if record.kind == "thought" else "agent"
        piece = _text(record.body, "text")
        if self._text is not None:
            self._text.pieces.append(piece)
            return
        text = Text(who, record.at, [piece])
        self._held.append(text)
        if record.body.get("part") is not None:  # what was appended is whole
            self._text = text

    def begin_turn(self, record: Record) -> None:
        body = record.body
        self._close_turn_without_end()
        self._turns += 1
        turn_id, source = _text(body, "turn_id"), _text(body, "source")
        self._turn = TurnBegan(self._turns, turn_id, source, record.at)
        self._held.append(self._turn)

    def end_turn(self, record: Record) -> None:
        body = record.body
        usage = body.get("usage")
        self._close(
            TurnOver(
                _text(body, "turn_id"),
                _text(body, "outcome"),
                record.at,
                stop_reason=_optional(body, "stop_reason"),
                error=_optional(body, "error"),
                seconds=_number(body.get("seconds")),
                usage=usage if isinstance(usage, Mapping) else self._spent,
            )
        )

    def _close_turn_without_end(self) -> None:
        if self._turn is not None:
            self._close(TurnOver(self._turn.turn_id, None, self._last_at, usage=self._spent))

    def _close(self, over: TurnOver) -> None:
        # Nothing of a turn goes on after it.
        self._text = None
        self._calls.clear()
        self._questions.clear()
        self._held.append(over)
        self._turn = None
        self._spent = {}

    def add_call(self, record: Record) -> None:
        body = record.body
        call_id = _text(body, "call_id")
        call = self._calls.get(call_id)
        if record.kind == "tool_call":
            call = Call(call_id, _text(body, "name"), body.get("input"), record.at)
            self._calls[call_id] = call
            self._held.append(call)
        elif record.kind == "tool_update" and call is not None:
            call.updates.append(body.get("update"))
        elif record.kind == "tool_ended" and call is not None:
            call.outcome = _text(body, "outcome")
            call.result = body.get("result")
            call.ended_at = record.at
            del self._calls[call_id]
        else:
            self._held.append(ending_note(record))

    def add_question(self, record: Record) -> None:
        body = record.body
        request_id = _text(body, "request_id")
        if record.kind == "permission_asked":
            question = Question(
                request_id,
                _text(body, "tool"),
                _text(body, "question"),
                body.get("input"),
                record.at,
            )
            self._questions[request_id] = question
            self._held.append(question)
            return
        asked = self._questions.pop(request_id, None)
        if asked is None:
            self._held.append(decision_note(record))
        else:
            asked.decision, asked.by = _text(body, "decision"), _text(body, "by")

    def add_note(self, record: Record) -> None:
        body = record.body
        if record.kind == "input_accepted":
            self._waiting[_text(body, "input_id")] = _text(body, "text")
        elif record.kind == "input_changed":
            self._change_inputs(body.get("inputs"))
        elif record.kind == "input_settled":
            text = self._waiting.pop(_text(body, "input_id"), "")
            if body.get("outcome") not in ("delivered", "steered"):
                self._held.append(input_note(_text(body, "outcome"), text, record.at))
        elif (note := note_of(record)) is not None:
            self._held.append(note)

    def _change_inputs(self, changed: object) -> None:
        for input_id, changes in changed.items() if isinstance(changed, Mapping) else ():
            if input_id in self._waiting and isinstance(changes, Mapping) and "text" in changes:
                self._waiting[input_id] = _text(changes, "text")


_TAKERS: Final[Mapping[str, Callable[[_Teller, Record], None]]] = {
    "user_text": _Teller.add_said,
    "agent_text": _Teller.add_text,
    "thought": _Teller.add_text,
    "turn_started": _Teller.begin_turn,
    "turn_ended": _Teller.end_turn,
    "usage": _Teller.add_spent,
    "session_cleared": _Teller.add_chapter,
    "plan": _Teller.add_plan,
    "tool_call": _Teller.add_call,
    "tool_update": _Teller.add_call,
    "tool_ended": _Teller.add_call,
    "permission_asked": _Teller.add_question,
    "permission_answered": _Teller.add_question,
}


def _kind_of(text: Text | None) -> str | None:
    if text is None:
        return None
    return "thought" if text.who == "thought" else "agent_text"


def _text(body: Mapping[str, Any], name: str) -> str:
    value = body.get(name)
    return value if isinstance(value, str) else "" if value is None else str(value)


def _optional(body: Mapping[str, Any], name: str) -> str | None:
    return _text(body, name) or None


def _number(value: object) -> float:
    return value if isinstance(value, int | float) else 0


# Secrets ---------------------------------------------------------------------------------------


def _redacted(items: Iterable[Item]) -> Iterator[Item]:
    """The same with everything covered that looks like a secret, whole texts at a time."""
    for item in items:
        if isinstance(item, Text):
            yield attrs.evolve(item, pieces=[redacted(item.text)])
        else:
            said = {name: getattr(item, name) for name in _SAID if hasattr(item, name)}
            yield attrs.evolve(item, **redacted_value(said))


# The fields in which somebody else may have put anything.
_SAID: Final = (
    "turn_id", "source", "outcome", "stop_reason", "error", "call_id", "name", "input", "updates",
    "result", "request_id", "tool", "question", "decision", "by", "entries", "detail",
)  # fmt: skip
