"""State of the running turn, and the end of turns that answer no prompt.

A turn that an agent started by itself answers no prompt of ours. It is over when the agent is
silent: for a long time before its first output, because models think first, and never while one
of its tool calls is open.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import attrs
import trio
from trio_util import AsyncBool

from supervisor.core.ids import TurnId

from .fields import as_name
from .steering import SteeringDelivery

FIRST_OUTPUT_SECONDS: Final = 60.0

SILENCE_SECONDS: Final = 20.0
# Below the default `Ladder.ask_seconds`, so that the turn ends before the ladder escalates.
CANCELLED_SILENCE_SECONDS: Final = 3.0

MAX_CALLS: Final = 1000

MAX_ID_LETTERS: Final = 1000
# Updates that show work in the turn; status updates and echoed user text do not.
_ACTIVITY_UPDATES: Final = frozenset(
    {"agent_message_chunk", "agent_thought_chunk", "tool_call", "tool_call_update", "plan"}
)

_FINAL_STATUSES: Final = frozenset({"completed", "failed"})


class SilenceDetector:
    """Silence of one turn. Callers pass the time."""

    def __init__(self, now: float) -> None:
        self._since = now
        self._has_output = False
        # Open tool calls, by the agent's own ids.
        self._calls: set[str] = set()

    def on_update(self, update: Mapping[str, Any], now: float) -> None:
        """Note an update of the agent."""
        if update.get("sessionUpdate") not in _ACTIVITY_UPDATES:
            return
        self._since = now
        self._has_output = True
        call = as_name(update.get("toolCallId"), max_letters=MAX_ID_LETTERS)
        if call is not None and update.get("status") in _FINAL_STATUSES:
            self._calls.discard(call)
        elif call is not None and len(self._calls) < MAX_CALLS:
            self._calls.add(call)

    def seconds_left(self, now: float, *, is_cancelled: bool) -> float:
        """Return how long the agent must stay silent until the turn is over; 0 if it is.

        A cancelled turn gets `CANCELLED_SILENCE_SECONDS`, also with open tool calls.
        """
        if is_cancelled:
            patience = CANCELLED_SILENCE_SECONDS
        elif self._calls:
            return SILENCE_SECONDS
        else:
            patience = SILENCE_SECONDS if self._has_output else FIRST_OUTPUT_SECONDS
        return max(0.0, self._since + patience - now)


@attrs.define(eq=False)
class AcpTurn:
    """The running turn."""

    id: TurnId
    steering: SteeringDelivery
    is_cancelled: bool = False
    # Whether the prompt was sent, and whether it was answered.
    is_sent: bool = False
    is_answered: bool = False
    # Whether the ladder went beyond a cancel: then the agent ends with the turn.
    retires_agent: bool = False
    # Set when the output is too large: the turn ends, with this as its error.
    output_problem: str | None = None
    # Set when the agent started this turn, or its successor, by itself.
    silence: SilenceDetector | None = None
    # False while the session has yet to name a turn that the agent started by itself.
    adopted: AsyncBool = attrs.field(factory=lambda: AsyncBool(value=True))
    # Set when `session/cancel` is sent, or will not be.
    cancel_sent: trio.Event = attrs.field(factory=trio.Event)
    # Around authentication in the turn.
    authentication: trio.CancelScope = attrs.field(factory=trio.CancelScope)
    over: trio.Event = attrs.field(factory=trio.Event)
