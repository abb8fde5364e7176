"""Items of a transcript, in reading order, and notes: records shown as one sentence.

The texts of items come from users and agents and are untrusted: each renderer escapes them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Literal, TypeAlias

import attrs

from supervisor.core.agent_options import changes_text
from supervisor.core.news_text import NewsSentence, compaction_text, notice_text, subagent_text
from supervisor.core.records import Body, Record

from .values import duration

Tone: TypeAlias = Literal["plain", "good", "bad"]


@attrs.frozen
class ChapterItem:
    """The start of a chapter: the session was cleared, so the agent has no earlier context."""

    number: int
    at: float


@attrs.frozen
class TurnStartItem:
    """The start of a turn; all items up to its end belong to it."""

    number: int
    turn_id: str
    source: str
    at: float


@attrs.frozen
class TurnEndItem:
    """The end of a turn; the outcome is None if the turn was still open when the records ended."""

    turn_id: str
    outcome: str | None
    at: float
    stop_reason: str | None = None
    error: str | None = None
    seconds: float | None = None
    usage: Mapping[str, Any] = attrs.field(factory=dict)


@attrs.define
class TextItem:
    """A text or a thought, joined if it was stored in parts."""

    role: Literal["user", "agent", "thought"]
    at: float
    pieces: list[str]
    steered: bool = False

    @property
    def text(self) -> str:
        """The whole text."""
        return "".join(self.pieces)


@attrs.define
class CallItem:
    """A tool call and its result; the outcome is None if the call has not ended."""

    call_id: str
    name: str
    input: Any
    at: float
    updates: list[Any] = attrs.field(factory=list)
    outcome: str | None = None
    result: Any = None
    ended_at: float | None = None


@attrs.define
class PermissionItem:
    """A permission request of the agent, and the decision; or a question, and the answer."""

    request_id: str
    tool: str
    question: str
    input: Any
    at: float
    decision: str | None = None
    by: str | None = None
    is_question: bool = False
    answer: str | None = None  # to a question

    @property
    def title(self) -> str:
        """What the agent did, as people read it."""
        return "Asked a question" if self.is_question else "Asked for permission"


@attrs.frozen
class PlanItem:
    """The agent's plan."""

    entries: Sequence[Any]
    at: float


@attrs.frozen
class NoteItem:
    """Any other record as a sentence; `detail` is text of the agent or the user."""

    text: str
    at: float
    detail: str | None = None
    tone: Tone = "plain"


TranscriptItem: TypeAlias = (
    ChapterItem
    | TurnStartItem
    | TurnEndItem
    | TextItem
    | CallItem
    | PermissionItem
    | PlanItem
    | NoteItem
)


Sentence: TypeAlias = tuple[str, tuple[Any, ...], Tone]

# Shown by other items, or of no interest in a conversation.
_KINDS_WITHOUT_NOTE: Final = frozenset(
    {
        "session_created",
        "session_changed",
        "session_started",
        "session_suspended",
        "agent_attached",
        "generation_raised",
        "steered",
    }
)
_INPUT_SENTENCES: Final[Mapping[str, tuple[str, Tone]]] = {
    "cancelled": ("An input was cancelled and never ran", "plain"),
    "expired": ("An input expired and never ran", "bad"),
    "failed": ("An input may not have arrived", "bad"),
    "waits": ("An input waits", "plain"),
}


def record_note(record: Record) -> NoteItem | None:
    """Return the note for a record; None if records of its kind are not shown."""
    if record.kind in _KINDS_WITHOUT_NOTE:
        return None
    sentence = _SENTENCES.get(record.kind, _unknown)(record.kind, record.body)
    if sentence is None:
        return None
    what, details, tone = sentence
    detail = ": ".join(str(part) for part in details if part not in (None, ""))
    return NoteItem(what, record.at, detail or None, tone)


def input_note(outcome: str, text: str, at: float) -> NoteItem:
    """Return the note for an input that has not started a turn."""
    what, tone = _INPUT_SENTENCES.get(outcome, ("An input ended", "plain"))
    return NoteItem(what, at, text or None, tone)


def call_note(record: Record) -> NoteItem:
    """Return the note for an update or end of a tool call whose start is missing."""
    name, outcome = record.body.get("name"), record.body.get("outcome")
    what = "A tool call made progress" if outcome is None else "A tool call ended"
    value = record.body.get("update") if outcome is None else record.body.get("result")
    detail = value if isinstance(value, str) or value is None else json.dumps(value, default=str)
    parts = (str(part) for part in (name, outcome, detail) if part)
    return NoteItem(what, record.at, ": ".join(parts) or None)


def decision_note(record: Record) -> NoteItem:
    """Return the note for a permission decision whose request is missing."""
    decision, by = record.body.get("decision"), record.body.get("by")
    return NoteItem("A permission was answered", record.at, f"{decision}, by {by}")


# One function for each kind; returns the sentence, details and tone -----------------------------


