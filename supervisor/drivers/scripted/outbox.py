"""The output and the actions of a scripted agent, in order.

A `ProcessAction` is what a line of output cannot do. The host performs the actions in order, after
the output before them, and calls `ScriptedAgent.action_done`; the script waits for that.
"""

from __future__ import annotations

from collections import deque
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from .wire import Json, MessageId, encode_line

ActionKind: TypeAlias = Literal[
    "exit",  # exit with the code `number`
    "fork",  # start `number` children that only sleep; the result is their pids
    "detach",  # start one in a session of its own, double forked; the result is its pid
    "ignore_term",  # ignore SIGTERM; children inherit that
    "stop",  # send SIGSTOP to itself
    "deafen",  # stop reading the input, including its end
    "close_output",  # close the output and drop later output
    "log",  # write `text` to standard error, unchanged
]


class ProcessAction(NamedTuple):
    """One action that the host of the agent has to perform."""

    kind: ActionKind
    number: int = 0
    text: str = ""


# A script waits while this much of its output was not taken.
FULL_BYTES: Final = 65_536
# How long an answer is delayed for another one to overtake it.
OVERTAKEN_SECONDS: Final = 0.2


class EngineOutbox:
    """Output not yet taken; with `swaps_answers`, every second answer overtakes the first."""

    def __init__(self, *, swaps_answers: bool) -> None:
        # The time of the last tick.
        self.now = 0.0
        self.waiting_bytes = 0
        self._swaps_answers = swaps_answers
        self._lines: list[bytes] = []
        self._actions: deque[ProcessAction] = deque()
        self._requests = 0
        # Invariant: at most one answer is delayed, and only with `swaps_answers`.
        self._delayed_answer: bytes | None = None
        self._delayed_until = 0.0

    @property
    def is_full(self) -> bool:
        """True while scripts must wait before they write more."""
        return self.waiting_bytes >= FULL_BYTES

    def write(self, data: bytes) -> None:
        """Add bytes to the output, unchanged."""
        self._lines.append(data)
        self.waiting_bytes += len(data)

    def notify(self, method: str, params: Json) -> None:
        """Send a notification to the client."""
        self.write(encode_line({"method": method, "params": params}))

    def request(self, method: str, params: Json) -> int:
        """Send a request to the client; return its id."""
        self._requests += 1
        self.write(encode_line({"id": self._requests, "method": method, "params": params}))
        return self._requests

    def answer(self, request: MessageId, result: Any) -> None:  # noqa: ANN401 - also invalid results
        """Answer a request of the client with a result."""
        self._reply(encode_line({"id": request, "result": result}))

    def refuse(self, request: MessageId, code: int, text: str) -> None:
        """Answer a request of the client with an error."""
        self._reply(encode_line({"id": request, "error": {"code": code, "message": text}}))

    def request_action(self, action: ProcessAction) -> None:
        """Add an action for the host."""
        self._actions.append(action)

    @property
    def has_actions(self) -> bool:
        """True while an action waits to be taken."""
        return bool(self._actions)

    @property
    def is_exiting(self) -> bool:
        """True if one of the actions is to exit."""
        return any(action.kind == "exit" for action in self._actions)

    def take(self) -> list[bytes]:
        """Return the bytes to write, in order."""
        taken, self._lines, self.waiting_bytes = self._lines, [], 0
        return taken

    def take_actions(self) -> list[ProcessAction]:
        """Return the actions to perform, in order, once all earlier output is written."""
        taken = list(self._actions)
        self._actions.clear()
        return taken

    def next_deadline(self) -> float | None:
        """Return the time at which a delayed answer is sent; None if none is delayed."""
        return None if self._delayed_answer is None else self._delayed_until

    def tick(self, now: float) -> None:
        """Set the current time and send a delayed answer that is due."""
        self.now = now
        if self._delayed_answer is not None and now >= self._delayed_until:
            delayed, self._delayed_answer = self._delayed_answer, None
            self.write(delayed)

    def _reply(self, answer: bytes) -> None:
        if not self._swaps_answers:
            self.write(answer)
        elif self._delayed_answer is None:
            self._delayed_answer, self._delayed_until = answer, self.now + OVERTAKEN_SECONDS
        else:
            delayed, self._delayed_answer = self._delayed_answer, None
            self.write(answer)
            self.write(delayed)
