"""`TurnControl`: the driver's side of one Python turn.

The agent gets a `Turn`, whose public names are all meant for agents. The driver ends the turn,
offers steering, answers permission requests and cancels calls through its `TurnControl`.
"""

from __future__ import annotations

from typing import Literal

import trio

from supervisor.core import agent_events
from supervisor.core.errors import TurnOver
from supervisor.core.ids import CallId, InputId, RequestId, TurnId
from supervisor.core.state import NO_USAGE, Decision

from .port import DriverContext


class PendingPermission:
    """A permission request that the agent waits for."""

    __slots__ = ("answered", "decision")

    def __init__(self) -> None:
        self.answered = trio.Event()
        self.decision: Decision | Literal["cancelled"] = "cancelled"


class TurnControl:
    """The driver's side of one turn."""

    __slots__ = (
        "calls",
        "context",
        "id",
        "is_over",
        "offered_steering",
        "pending_permissions",
        "unreported_usage",
    )

    def __init__(self, turn: TurnId, context: DriverContext) -> None:
        self.id = turn
        self.context = context
        # Invariant: set once, by `end`, when the agent returns or the turn is abandoned.
        self.is_over = False
        # Steering not yet taken, the open calls, and the open permission requests.
        self.offered_steering: list[tuple[InputId, str]] = []
        self.calls: dict[CallId, trio.CancelScope] = {}
        self.pending_permissions: dict[RequestId, PendingPermission] = {}
        # Usage that could not be reported yet, because the session's mailbox was full.
        self.unreported_usage = NO_USAGE

    def end(self) -> None:
        """Mark the turn as over, report outstanding usage, and wake open permission requests."""
        if not self.is_over:
            self.is_over = True
            # Most turns never count usage: then it is still the same object.
            if self.unreported_usage is not NO_USAGE and self.unreported_usage != NO_USAGE:
                self.context.report_eventually(self._usage_report())
            if self.pending_permissions:
                for waiting in self.pending_permissions.values():
                    waiting.answered.set()

    def offer_steering(self, input_id: InputId, text: str) -> None:
        """Keep a steering text until the agent takes it."""
        self.offered_steering.append((input_id, text))

    def withdraw_steering(self, input_id: InputId) -> None:
        """Drop a steering text that was not taken."""
        self.offered_steering = [offer for offer in self.offered_steering if offer[0] != input_id]

    def answer(self, request: RequestId, decision: Decision | Literal["cancelled"]) -> None:
        """Store the decision on a permission request and wake the agent."""
        waiting = self.pending_permissions.get(request)
        if waiting is not None:
            waiting.decision = decision
            waiting.answered.set()

    def cancel_call(self, call: CallId) -> None:
        """Cancel the scope of one tool call."""
        scope = self.calls.get(call)
        if scope is not None:
            scope.cancel(reason="the tool call was interrupted")

    # Used by `Turn` -----------------------------------------------------------------------

    def report_usage(self) -> None:
        """Report usage if the session's mailbox has room; otherwise keep it for the next report."""
        if self.unreported_usage != NO_USAGE and self.context.report(self._usage_report()):
            self.unreported_usage = NO_USAGE

    def _usage_report(self) -> agent_events.UsageReported:
        return agent_events.UsageReported(
            turn=self.id, usage=self.unreported_usage, **self.context.stamp()
        )

    def raise_if_over(self) -> None:
        """Raise `TurnOver` if the turn is over."""
        if self.is_over:
            raise TurnOver(
                f"turn {self.id} of session {self.context.session_id} is over",
                hint="it ended or was interrupted; return from the agent's function",
            )
