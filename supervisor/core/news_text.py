"""Sentences for records of an agent's notices, compactions and subagents.

Each function returns a sentence, details that follow it behind colons, and whether it is bad news.
"""

from __future__ import annotations

from typing import Final, TypeAlias

from .records import Body

NewsSentence: TypeAlias = tuple[str, tuple[object, ...], bool]

_MAX_SUMMARY_LETTERS: Final = 500
_COMPACTIONS: Final = {
    "in_progress": "the agent compacts its context",
    "completed": "the agent has compacted its context",
    "failed": "the agent could not compact its context",
    "cancelled": "the agent no longer compacts its context",
}


def notice_text(body: Body) -> NewsSentence:
    """Return the sentence for a notice."""
    severity = body.get("severity")
    word = severity if severity in ("warning", "error") else "notice"
    details = (body.get("text"), body.get("detail"))
    return f"{word} of the agent", details, severity in ("warning", "error")


def compaction_text(body: Body) -> NewsSentence:
    """Return the sentence for the begin or the end of a compaction; a long summary is cut."""
    status = str(body.get("status"))
    said = _COMPACTIONS.get(status, _COMPACTIONS["in_progress"])
    summary = body.get("summary")
    if isinstance(summary, str) and len(summary) > _MAX_SUMMARY_LETTERS:
        summary = f"{summary[:_MAX_SUMMARY_LETTERS]}..."
    return said, (_tokens_text(body), body.get("error"), summary), status == "failed"


def subagent_text(body: Body) -> NewsSentence:
    """Return the sentence for the first report of a subagent, and for each change."""
    states = {"running": "runs", "idle": "is idle", "requires_action": "waits for an answer"}
    state = body.get("state")
    said = states.get(str(state), f"is {state}") if state else "is there"
    name = body.get("title") or body.get("subagent_id")
    return f"subagent {name} {said}", (body.get("detail"), body.get("description")), False


def _tokens_text(body: Body) -> str | None:
    before, after = body.get("tokens_before"), body.get("tokens_after")
    if before is None:
        return None
    return f"{before} tokens" if after is None else f"{before} tokens before, {after} after"
