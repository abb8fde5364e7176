"""Delivery of steering to an agent that accepts steering in a running turn.

Rule 1: only steering recorded as handed over is sent, in order; all queued texts go in one call.
Rule 2: every text that was sent is reported before the end of its turn is: as taken, declined,
        unanswered, or the beginning of another turn. A text that has not left is declined.
Rule 3: steering for one turn never reaches another: `end` takes back a text that has not left, and
        an answer that comes after it is not reported.
Rule 4: a prompt waits for the late answers of all earlier turns: the agent may have started a turn
        with one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, Literal, TypeAlias

import trio
from trio_util import AsyncBool

from supervisor.core import agent_events
from supervisor.core.effects import OfferSteering
from supervisor.core.ids import InputId, TurnId
from supervisor.drivers.port import DriverContext
from supervisor.json_rpc.rpc_connection import CallTimeout, ConnectionLost, RpcConnection
from supervisor.json_rpc.rpc_messages import InvalidAnswer, RpcError, Unsendable
from supervisor.json_rpc.rpc_outbox import OutgoingLine

from .content import as_mapping, as_text

SteeringOutcome: TypeAlias = Literal["injected", "promptRequired", "startedNewTurn", "unknown"]

_OUTCOMES: Final[Mapping[str, SteeringOutcome]] = {
    "injected": "injected",
    "promptRequired": "promptRequired",
    "startedNewTurn": "startedNewTurn",
}

STEERING_ANSWER_SECONDS: Final = 30.0
# Time for the answers once the turn is over.
STEERING_SETTLE_SECONDS: Final = 5.0
# Share of the ladder's first step that the answers may take in an interrupted turn.
_INTERRUPTED_SHARE: Final = 0.5


class SteeringDelivery:
    """Steering of one turn; `on_agent_turn` is called first when the agent starts another turn."""

    def __init__(
        self,
        turn: TurnId,
        session_id: str,
        connection: RpcConnection,
        context: DriverContext,
        *,
        on_agent_turn: Callable[[], None],
        previous: SteeringDelivery | None = None,
    ) -> None:
        self._turn = turn
        self._session_id = session_id
        self._connection = connection
        self._context = context
        self._on_agent_turn = on_agent_turn
        # Deliveries of earlier turns whose answers are late; and the wait for them.
        self._late = [] if previous is None else previous.late_deliveries()
        self._late_wait = trio.CancelScope()
        # Steering to send, oldest first.
        self._queued: list[OfferSteering] = []
        # Steering in the current call, whose outcome is not reported yet; and the call's line.
        self._called: list[OfferSteering] = []
        self._outgoing = OutgoingLine()
        self._call_scope = trio.CancelScope()
        # Around the wait for the outcome of that call, at the end of the turn.
        self._settling = trio.CancelScope()
        # When the next prompt no longer waits for the answer.
        self._answer_by = 0.0
        # True from a late answer that began a turn until a later delivery has reported that.
        self.began_turn_late = False
        self._is_closed = False
        # False from start_delivery() until deliver() has returned.
        self._settled = AsyncBool(value=True)

    @property
    def is_settled(self) -> bool:
        """True while no delivery runs."""
        is_settled: bool = self._settled.value
        return is_settled

    def add(self, offer: OfferSteering) -> None:
        """Queue steering for `deliver`; decline it if nothing more is sent for the turn."""
        if self._is_closed:
            self._report("promptRequired", [offer])
        else:
            self._queued.append(offer)

    def start_delivery(self) -> bool:
        """Return True if the caller must start `deliver`.

        That is so if steering is queued and no delivery runs.
        """
        starts = bool(self._queued) and self.is_settled
        if starts:
            self._settled.value = False
        return starts

    def withdraw(self, input_id: InputId) -> None:
        """Drop queued steering that has not been sent."""
        self._queued = [offer for offer in self._queued if offer.input != input_id]

    def close(self) -> None:
        """Send nothing more; decline queued steering, which the agent has not received."""
        self._is_closed = True
        waiting, self._queued = self._queued, []
        self._report("promptRequired", waiting)

    def end(self) -> None:
        """End delivery with the turn: nothing is sent and no outcome is reported after this."""
        self.close()
        called, self._called = self._called, []
        if self._outgoing.has_left:
            self._report("unknown", called)  # the call goes on, see rule 4
        else:
            self._call_scope.cancel(reason="the turn is over")
            self._report("promptRequired", called)

    async def deliver(self) -> None:
        """Send the queued steering and report the outcome of each text."""
        try:
            with trio.CancelScope() as self._call_scope:
                while self._queued:
                    self._called, self._queued = self._queued, []
                    outcome = await self._send(self._called)
                    called, self._called = self._called, []
                    self.began_turn_late = not called and outcome == "startedNewTurn"
                    self._report(outcome, called)
        finally:
            self._settled.value = True

    async def previous_began_turn(self) -> bool:
        """Wait for late answers of earlier turns; return True if the agent began a turn with one.

        The wait is bounded, and an interrupt ends it. Without a late answer the call is not a
        checkpoint.
        """
        with self._late_wait:
            for one in self._late:
                await one.wait_late_answer()
        began = [one for one in self._late if one.began_turn_late]
        for one in began:
            one.began_turn_late = False
        self._late = [one for one in self._late if not one.is_settled]
        return bool(began)

    def late_deliveries(self) -> list[SteeringDelivery]:
        """Return the deliveries up to this one that the next prompt must wait for, oldest first."""
        every = (*self._late, self)
        return [one for one in every if not one.is_settled or one.began_turn_late]

    async def wait_late_answer(self) -> None:
        """Wait for an answer that `settle` gave up; the bound is that of an uninterrupted turn."""
        if not self.is_settled:
            with trio.CancelScope(deadline=self._answer_by):
                await self._settled.wait_value(True)  # noqa: FBT003 - the value waited for

    def interrupt(self, *, within_seconds: float) -> None:
        """Send nothing more, because the turn was cancelled; text sent now would be lost.

        After `within_seconds` the ladder escalates, and would end the agent too. `settle` ends
        before that.
        """
        self.close()
        self._late_wait.cancel(reason="the turn was cancelled")
        end = trio.current_time() + within_seconds * _INTERRUPTED_SHARE
        self._settling.deadline = min(self._settling.deadline, end)

    async def settle(self) -> bool:
        """Send nothing more, and wait for the outcome of what was sent; the wait is bounded.

        Return False if it is unknown for some text. Unless a delivery runs, the call is not a
        checkpoint.
        """
        self.close()
        if self.is_settled:
            return True
        self._answer_by = trio.current_time() + STEERING_SETTLE_SECONDS
        bound = min(self._settling.deadline, self._answer_by)
        with trio.CancelScope(deadline=bound) as self._settling:
            await self._settled.wait_value(True)  # noqa: FBT003 - the value waited for
        is_unknown = bool(self._called) and self._outgoing.has_left
        self.end()
        return not is_unknown

    async def _send(self, batch: list[OfferSteering]) -> SteeringOutcome:
        params: dict[str, Any] = {
            "sessionId": self._session_id,
            "prompt": [{"type": "text", "text": offer.text} for offer in batch],
            # An extension: if the turn is over, the agent must not start one by itself.
            "_meta": {"steering": {"idleBehavior": "promptRequired"}},
        }
        self._outgoing = outgoing = OutgoingLine()
        try:
            answer = await self._connection.call(
                "_session/steering",
                params,
                timeout_seconds=STEERING_ANSWER_SECONDS,
                outgoing=outgoing,
            )
        except InvalidAnswer:
            return "unknown"
        except (RpcError, Unsendable):
            return "promptRequired"  # refused or never sent, so certainly not taken
        except (CallTimeout, ConnectionLost):
            return "unknown" if outgoing.has_left else "promptRequired"
        return _OUTCOMES.get(as_text(as_mapping(answer).get("outcome")) or "", "unknown")

    def _report(self, outcome: SteeringOutcome, offers: list[OfferSteering]) -> None:
        if not offers:
            return
        first, *rest = inputs = tuple(offer.input for offer in offers)
        match outcome:
            case "injected":
                self._report_event(agent_events.SteeringTaken, inputs)
            case "promptRequired":
                self._report_event(agent_events.SteeringDeclined, inputs)
            case "unknown":
                self._report_event(agent_events.SteeringUnanswered, inputs)
            case "startedNewTurn":
                if rest:
                    self._report_event(agent_events.SteeringTaken, tuple(rest))
                self.close()  # this turn is over; the next one has its own delivery
                self._on_agent_turn()
                self._context.report_eventually(
                    agent_events.SteeringBeganTurn(
                        turn=self._turn, input=first, **self._context.stamp()
                    )
                )

    def _report_event(
        self,
        event: type[
            agent_events.SteeringTaken
            | agent_events.SteeringDeclined
            | agent_events.SteeringUnanswered
        ],
        inputs: tuple[InputId, ...],
    ) -> None:
        self._context.report_eventually(
            event(turn=self._turn, inputs=inputs, **self._context.stamp())
        )
