"""A conversation of somebody else's, told again in our facts.

Rule 1: what a user says begins a turn, which lasts until a user speaks again; what an agent says
        before any user did has a turn of its own.
Rule 2: a turn in which the agent said and did nothing is `lost`, and a call whose result is not
        there is `interrupted`: the same as what a restart makes of them.
Rule 3: every body has exactly the fields that its kind has here, and time never goes back.
"""

from __future__ import annotations

from collections import Counter
from typing import Any, Final

import attrs

from supervisor.core.facts import Fact, Kind
from supervisor.core.ids import TurnId
from supervisor.core.session import Usage

# So many things that were left out are named: a file may have as many kinds as it has lines.
_MOST_NAMES: Final = 20


class Retelling:
    """Facts in the making; `at` is the time of what has none."""

    def __init__(self, at: float) -> None:
        self.facts: list[Fact] = []
        self._left_out: Counter[str] = Counter()
        self._at = at
        self._turns = 0
        self._turn: TurnId | None = None
        self._began_at = at
        self._did_something = False
        self._parts = 0
        self._said: list[str] = []
        self._spent = Usage()
        # Open calls: the id that they have over there, ours, and their names.
        self._calls: list[tuple[str, str, str]] = []
        self._call_count = 0

    def now(self, at: float | None) -> None:
        """What comes now was at that time, if one knows."""
        self._at = max(self._at, at or 0.0)

    def leave_out(self, what: str) -> None:
        """Something that has no place here."""
        if what not in self._left_out and len(self._left_out) >= _MOST_NAMES:
            what = "other things"
        self._left_out[what] += 1

    @property
    def warnings(self) -> tuple[str, ...]:
        """What was left out, and how often."""
        return tuple(f"left out: {what} ({times})" for what, times in self._left_out.items())

    def hear(self, text: str) -> None:
        """A user speaks, which begins a turn."""
        self.end_turn()
        self._begin_turn(text)

    def steer(self, text: str) -> None:
        """A user speaks into the turn that is open."""
        if self._turn is None:
            self._begin_turn(text)
        else:
            body = {"text": text, "part": f"{self._turn}.steered{self._part()}", "steered": True}
            self._note("user_text", body)

    def say(self, text: str) -> None:
        """The agent speaks."""
        self._act()
        body = {"text": text, "part": f"{self._turn}.{self._part()}", "continues": False}
        self._note("agent_text", body)
        self._said.append(text)

    def think(self, text: str) -> None:
        """The agent thinks."""
        self._act()
        body = {"text": text, "part": f"{self._turn}.{self._part()}", "continues": False}
        self._note("thought", body)

    def call(self, their_id: str, name: str, given: Any) -> None:  # noqa: ANN401 - plain data
        """The agent calls a tool."""
        self._act()
        self._call_count += 1
        # Their ids are not always there, and not always different.
        call_id = f"{self._turn}.call{self._call_count}"
        self._calls.append((their_id, call_id, name))
        given = given if isinstance(given, dict) or given is None else {"arguments": given}
        body = {"call_id": call_id, "name": name, "input": given, "cancellable": False}
        self._note("tool_call", body)

    def end_call(self, their_id: str, result: Any, *, outcome: str, name: str = "") -> None:  # noqa: ANN401 - plain data
        """A tool has answered."""
        found = next((call for call in self._calls if call[0] == their_id), None)
        if found is None:  # its beginning was cut off, and the answer is still worth having
            self.call(their_id, name or "unknown", None)
            found = self._calls[-1]
        self._calls.remove(found)
        body = {"call_id": found[1], "name": found[2], "outcome": outcome, "result": result}
        self._note("tool_ended", body)

    def spend(self, input_tokens: int, output_tokens: int) -> None:
        """The agent has used so many."""
        used = Usage() + Usage(input_tokens, output_tokens)  # no more than can be kept
        self._note("usage", attrs.asdict(used))
        self._spent += used

    def end_turn(self) -> None:
        """Close the turn, if one is open."""
        if self._turn is None:
            return
        for _, call_id, name in self._calls:
            body = {"call_id": call_id, "name": name, "outcome": "interrupted", "result": None}
            self._note("tool_ended", body)
        ended: dict[str, Any] = {
            "turn_id": self._turn,
            "outcome": "completed" if self._did_something else "lost",
            "stop_reason": None,
            "text": "".join(self._said),
            "error": None,
            "zombie": False,
            "ladder_step": None,
            "usage": attrs.asdict(self._spent),
            "messages": len(self._said),
            "seconds": max(0.0, self._at - self._began_at),
        }
        self._note("turn_ended", ended)
        self._turn = None

    def _act(self) -> None:
        """The agent does something; that needs a turn."""
        if self._turn is None:
            self._begin_turn(None)
        self._did_something = True

    def _begin_turn(self, text: str | None) -> None:
        self._turns += 1
        self._turn = TurnId(f"imported_{self._turns}")
        self._began_at = self._at
        self._parts, self._call_count, self._did_something = 0, 0, False
        self._said, self._calls, self._spent = [], [], Usage()
        input_id = f"{self._turn}.input"
        self._note("turn_started", {"turn_id": self._turn, "input_id": input_id, "source": "user"})
        if text is not None:
            self._note("user_text", {"text": text, "part": input_id})

    def _part(self) -> int:
        self._parts += 1
        return self._parts

    def _note(self, kind: Kind, body: dict[str, Any]) -> None:
        self.facts.append(Fact(kind, self._at, body, self._turn))