def _resumed(_: str, body: Body) -> Sentence | None:
    # An automatic resume is of no interest to a reader.
    return None if body.get("woken") else ("The session was started again", (), "plain")


def _stopped(_: str, body: Body) -> Sentence:
    failure = _failure(body)
    details = (body.get("reason"), body.get("detail"), failure)
    return "The session stopped", details, "plain" if failure is None else "bad"


def _archived(_: str, body: Body) -> Sentence:
    detail = "was archived" if body.get("archived") else "is no longer archived"
    return f"The session {detail}", (), "plain"


def _restarting(_: str, body: Body) -> Sentence:
    attempt = body.get("attempt")
    return f"The agent exited; attempt {attempt} to restart it", (_failure(body),), "bad"


def _interrupted(_: str, body: Body) -> Sentence:
    if body.get("scope") == "tool_call":
        state = "cannot be interrupted" if body.get("unreachable") else "is interrupted"
        return f"The tool call {state}", (body.get("reason"),), "bad"
    step = f" ({body.get('step')})" if body.get("step") else ""
    if body.get("scope") == "tree":
        counts = f"{body.get('stopped')} of {body.get('matched')} turns ended{step}"
        return "The tree was interrupted", (counts, body.get("reason")), "bad"
    return f"The turn is interrupted{step}", (body.get("reason"),), "bad"


def _rule_changed(_: str, body: Body) -> Sentence:
    rule = body.get("decision") or "no rule any more"
    return "A rule for a tool", (body.get("tool"), rule), "plain"


def _options_changed(_: str, body: Body) -> Sentence | None:
    wanted, current = changes_text(body.get("options")), changes_text(body.get("current"))
    if wanted:
        return "The options of the agent were changed", (wanted, f"by {body.get('by')}"), "plain"
    return ("The agent changed its options", (current,), "plain") if current else None


def _silence(kind: str, body: Body) -> Sentence:
    seconds, waits_for, what = body.get("seconds"), body.get("waits_for"), body.get("detail")
    of = f" ({what})" if what else ""
    long = duration(seconds) if isinstance(seconds, int | float) else "a while"
    detail = f"nothing for {long}, waiting for {waits_for}{of}"
    return kind.capitalize(), (detail,), "bad" if kind == "stalled" else "plain"


def _progress_resumed(_: str, body: Body) -> Sentence:
    return f"The turn makes progress after being {body.get('was')}", (), "good"


def _child_started(_: str, body: Body) -> Sentence:
    what = "A child is back" if body.get("resumed") else "A child began"
    return what, (body.get("agent"), _child(body), body.get("text")), "plain"


def _child_ended(_: str, body: Body) -> Sentence:
    reason = body.get("reason")
    what = "A child is done" if reason is None else "A child stopped"
    how = body.get("outcome") if reason is None else reason
    detail = (body.get("agent"), _child(body), how, body.get("detail"), body.get("text"))
    return what, detail, "plain"


def _spawn_refused(_: str, body: Body) -> Sentence:
    return "A child was refused", (body.get("agent"), body.get("limit"), body.get("detail")), "bad"


def _seen(_: str, body: Body) -> Sentence:
    return "A person has seen the records", (f"up to {body.get('seq')}",), "plain"


def _mcp_call(_: str, body: Body) -> Sentence | None:
    # What a call did is shown by other records.
    if body.get("outcome") == "ok":
        return None
    return "A call of a tool was refused", (body.get("tool"), body.get("outcome")), "plain"


def _news(text: Callable[[Body], NewsSentence]) -> Callable[[str, Body], Sentence]:
    """Return the function of a kind whose sentence `text` makes."""

    def sentence(_: str, body: Body) -> Sentence:
        said, details, is_bad = text(body)
        return f"{said[0].upper()}{said[1:]}", details, "bad" if is_bad else "plain"

    return sentence


def _unknown(kind: str, body: Body) -> Sentence:
    """Return the sentence for a warning or for a kind of a later version."""
    detail = json.dumps(dict(body), ensure_ascii=False, default=str) if body else None
    return kind, (detail,), "bad" if kind == "warning" else "plain"


def _failure(body: Body) -> object:
    failure = body.get("failure")
    return failure.get("detail") if isinstance(failure, Mapping) else None


def _child(body: Body) -> object:
    return body.get("name") or body.get("child")


_SENTENCES: Final[Mapping[str, Callable[[str, Body], Sentence | None]]] = {
    "session_resumed": _resumed,
    "session_stopped": _stopped,
    "session_archived": _archived,
    "agent_restarting": _restarting,
    "interrupted": _interrupted,
    "rule_changed": _rule_changed,
    "options_changed": _options_changed,
    "quiet": _silence,
    "stalled": _silence,
    "progress_resumed": _progress_resumed,
    "child_started": _child_started,
    "child_ended": _child_ended,
    "spawn_refused": _spawn_refused,
    "seen": _seen,
    "mcp_call": _mcp_call,
    "notice": _news(notice_text),
    "agent_compaction": _news(compaction_text),
    "subagent": _news(subagent_text),
}
