"""What the body of each kind of record has in it; docs/reference/records.md says what it means.

Only what is always there. Those who read records rely on it, and a file from elsewhere is the one
place where it may be missing. What a kind came to have later is not in the files of before, and
nobody relies on it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from supervisor.core.facts import Kind

_NAMES: Final[Mapping[Kind, str]] = {
    "session_created": (
        "agent key kind name title tags custom workspace lineage terms limits permissions"
    ),
    "session_changed": "",
    "session_started": "",
    "session_suspended": "",
    "session_resumed": "woken",
    "session_cleared": "chapter",
    "session_archived": "archived",
    "session_stopped": "reason detail failure",
    "agent_attached": "agent_session_id pid capabilities",
    "agent_restarting": "attempt after_seconds failure recent",
    "input_accepted": (
        "input_id text when_busy number source generation expires_at attachments replacement"
    ),
    "input_changed": "inputs",
    "input_settled": "input_id outcome detail",
    "steered": "input_id how",
    "generation_raised": "generation request",
    "turn_started": "turn_id input_id source",
    "user_text": "text part",
    "agent_text": "text part",
    "thought": "text part continues",
    "plan": "entries",
    "usage": "input_tokens output_tokens cost",
    "interrupted": "scope reason step",
    "turn_ended": (
        "turn_id outcome stop_reason text error zombie ladder_step usage messages seconds"
    ),
    "warning": "text",
    "quiet": "waits_for detail since seconds",
    "stalled": "waits_for detail since seconds",
    "progress_resumed": "was",
    "child_started": "child agent name role text resumed",
    "child_ended": "child agent name role outcome text reason detail",
    "spawn_refused": "agent limit used allowed detail request",
    "tool_call": "call_id name input cancellable",
    "tool_update": "call_id name update",
    "tool_ended": "call_id name outcome result",
    "permission_asked": "request_id tool question input options asks",
    "permission_answered": "request_id decision by",
    "rule_changed": "rule_id tool decision",
}
ALWAYS: Final = {kind: frozenset(names.split()) for kind, names in _NAMES.items()}
# What is always written now, and was not to begin with: exports of before have to come in as well.
_LATER: Final[Mapping[Kind, frozenset[str]]] = {"spawn_refused": frozenset({"request"})}
_NONE: Final[frozenset[str]] = frozenset()

# These are text wherever they are, and readers join, cut and search them as such.
_TEXTS: Final = {
    "user_text": ("text",),
    "agent_text": ("text",),
    "thought": ("text",),
    "turn_ended": ("text", "outcome", "turn_id"),
    "turn_started": ("turn_id", "input_id", "source"),
    "tool_call": ("call_id", "name"),
    "tool_update": ("call_id", "name"),
    "tool_ended": ("call_id", "name", "outcome"),
    "input_accepted": ("input_id", "text"),
    "input_settled": ("input_id", "outcome"),
}


def problems_with(kind: Kind, body: Mapping[str, Any]) -> Iterator[str]:
    """What is wrong with a body of that kind, if anything."""
    missing = ALWAYS[kind] - _LATER.get(kind, _NONE) - body.keys()
    if missing:
        yield f"a {kind} without {', '.join(sorted(missing))}"
    for name in _TEXTS.get(kind, ()):
        if not isinstance(body.get(name), str):
            yield f"a {kind} whose {name} is no text"
    if kind == "agent_text" and body.get("part") is not None and "continues" not in body:
        yield "an agent_text that was streamed, without continues"
