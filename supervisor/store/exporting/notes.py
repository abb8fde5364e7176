"""The records that are told in one sentence, or not at all."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

from supervisor.core.facts import Body
from supervisor.core.records import Record

from .items import Note, Tone
from .plain import duration

Sentence: TypeAlias = tuple[str, tuple[Any, ...], Tone]

# Said by something else, or of no interest to who reads a conversation.
_SILENT: Final = frozenset(
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
_ENDS: Final[Mapping[str, tuple[str, Tone]]] = {
    "cancelled": ("An input was cancelled and never ran", "plain"),
    "expired": ("An input expired and never ran", "bad"),
    "failed": ("An input may not have arrived", "bad"),
    "waits": ("An input waits", "plain"),
}


def note_of(record: Record) -> Note | None:
    """What there is to say about a record, if anything."""
    if record.kind in _SILENT:
        return None
    said = _SENTENCES.get(record.kind, _unknown)(record.kind, record.body)
    if said is None:
        return None
    what, details, tone = said
    detail = ": ".join(str(part) for part in details if part not in (None, ""))
    return Note(what, record.at, detail or None, tone)


def input_note(how: str, text: str, at: float) -> Note:
    """An input that never began a turn, or has not yet."""
    what, tone = _ENDS.get(how, ("An input ended", "plain"))
    return Note(what, at, text or None, tone)


def ending_note(record: Record) -> Note:
    """News of a tool call whose beginning is not at hand."""
    name, outcome = record.body.get("name"), record.body.get("outcome")
    what = "A tool call went on" if outcome is None else "A tool call ended"
    value = record.body.get("update") if outcome is None else record.body.get("result")
    said = value if isinstance(value, str) or value is None else json.dumps(value, default=str)
    parts = (str(part) for part in (name, outcome, said) if part)
    return Note(what, record.at, ": ".join(parts) or None)


def decision_note(record: Record) -> Note:
    """An answer whose question is not at hand."""
    decision, by = record.body.get("decision"), record.body.get("by")
    return Note("A permission was answered", record.at, f"{decision}, by {by}")


# One function for each kind: what we say, what they said, and how bad it is ---------------------


def _resumed(_: str, body: Body) -> Sentence | None:
    # Waking up is no news to a reader.
    return None if body.get("woken") else ("The session was started again", (), "plain")


def _stopped(_: str, body: Body) -> Sentence:
    failure = _failure(body)
    details = (body.get("reason"), body.get("detail"), failure)
    return "The session stopped", details, "plain" if failure is None else "bad"


def _archived(_: str, body: Body) -> Sentence:
    said = "was archived" if body.get("archived") else "is no longer archived"
    return f"The session {said}", (), "plain"


def _restarting(_: str, body: Body) -> Sentence:
    attempt = body.get("attempt")
    return f"The agent died; attempt {attempt} to restart it", (_failure(body),), "bad"


def _interrupted(_: str, body: Body) -> Sentence:
    target = "tool call" if body.get("scope") == "tool_call" else "turn"
    step = f" ({body.get('step')})" if body.get("step") else ""
    return f"The {target} is interrupted{step}", (body.get("reason"),), "bad"


def _rule_changed(_: str, body: Body) -> Sentence:
    rule = body.get("decision") or "no rule any more"
    return "A rule for a tool", (body.get("tool"), rule), "plain"


def _silent(kind: str, body: Body) -> Sentence:
    seconds, waits_for, detail = body.get("seconds"), body.get("waits_for"), body.get("detail")
    of = f" ({detail})" if detail else ""
    long = duration(seconds) if isinstance(seconds, int | float) else "a while"
    said = f"nothing for {long}, waiting for {waits_for}{of}"
    return kind.capitalize(), (said,), "bad" if kind == "stalled" else "plain"


def _goes_on(_: str, body: Body) -> Sentence:
    return f"It goes on after being {body.get('was')}", (), "good"


def _child_started(_: str, body: Body) -> Sentence:
    what = "A child is back" if body.get("resumed") else "A child began"
    return what, (body.get("agent"), _child(body), body.get("text")), "plain"


def _child_ended(_: str, body: Body) -> Sentence:
    reason = body.get("reason")
    what = "A child is done" if reason is None else "A child stopped"
    how = body.get("outcome") if reason is None else reason
    said = (body.get("agent"), _child(body), how, body.get("detail"), body.get("text"))
    return what, said, "plain"


def _refused(_: str, body: Body) -> Sentence:
    return "A child was refused", (body.get("agent"), body.get("limit"), body.get("detail")), "bad"


def _unknown(kind: str, body: Body) -> Sentence:
    """A warning, or a kind of a later version."""
    said = json.dumps(dict(body), ensure_ascii=False, default=str) if body else None
    return kind, (said,), "bad" if kind == "warning" else "plain"


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
    "quiet": _silent,
    "stalled": _silent,
    "progress_resumed": _goes_on,
    "child_started": _child_started,
    "child_ended": _child_ended,
    "spawn_refused": _refused,
}
