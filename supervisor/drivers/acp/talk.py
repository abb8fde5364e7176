"""A conversation with an agent that is up: one prompt at a time, and all that belongs to it.

Rule 1: a second prompt never reaches a busy agent. A turn is over when its prompt is answered, and
        nothing else is sent before.
Rule 2: all that came before the answer has been handled when the end of the turn is reported; what
        comes later is late.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

import attrs
import trio

from supervisor.core import events as ev
from supervisor.core.creation import Message
from supervisor.core.effects import AdoptTurn, OfferSteering, StartTurn
from supervisor.core.errors import OutputTooLarge
from supervisor.core.ids import CallId, InputId, TurnId
from supervisor.drivers.port import Office
from supervisor.drivers.python import shown_error

from .connection import Connection
from .guidance import Guidance
from .host import Host
from .messages import AUTH_REQUIRED, RpcError, Unsendable
from .news.ending import Ended, judge_end
from .outbox import ConnectionLost
from .reading import as_mapping

# How long the answers to guidance may take when the turn is over otherwise.
GUIDANCE_SECONDS: Final = 5.0
# An agent that has begun a turn by itself never says that it is over; this much silence does.
SILENCE_SECONDS: Final = 3.0
FIRST_WORD_SECONDS: Final = 30.0
# How long the session may take to say which turn it is that the agent has begun.
ADOPTION_SECONDS: Final = 5.0


@attrs.define(eq=False)
class _Turn:
    """The one that runs."""

    id: TurnId
    guidance: Guidance
    is_cancelled: bool = False
    # Set when it has put out more than it may: it then ends, and with this.
    problem: str | None = None
    adopted: trio.Event = attrs.field(factory=trio.Event)
    over: trio.Event = attrs.field(factory=trio.Event)


class Talk:
    """One agent, its session, and the turn that it runs."""

    def __init__(
        self,
        *,
        session_id: str,
        connection: Connection,
        office: Office,
        nursery: trio.Nursery,
        host: Host,
    ) -> None:
        self._session_id = session_id
        self._connection = connection
        self._office = office
        self._nursery = nursery
        self.host = host
        # What was said before the agent was there, if it does not know of it.
        self.tells_history = False
        self._turn: _Turn | None = None
        self._heard_at = -math.inf

    # Orders -------------------------------------------------------------------------------

    def is_at(self, turn: TurnId) -> bool:
        """Whether it is that turn that runs."""
        return self._turn is not None and self._turn.id == turn

    @property
    def turn(self) -> TurnId | None:
        """The turn that runs."""
        return None if self._turn is None else self._turn.id

    def begin(self, order: StartTurn) -> None:
        """Prompt the agent; its answer is the end of the turn, and is reported."""
        assert self._turn is None, "the agent is busy"
        self._turn = self._new_turn(order.turn)
        self._nursery.start_soon(self._run, self._turn, order, name=order.turn)

    def adopt(self, order: AdoptTurn) -> None:
        """The turn that the agent has begun by itself is this one."""
        if self._turn is not None:
            self._turn.id = order.turn
            self._turn.guidance = self._guidance(order.turn)
            self.host.end_turn()
            self.host.begin_turn(order.turn)
            self._turn.adopted.set()

    def cancel(self) -> None:
        """Ask the agent to end the turn; that it has is its answer to the prompt."""
        turn = self._turn
        if turn is not None and not turn.is_cancelled:
            turn.is_cancelled = True
            self.host.cancel_turn(turn.id)
            self._nursery.start_soon(self._notify_cancel)

    def steer(self, offer: OfferSteering) -> None:
        """Hand guidance to the turn, which may have begun by now."""
        if self.is_at(offer.turn):
            assert self._turn is not None
            if self._turn.guidance.add(offer):
                self._nursery.start_soon(self._turn.guidance.hand_over)

    def withdraw(self, input_id: InputId) -> None:
        """Not any more."""
        if self._turn is not None:
            self._turn.guidance.withdraw(input_id)

    def cancel_call(self, call: CallId) -> None:
        """End one tool call, if that is in our hands."""
        self._nursery.start_soon(self.host.updates.interrupt_call, call)

    # The agent's news ---------------------------------------------------------------------

    async def heed(self, params: object) -> None:
        """Take in a `session/update`."""
        given = as_mapping(params)
        if given.get("sessionId", self._session_id) != self._session_id:
            return  # of a session that is not ours
        turn = self._turn
        if turn is not None:
            self._heard_at = trio.current_time()
            if turn.guidance.began is not None and not turn.adopted.is_set():
                with trio.move_on_after(ADOPTION_SECONDS):
                    await turn.adopted.wait()
        if turn is not None and turn.problem is not None:
            return  # it has said too much already
        try:
            await self.host.updates.take(given.get("update"))
        except OutputTooLarge as error:
            if turn is not None:
                turn.problem = shown_error(error)
                self.cancel()
                self._nursery.start_soon(self._insist, turn)

    async def _insist(self, turn: _Turn) -> None:
        """An agent that floods us and does not end when it is asked to is cut off."""
        with trio.move_on_after(self._office.ladder.ask_seconds):
            await turn.over.wait()
            return
        self.host.end_agent()

    # A turn -------------------------------------------------------------------------------

    async def _run(self, turn: _Turn, order: StartTurn) -> None:
        self.host.begin_turn(turn.id)
        try:
            ended = await self._prompt(turn, await self._blocks(order))
            await turn.guidance.wait_settled(GUIDANCE_SECONDS)
            if turn.guidance.began is not None:
                ended = await self._run_on(turn)
        except ConnectionLost:
            return  # that the agent is gone is reported by whoever watches over it
        finally:
            self._turn = None
            turn.over.set()
            did = self.host.end_turn()
        if isinstance(ended, Mapping):
            said = self._office.said(turn.id)
            ended = judge_end(ended.get("stopReason"), said=said, did=did)
        self._report(turn, ended)

    async def _prompt(
        self, turn: _Turn, blocks: Sequence[Mapping[str, Any]]
    ) -> Ended | Mapping[str, Any]:
        """Send the prompt and wait for its answer, as long as that takes: others watch the time."""
        params = {"sessionId": self._session_id, "prompt": blocks}
        try:
            return await self._send_prompt(turn, params)
        except RpcError as error:
            return self._refused(turn, error)
        except Unsendable as error:
            return Ended("failed", None, str(error))

    async def _send_prompt(self, turn: _Turn, params: Mapping[str, Any]) -> Mapping[str, Any]:
        for is_last in (False, True):
            if turn.is_cancelled:
                return {"stopReason": "cancelled"}
            try:
                answer = await self._connection.call(
                    "session/prompt", params, timeout_seconds=math.inf
                )
            except RpcError as error:
                # Refused before anything was done: say who we are, and try once more.
                if is_last or error.code != AUTH_REQUIRED or not await self.host.authenticate():
                    raise
            else:
                self.host.updates.take_answer(answer)
                return as_mapping(answer)
        raise AssertionError("the last try returns or raises")

    def _refused(self, turn: _Turn, error: RpcError) -> Ended:
        if turn.is_cancelled and turn.problem is None:
            return Ended("interrupted", "cancelled")
        return Ended("failed", None, self.host.describe(error))

    async def _run_on(self, turn: _Turn) -> Mapping[str, Any]:
        """The agent is in a turn that it has begun by itself: it is over when it falls silent."""
        with trio.move_on_after(ADOPTION_SECONDS):
            await turn.adopted.wait()
        self._heard_at = max(self._heard_at, trio.current_time())
        while True:
            silent = trio.current_time() - self._heard_at
            if silent >= SILENCE_SECONDS and not self.host.questions:
                return {"stopReason": "cancelled" if turn.is_cancelled else "end_turn"}
            await trio.sleep(max(SILENCE_SECONDS - silent, 0.1))

    async def _blocks(self, order: StartTurn) -> list[Mapping[str, Any]]:
        """What the agent gets: what was said before it came, if it does not know, and the input."""
        before: Sequence[Message] = ()
        if self.tells_history:
            self.tells_history = False
            before = await self._office.history(order.turn)
        return self.host.prompt_blocks(order, before)

    def _report(self, turn: _Turn, ended: Ended) -> None:
        if turn.problem is not None:
            ended = Ended("failed", ended.stop_reason, turn.problem)
        self.host.show_choices()
        self._office.report_surely(
            ev.TurnEnded(
                turn=turn.id,
                outcome=ended.outcome,
                stop_reason=ended.stop_reason,
                error=ended.error,
                **self._office.stamp(),
            )
        )

    # Inside -------------------------------------------------------------------------------

    def _new_turn(self, turn: TurnId) -> _Turn:
        return _Turn(turn, self._guidance(turn))

    def _guidance(self, turn: TurnId) -> Guidance:
        return Guidance(turn, self._session_id, self._connection, self._office)

    async def _notify_cancel(self) -> None:
        with contextlib.suppress(ConnectionLost):  # then it needs not be told
            await self._connection.notify("session/cancel", {"sessionId": self._session_id})
