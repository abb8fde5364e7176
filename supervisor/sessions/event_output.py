"""Output of a turn in the events that end it or divide it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from supervisor.core import agent_events
from supervisor.core import events as ev
from supervisor.core.state import SessionState
from supervisor.core.text import MAX_RESULT_BYTES, cut_text

from .log import Log
from .output_budget import LARGE_BYTES

NO_FIELDS: Final[Mapping[str, Any]] = {}


def output_fields(event: ev.Event, session: SessionState, log: Log) -> Mapping[str, Any]:
    """Return the output fields of an event; the driver and the timer do not know them."""
    if isinstance(event, agent_events.TurnEnded):
        output, given = log.turn_buffer, event.text
        if output is None or output.turn != event.turn or not output.message_count:
            return NO_FIELDS
        if given is None:
            merged = output.merged
            return {"text": merged.text, "messages": merged.messages, "truncated": merged.truncated}
        text = cut_text(given, MAX_RESULT_BYTES)
        truncated = len(text) < len(given)
        return {"text": text, "messages": output.message_count, "truncated": truncated}
    if isinstance(event, agent_events.SteeringBeganTurn | agent_events.LadderElapsed):
        return {"output": log.turn_output(event.turn)}
    if isinstance(event, agent_events.AgentExited) and session.turn is not None:
        return {"output": log.turn_output(session.turn.id)}
    return NO_FIELDS


def is_large(fields: Mapping[str, Any], log: Log) -> bool:
    """Return True if the step of an event with these output fields is a large commit."""
    text = fields["output"].text if "output" in fields else fields.get("text", "")
    return len(text) > LARGE_BYTES or log.pending_bytes > LARGE_BYTES
