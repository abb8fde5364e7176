"""Guidance on its way into an agent that takes it in the middle of a turn.

Rule 1: only what is on record as handed over is handed over, in its order, and what waits together
        goes together.
Rule 2: what became of it is said for certain or not at all. If the agent gives no answer, nobody
        knows whether it has read the text, and the session does not send it again.
Rule 3: what was meant for one turn never reaches another: what has not been handed over when the
        turn is over is declined.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, Literal, TypeAlias

import trio

from supervisor.core import events as ev
from supervisor.core.effects import OfferSteering
from supervisor.core.ids import InputId, TurnId
from supervisor.drivers.acp.reading import as_mapping, as_text
from supervisor.drivers.acp.rpc.connection import CallTimeout, Connection
from supervisor.drivers.acp.rpc.messages import RpcError, Unsendable
from supervisor.drivers.acp.rpc.outbox import ConnectionLost
from supervisor.drivers.port import Office

# `lost`: nobody is there any more who could take the rest, either.
Fate: TypeAlias = Literal["injected", "promptRequired", "startedNewTurn", "unknown", "lost"]

_OUTCOMES: Final[Mapping[str, Fate]] = {
    "injected": "injected",
    "promptRequired": "promptRequired",
    "startedNewTurn": "startedNewTurn",
}

ANSWER_SECONDS: Final = 30.0


class Guidance:
    """For one turn; `on_new_turn` hears, before anybody else, that the agent has begun another."""

    def __init__(
        self,
        turn: TurnId,
        session_id: str,
        connection: Connection,
        office: Office,
        *,
        on_new_turn: Callable[[], None],
    ) -> None:
        self._turn = turn
        self._session_id = session_id
        self._connection = connection
        self._office = office
        self._on_new_turn = on_new_turn
        # What waits to be handed over, the first first.
        self._waiting: list[OfferSteering] = []
        self._is_closed = False
        # Set exactly while nobody is at it, or about to be.
        self._settled = trio.Event()
        self._settled.set()

    @property
    def is_settled(self) -> bool:
        """Whether the agent has answered for all that it was handed."""
        return self._settled.is_set()

    def add(self, offer: OfferSteering) -> None:
        """Have it handed over, when somebody does that."""
        if self._is_closed:
            self._report("promptRequired", [offer.input])
        else:
            self._waiting.append(offer)

    def begin(self) -> bool:
        """Whether somebody is to be sent (`hand_over`): something waits, and nobody is at it."""
        starts = bool(self._waiting) and self.is_settled
        if starts:
            self._settled = trio.Event()
        return starts

    def withdraw(self, input_id: InputId) -> None:
        """Not any more, if it has not been handed over."""
        self._waiting = [offer for offer in self._waiting if offer.input != input_id]

    def close(self) -> None:
        """The turn is over: what still waits was not taken, for certain."""
        self._is_closed = True
        waiting, self._waiting = self._waiting, []
        if waiting:
            self._report("promptRequired", [offer.input for offer in waiting])

    async def hand_over(self) -> None:
        """Hand over what there is, and report what became of it."""
        fate: Fate | None = None
        try:
            while self._waiting and fate != "lost":
                batch, self._waiting = self._waiting, []
                fate = await self._ask(batch)
                self._report(fate, [offer.input for offer in batch])
        finally:
            self._settled.set()

    async def wait_settled(self, seconds: float) -> None:
        """Wait until it is settled, at most so long."""
        with trio.move_on_after(seconds):
            await self._settled.wait()

    async def _ask(self, batch: list[OfferSteering]) -> Fate:
        params: dict[str, Any] = {
            "sessionId": self._session_id,
            "prompt": [{"type": "text", "text": offer.text} for offer in batch],
            # Asked of those that know it: if the turn is over, leave the next one to us.
            "_meta": {"steering": {"idleBehavior": "promptRequired"}},
        }
        try:
            answer = await self._connection.call(
                "_session/steering", params, timeout_seconds=ANSWER_SECONDS
            )
        except (RpcError, Unsendable):
            return "promptRequired"  # refused, or never sent, so for certain not taken
        except CallTimeout:
            return "unknown"
        except ConnectionLost:
            return "lost"
        return _OUTCOMES.get(as_text(as_mapping(answer).get("outcome")) or "", "unknown")

    def _report(self, fate: Fate, inputs: list[InputId]) -> None:
        office, turn = self._office, self._turn
        match fate:
            case "injected":
                taken = ev.SteeringTaken(turn=turn, inputs=tuple(inputs), **office.stamp())
                office.report_surely(taken)
            case "promptRequired":
                declined = ev.SteeringDeclined(turn=turn, inputs=tuple(inputs), **office.stamp())
                office.report_surely(declined)
            case "startedNewTurn":
                if inputs[1:]:
                    rest = ev.SteeringTaken(turn=turn, inputs=tuple(inputs[1:]), **office.stamp())
                    office.report_surely(rest)
                self.close()  # with this turn; the next one has its own
                self._on_new_turn()
                office.report_surely(
                    ev.SteeringBeganTurn(turn=turn, input=inputs[0], **office.stamp())
                )
            case "unknown" | "lost":
                pass
