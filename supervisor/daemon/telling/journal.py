"""What happens to sessions, as log lines: which session, which agent, and never what was said."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

from supervisor.core.records import Record

logger = logging.getLogger("supervisor.sessions")

Body: TypeAlias = Mapping[str, Any]
_FAILURES: Final = ("failed", "timed_out", "lost")

# By the kind of record: how serious, which words, and what of the body is told. Texts, details and
# inputs are people's own, and stay out.
_LINES: Final[Mapping[str, tuple[int, str, tuple[str, ...]]]] = {
    "session_created": (logging.INFO, "session made", ()),
    "session_resumed": (logging.DEBUG, "session is back", ("woken",)),
    "session_suspended": (logging.DEBUG, "session sleeps", ()),
    "session_cleared": (logging.INFO, "session cleared", ("chapter",)),
    "session_stopped": (logging.INFO, "session stopped", ("reason",)),
    "turn_started": (logging.DEBUG, "turn begun", ("source",)),
    "turn_ended": (logging.INFO, "turn ended", ("outcome", "stop_reason", "seconds")),
    "interrupted": (logging.INFO, "interrupted", ("scope", "step")),
    "permission_asked": (logging.INFO, "a question waits for somebody", ("request_id", "tool")),
    "spawn_refused": (logging.WARNING, "spawn refused", ("limit", "used", "allowed")),
    "stalled": (logging.WARNING, "session makes no progress", ("waits_for", "seconds")),
    "progress_resumed": (logging.INFO, "session makes progress again", ()),
    "agent_restarting": (logging.WARNING, "agent is started again", ()),
}


class Journal:
    """Fed with every record when it is durable."""

    def __init__(self, agent_of: Callable[[Record], str | None]) -> None:
        self._agent_of = agent_of
        # Whether a turn was interrupted so that we could leave.
        self.is_forced = False

    def take(self, record: Record) -> None:
        """Say what the record says, if operators should know."""
        kind, body = record.kind, record.body
        if kind == "interrupted" and body.get("reason") == "shutdown":
            self.is_forced = True
        known = _LINES.get(kind)
        if known is None:
            return
        level, words, names = known
        level = _more_serious(kind, body) or level
        if not logger.isEnabledFor(level):
            return
        told = {name: body[name] for name in names if body.get(name) is not None}
        if isinstance(told.get("seconds"), float):
            told["seconds"] = round(told["seconds"], 3)
        context = {
            "session": record.session_id,
            "agent": self._agent_of(record),
            "turn": record.turn_id,
        }
        logger.log(level, words, extra=context | told)


def _more_serious(kind: str, body: Body) -> int | None:
    """How serious it is, if that depends."""
    if kind == "session_stopped" and body.get("failure") is not None:
        return logging.WARNING
    if kind == "turn_ended" and body.get("outcome") in _FAILURES:
        return logging.WARNING
    return None
