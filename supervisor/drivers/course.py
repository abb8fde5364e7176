"""The course of a turn: what its driver steers, and its agent has no hand in.

The agent gets a `Turn`, whose names are all for agents; what ends it, offers it guidance, answers
what it asks and cancels its calls is here, with whoever runs it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import trio

from supervisor.core import events as ev
from supervisor.core.errors import TurnOver
from supervisor.core.ids import CallId, InputId, RequestId, TurnId
from supervisor.core.session import NO_USAGE, Decision

if TYPE_CHECKING:
    from .port import Office


class Question:
    """A permission that the agent waits for."""

    __slots__ = ("answered", "decision")

    def __init__(self) -> None:
        self.answered = trio.Event()
        self.decision: Decision | Literal["cancelled"] = "cancelled"


class Course:
    """One turn, as its driver sees it."""

    __slots__ = ("asked", "calls", "id", "is_over", "offered", "office", "unreported")

    def __init__(self, turn: TurnId, office: Office) -> None:
        self.id = turn
        self.office = office
        # Invariant: set once, when the turn's end is decided by whoever decides it first.
        self.is_over = False
        # What the agent may take, may have cancelled, and waits for.
        self.offered: list[tuple[InputId, str]] = []
        self.calls: dict[CallId, trio.CancelScope] = {}
        self.asked: dict[RequestId, Question] = {}
        # What was used and could not be reported yet, because the session had no room.
        self.unreported = NO_USAGE

    def end(self) -> None:
        """The turn is over, from now on."""
        if not self.is_over:
            self.is_over = True
            if self.unreported != NO_USAGE:
                self.office.report_surely(self._usage_report())
            for waiting in self.asked.values():
                waiting.answered.set()

    def offer(self, input_id: InputId, text: str) -> None:
        """Have this ready for when the agent asks for steering."""
        self.offered.append((input_id, text))

    def withdraw(self, input_id: InputId) -> None:
        """Forget what was offered and not taken."""
        self.offered = [offer for offer in self.offered if offer[0] != input_id]

    def answer(self, request: RequestId, decision: Decision | Literal["cancelled"]) -> None:
        """Wake whoever asked."""
        waiting = self.asked.get(request)
        if waiting is not None:
            waiting.decision = decision
            waiting.answered.set()

    def cancel_call(self, call: CallId) -> None:
        """Cancel one tool call, and nothing else."""
        scope = self.calls.get(call)
        if scope is not None:
            scope.cancel(reason="its tool call was interrupted")

    # For its `Turn` -----------------------------------------------------------------------

    def report_usage(self) -> None:
        """Say what was used, if there is room for that; else the next time, or at the end."""
        if self.unreported != NO_USAGE and self.office.report(self._usage_report()):
            self.unreported = NO_USAGE

    def _usage_report(self) -> ev.UsageReported:
        return ev.UsageReported(turn=self.id, usage=self.unreported, **self.office.stamp())

    def refuse_if_over(self) -> None:
        """Raise `TurnOver` if it is over, and what comes of it no longer counts."""
        if self.is_over:
            raise TurnOver(
                f"turn {self.id} of session {self.office.session_id} is over",
                hint="it ended or was interrupted; return from the agent's function",
            )
