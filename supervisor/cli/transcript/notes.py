"""Records shown as one sentence."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

from supervisor.cli.text_format import format_duration
from supervisor.core.agent_options import changes_text
from supervisor.core.news_text import NewsSentence, compaction_text, notice_text, subagent_text
from supervisor.core.records import Body, Record

from .blocks import Mood, NoteBlock
from .brief_text import brief, first_line

_MAX_CHARACTERS: Final = 2_000

# A sentence, with texts that follow it behind colons, and its mood.
Sentence: TypeAlias = tuple[str, tuple[object, ...], Mood]

_VERDICTS: Final[Mapping[str, str]] = {
    "timed_out": "the turn took too long and is interrupted",
    "stalled": "the turn has stalled and is interrupted",
    "restart": "the turn is interrupted, and its agent restarts",
}
_INPUT_ENDS: Final[Mapping[str, str]] = {
    "cancelled": "an input was cancelled",
    "expired": "an input expired before it ran",
    "failed": "an input may not have arrived",
}


def record_note(record: Record, *, input_text: str = "") -> NoteBlock | None:
    """Return the record as a sentence; None if it is of no interest to people.

    `input_text` is the text of the input that the record settles.
    """
    if record.kind == "input_settled":
        sentence = _input_end(record.body, input_text)
    else:
        sentence = _SENTENCES[record.kind](record.body)
    if sentence is None:
        return None
    text, details, mood = sentence
    said = (brief(one, _MAX_CHARACTERS) for one in (text, *details) if one not in (None, ""))
    return NoteBlock(record.turn_id, record.at, ": ".join(said), mood)


def _input_end(body: Body, text: str) -> Sentence | None:
    said = _INPUT_ENDS.get(str(body.get("outcome")))
    return None if said is None else (said, (body.get("detail"), text), "notice")


def _changed(body: Body) -> Sentence | None:
    if body.get("auth"):
        return "the agent waits for a login", (body.get("auth"),), "notice"
    verdict = _VERDICTS.get(str(body.get("verdict")))
    return None if verdict is None else (verdict, (), "notice")


def _cleared(_: Body) -> Sentence:
    return "the conversation was cleared, and the agent has no earlier context", (), "notice"


def _resumed(body: Body) -> Sentence | None:
    # Waking from suspension is of no interest to a reader.
    return None if body.get("woken") else ("the session was started again", (), "plain")


def _stopped(body: Body) -> Sentence:
    failure = _failure(body)
    details = (body.get("reason"), body.get("detail"), failure)
    return "the session stopped", details, "notice" if failure is None else "bad"


def _archived(body: Body) -> Sentence:
    said = "was archived" if body.get("archived") else "is no longer archived"
    return f"the session {said}", (), "plain"


def _restarting(body: Body) -> Sentence:
    attempt, after = body.get("attempt"), _seconds_text(body.get("after_seconds"))
    # Not that it exited: it may have been ended with the supervisor.
    said = f"the agent is started again in {after}, attempt {attempt}"
    return said, (_failure(body),), "notice"


def _rule_changed(body: Body) -> Sentence:
    return "rule", (body.get("tool"), body.get("decision") or "removed"), "plain"


def _options_changed(body: Body) -> Sentence | None:
    wanted, current = changes_text(body.get("options")), changes_text(body.get("current"))
    if wanted:
        return "options", (wanted,), "plain"
    # What the agent offers is shown on request.
    return ("the agent changed its options", (current,), "plain") if current else None


def _interrupted(body: Body) -> Sentence:
    scope, step, reason = body.get("scope"), body.get("step"), body.get("reason")
    if scope == "tool_call":
        how = "cannot be interrupted" if body.get("unreachable") else "is interrupted"
        return f"the tool call {how}", (reason,), "notice"
    at_step = f" ({step})" if step else ""
    if scope == "tree":
        counts = f"{body.get('stopped')} of {body.get('matched')} turns ended{at_step}"
        return f"the tree was interrupted, {counts}", (reason,), "notice"
    return f"the turn is interrupted{at_step}", (reason,), "notice"


def _quiet(body: Body) -> Sentence:
    return "quiet", (_silence(body),), "notice"


def _stalled(body: Body) -> Sentence:
    return "stalled", (_silence(body),), "bad"


def _progress_resumed(body: Body) -> Sentence:
    return f"progress again after {body.get('was')}", (), "good"


def _spawn_refused(body: Body) -> Sentence:
    details = (body.get("agent"), body.get("limit"), body.get("detail"))
    return "a child was refused", details, "bad"


def _warning(body: Body) -> Sentence:
    return "warning", (body.get("text"),), "notice"


def _mcp_call(body: Body) -> Sentence | None:
    # What a call did is shown by other records.
    if body.get("outcome") == "ok":
        return None
    return "a call of a tool was refused", (body.get("tool"), body.get("outcome")), "plain"


def _news(text: Callable[[Body], NewsSentence]) -> Callable[[Body], Sentence]:
    """Return the function of a kind whose sentence `text` makes."""

    def sentence(body: Body) -> Sentence:
        said, details, is_bad = text(body)
        return said, details, "notice" if is_bad else "plain"

    return sentence


def _silence(body: Body) -> str:
    what = f" ({first_line(body.get('detail'))})" if body.get("detail") else ""
    seconds = _seconds_text(body.get("seconds"))
    return f"nothing for {seconds}, waiting for {body.get('waits_for')}{what}"


def _seconds_text(value: object) -> str:
    return format_duration(value) if isinstance(value, int | float) else "a while"


def _failure(body: Body) -> object:
    failure = body.get("failure")
    return failure.get("detail") if isinstance(failure, Mapping) else None


_SENTENCES: Final[Mapping[str, Callable[[Body], Sentence | None]]] = {
    "session_changed": _changed,
    "session_cleared": _cleared,
    "session_resumed": _resumed,
    "session_stopped": _stopped,
    "session_archived": _archived,
    "agent_restarting": _restarting,
    "rule_changed": _rule_changed,
    "options_changed": _options_changed,
    "interrupted": _interrupted,
    "quiet": _quiet,
    "stalled": _stalled,
    "progress_resumed": _progress_resumed,
    "spawn_refused": _spawn_refused,
    "warning": _warning,
    "mcp_call": _mcp_call,
    "notice": _news(notice_text),
    "agent_compaction": _news(compaction_text),
    "subagent": _news(subagent_text),
}

NOTE_KINDS: Final = ("input_settled", *_SENTENCES)
