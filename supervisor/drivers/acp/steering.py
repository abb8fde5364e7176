"""Delivery of steering to an agent that accepts steering in a running turn.

Rule 1: only steering recorded as handed over is sent, in order; all queued texts go in one call.
Rule 2: an outcome is reported only if it is certain. Without an answer, the agent may or may not
        have read the text, and the session does not send it again.
Rule 3: steering for one turn never reaches another: text not sent when the turn ends is declined.
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

from .content import as_mapping, as_text
from .rpc_connection import CallTimeout, ConnectionLost, RpcConnection
from .rpc_messages import RpcError, Unsendable

# `lost`: the connection is lost, so the rest cannot be sent either.
SteeringOutcome: TypeAlias = Literal[
    "injected", "promptRequired", "startedNewTurn", "unknown", "lost"
]

_OUTCOMES: Final[Mapping[str, SteeringOutcome]] = {
    "injected": "injected",
    "promptRequired": "promptRequired",
    "startedNewTurn": "startedNewTurn",
}

STEERING_ANSWER_SECONDS: Final = 30.0


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
    ) -> None:
        self._turn = turn
        self._session_id = session_id
        self._connection = connection
        self._context = context
        self._on_agent_turn = on_agent_turn
        # Steering to send, oldest first.
        self._queued: list[OfferSteering] = []
        self._is_closed = False
        # False from start_delivery() until deliver() has returned.
        self._settled = AsyncBool(value=True)

    @property
    def is_settled(self) -> bool:
        """True while no delivery runs."""
        is_settled: bool = self._settled.value
        return is_settled

    def add(self, offer: OfferSteering) -> None:
        """Queue steering for `deliver`; decline it if the turn is over."""
        if self._is_closed:
            self._report("promptRequired", [offer.input])
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
        """End delivery with the turn; decline queued steering, which the agent has not received."""
        self._is_closed = True
        waiting, self._queued = self._queued, []
        if waiting:
            self._report("promptRequired", [offer.input for offer in waiting])

    async def deliver(self) -> None:
        """Send the queued steering and report the outcome of each text."""
        outcome: SteeringOutcome | None = None
        try:
            while self._queued and outcome != "lost":
                batch, self._queued = self._queued, []
                outcome = await self._send(batch)
                self._report(outcome, [offer.input for offer in batch])
        finally:
            self._settled.value = True

    async def wait_settled(self, seconds: float) -> None:
        """Wait until no delivery runs, at most `seconds`."""
        with trio.move_on_after(seconds):
            await self._settled.wait_value(True)  # noqa: FBT003 - the value waited for

    async def _send(self, batch: list[OfferSteering]) -> SteeringOutcome:
        params: dict[str, Any] = {
            "sessionId": self._session_id,
            "prompt": [{"type": "text", "text": offer.text} for offer in batch],
            # An extension: if the turn is over, the agent must not start one by itself.
            "_meta": {"steering": {"idleBehavior": "promptRequired"}},
        }
        try:
            answer = await self._connection.call(
                "_session/steering", params, timeout_seconds=STEERING_ANSWER_SECONDS
            )
        except (RpcError, Unsendable):
            return "promptRequired"  # refused or never sent, so certainly not taken
        except CallTimeout:
            return "unknown"
        except ConnectionLost:
            return "lost"
        return _OUTCOMES.get(as_text(as_mapping(answer).get("outcome")) or "", "unknown")

    def _report(self, outcome: SteeringOutcome, inputs: list[InputId]) -> None:
        context, turn = self._context, self._turn
        match outcome:
            case "injected":
                taken = agent_events.SteeringTaken(
                    turn=turn, inputs=tuple(inputs), **context.stamp()
                )
                context.report_eventually(taken)
            case "promptRequired":
                declined = agent_events.SteeringDeclined(
                    turn=turn, inputs=tuple(inputs), **context.stamp()
                )
                context.report_eventually(declined)
            case "startedNewTurn":
                if inputs[1:]:
                    rest = agent_events.SteeringTaken(
                        turn=turn, inputs=tuple(inputs[1:]), **context.stamp()
                    )
                    context.report_eventually(rest)
                self.close()  # this turn is over; the next one has its own delivery
                self._on_agent_turn()
                context.report_eventually(
                    agent_events.SteeringBeganTurn(turn=turn, input=inputs[0], **context.stamp())
                )
            case "unknown" | "lost":
                pass
