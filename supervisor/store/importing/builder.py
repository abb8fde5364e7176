"""Build an imported session: turn a foreign conversation into facts.

Rule 1: a user's text starts a turn, which lasts until the next user's text; an agent's text before
        the first one gets a turn of its own.
Rule 2: a turn without output of the agent is `lost`, and a tool call without a result is
        `interrupted`, as after a restart.
Rule 3: every body has exactly the fields of its kind, and times never decrease.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any, Final

import attrs

from supervisor.core.facts import Fact
from supervisor.core.ids import TurnId
from supervisor.core.records import RecordKind
from supervisor.core.state import Usage


@attrs.frozen(kw_only=True)
class ImportedSession:
    """A session read from a file, without an id and not yet stored.

    `created` is our own `session_created`, verbatim; None for a foreign file, for which the caller
    builds one from the other fields. `facts` is everything after it, in order. `agent` is None if
    the file does not name the agent.
    """

    format: str
    facts: tuple[Fact, ...]
    created: Fact | None = None
    agent: str | None = None
    name: str | None = None
    title: str | None = None
    tags: tuple[str, ...] = ()
    custom: Mapping[str, str] = attrs.field(factory=dict)
    workspace: str | None = None
    created_at: float | None = None
    warnings: tuple[str, ...] = ()


# Limit for the names of skipped entries: a file may have a new kind on each line.
_MAX_SKIPPED_NAMES: Final = 20


class HistoryBuilder:
    """Builder of facts; `at` is the time of entries without a time."""

    def __init__(self, at: float) -> None:
        self.facts: list[Fact] = []
        self._skipped: Counter[str] = Counter()
        self._at = at
        self._turns = 0
        self._turn: TurnId | None = None
        self._started_at = at
        self._has_agent_output = False
        self._parts = 0
        self._agent_texts: list[str] = []
        self._usage = Usage()
        # Open calls: foreign id, our id, name.
        self._calls: list[tuple[str, str, str]] = []
        self._call_count = 0

    def advance_to(self, at: float | None) -> None:
        """Set the time of the next facts, unless it is unknown or earlier."""
        self._at = max(self._at, at or 0.0)

    def skip(self, what: str) -> None:
        """Count an entry that cannot be imported."""
        if what not in self._skipped and len(self._skipped) >= _MAX_SKIPPED_NAMES:
            what = "other things"
        self._skipped[what] += 1

    @property
    def warnings(self) -> tuple[str, ...]:
        """The skipped entries, each with its count."""
        return tuple(f"left out: {what} ({times})" for what, times in self._skipped.items())

    def add_user_text(self, text: str) -> None:
        """Start a turn with a user's text."""
        self.end_turn()
        self._start_turn(text)

    def add_steering(self, text: str) -> None:
        """Add a user's text to the open turn."""
        if self._turn is None:
            self._start_turn(text)
        else:
            body = {
                "text": text,
                "part": f"{self._turn}.steered{self._next_part()}",
                "steered": True,
            }
            self._add_fact("user_text", body)

    def add_agent_text(self, text: str) -> None:
        """Add a text of the agent."""
        self._ensure_turn()
        body = {"text": text, "part": f"{self._turn}.{self._next_part()}", "continues": False}
        self._add_fact("agent_text", body)
        self._agent_texts.append(text)

    def add_thought(self, text: str) -> None:
        """Add a thought of the agent."""
        self._ensure_turn()
        body = {"text": text, "part": f"{self._turn}.{self._next_part()}", "continues": False}
        self._add_fact("thought", body)

    def start_call(self, foreign_id: str, name: str, arguments: Any) -> None:  # noqa: ANN401 - plain data
        """Start a tool call."""
        self._ensure_turn()
        self._call_count += 1
        # Foreign ids may be missing or repeated.
        call_id = f"{self._turn}.call{self._call_count}"
        self._calls.append((foreign_id, call_id, name))
        if arguments is not None and not isinstance(arguments, dict):
            arguments = {"arguments": arguments}
        body = {"call_id": call_id, "name": name, "input": arguments, "cancellable": False}
        self._add_fact("tool_call", body)

    def end_call(self, foreign_id: str, result: Any, *, outcome: str, name: str = "") -> None:  # noqa: ANN401 - plain data
        """End a tool call with its result."""
        found = next((call for call in self._calls if call[0] == foreign_id), None)
        if found is None:  # its start is missing; keep the result
            self.start_call(foreign_id, name or "unknown", None)
            found = self._calls[-1]
        self._calls.remove(found)
        body = {"call_id": found[1], "name": found[2], "outcome": outcome, "result": result}
        self._add_fact("tool_ended", body)

    def add_usage(self, input_tokens: int, output_tokens: int) -> None:
        """Add used tokens."""
        used = Usage() + Usage(
            input_tokens, output_tokens
        )  # the sum is capped to what can be stored
        self._add_fact("usage", attrs.asdict(used))
        self._usage += used

    def end_turn(self) -> None:
        """Close the turn, if one is open."""
        if self._turn is None:
            return
        for _, call_id, name in self._calls:
            body = {"call_id": call_id, "name": name, "outcome": "interrupted", "result": None}
            self._add_fact("tool_ended", body)
        ended: dict[str, Any] = {
            "turn_id": self._turn,
            "outcome": "completed" if self._has_agent_output else "lost",
            "stop_reason": None,
            "text": "".join(self._agent_texts),
            "error": None,
            "zombie": False,
            "ladder_step": None,
            "usage": attrs.asdict(self._usage),
            "messages": len(self._agent_texts),
            "seconds": max(0.0, self._at - self._started_at),
        }
        self._add_fact("turn_ended", ended)
        self._turn = None

    def _ensure_turn(self) -> None:
        """Start a turn for output of the agent if none is open."""
        if self._turn is None:
            self._start_turn(None)
        self._has_agent_output = True

    def _start_turn(self, text: str | None) -> None:
        self._turns += 1
        self._turn = TurnId(f"imported_{self._turns}")
        self._started_at = self._at
        self._parts, self._call_count, self._has_agent_output = 0, 0, False
        self._agent_texts, self._calls, self._usage = [], [], Usage()
        input_id = f"{self._turn}.input"
        self._add_fact(
            "turn_started", {"turn_id": self._turn, "input_id": input_id, "source": "user"}
        )
        if text is not None:
            self._add_fact("user_text", {"text": text, "part": input_id})

    def _next_part(self) -> int:
        self._parts += 1
        return self._parts

    def _add_fact(self, kind: RecordKind, body: dict[str, Any]) -> None:
        self.facts.append(Fact(kind, self._at, body, self._turn))
