"""The rule for calls of our own tools by agents and assistants."""

from __future__ import annotations

from supervisor.core.events import ToolCalled
from supervisor.core.step import Draft


def record_call(draft: Draft, event: ToolCalled) -> None:
    """Record that a tool was called. An archived session is read-only, and gets no record."""
    if not draft.state.archived:
        refused = {"refused": event.refused} if event.refused else {}
        draft.note(
            "mcp_call",
            caller=event.caller,
            tool=event.tool,
            outcome=event.outcome,
            target=event.target,
            seconds=event.seconds,
            **refused,
        )
    draft.accept()
