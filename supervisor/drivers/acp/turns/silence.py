"""When a turn is over whose end nobody says.

A turn that an agent has begun by itself answers no prompt of ours. It is over when the agent has
fallen silent: for long if it has not said a word yet, for models think before they speak, and never
while one of its tool calls is under way.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from supervisor.drivers.acp.reading import as_name

FIRST_WORD_SECONDS: Final = 60.0
SILENCE_SECONDS: Final = 20.0
# Less than it is given before harder means are used (`Ladder.ask_seconds`).
ENDING_SECONDS: Final = 3.0
MAX_CALLS: Final = 1000
MAX_ID_LETTERS: Final = 1000
# News that the agent is at it. What it says of itself, or says after us, is none.
_WORDS: Final = frozenset(
    {"agent_message_chunk", "agent_thought_chunk", "tool_call", "tool_call_update", "plan"}
)
_ENDS: Final = frozenset({"completed", "failed"})


class Silence:
    """Of one turn; it knows no clock."""

    def __init__(self, now: float) -> None:
        self._since = now
        self._has_spoken = False
        # The tool calls that are under way, by the agent's own ids.
        self._calls: set[str] = set()

    def hear(self, update: Mapping[str, Any], now: float) -> None:
        """The agent has sent this."""
        if update.get("sessionUpdate") not in _WORDS:
            return
        self._since = now
        self._has_spoken = True
        call = as_name(update.get("toolCallId"), max_letters=MAX_ID_LETTERS)
        if call is not None and update.get("status") in _ENDS:
            self._calls.discard(call)
        elif call is not None and len(self._calls) < MAX_CALLS:
            self._calls.add(call)

    def seconds_left(self, now: float, *, asked_to_end: bool) -> float:
        """How long it would have to be silent still; 0 if it is over.

        One that was asked to end is given no more than a moment.
        """
        if asked_to_end:
            patience = ENDING_SECONDS
        elif self._calls:
            return SILENCE_SECONDS
        else:
            patience = SILENCE_SECONDS if self._has_spoken else FIRST_WORD_SECONDS
        return max(0.0, self._since + patience - now)
