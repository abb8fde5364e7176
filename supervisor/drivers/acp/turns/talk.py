"""A conversation with an agent that is up: one prompt at a time, and all that belongs to it.

Rule 1: a second prompt never reaches a busy agent. A turn is over when its prompt is answered, and
        nothing else is sent before.
Rule 2: all that came before the answer has been handled when the end of the turn is reported; what
        comes later is late.
        A turn whose agent goes with it has no end here: that the agent is gone ends it.
Rule 3: an agent may begin a turn by itself, with guidance that came when it was through. That is
        another turn from then on: the session says which (`adopt`), and silence is its end.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

import attrs
import trio

from supervisor.core import events as ev
from supervisor.core.creation import Message
from supervisor.core.effects import AdoptTurn, OfferSteering, StartTurn
from supervisor.core.errors import OutputTooLarge, SupervisorError
from supervisor.core.ids import CallId, InputId, TurnId
from supervisor.drivers.acp.host import Host
from supervisor.drivers.acp.life.failing import described
from supervisor.drivers.acp.life.login import Login
from supervisor.drivers.acp.news.ending import Ended, judge_end
from supervisor.drivers.acp.reading import as_mapping
from supervisor.drivers.acp.rpc.connection import Connection
from supervisor.drivers.acp.rpc.messages import AUTH_REQUIRED, RpcError, Unsendable
from supervisor.drivers.acp.rpc.outbox import ConnectionLost
from supervisor.drivers.port import Office
from supervisor.drivers.python import shown_error

from .guidance import Guidance
from .silence import Silence

# How long the answers to guidance may take when the turn is over otherwise.
GUIDANCE_SECONDS: Final = 5.0
# How long the session may take to say which turn it is that the agent has begun.
ADOPTION_SECONDS: Final = 5.0
# How long an agent's questions wait for it to hear first that they are moot.
TOLD_SECONDS: Final = 2.0
_LOOK_AGAIN_SECONDS: Final = 0.5


@attrs.define(eq=False)
class _Turn:
    """The one that runs."""

    id: TurnId
    guidance: Guidance
    is_cancelled: bool = False
    # Whether its prompt is on its way, or was; and whether it was answered.
    is_sent: bool = False
    is_answered: bool = False
    # Whether more was done to end it than to ask: then the agent goes with it.
    is_doomed: bool = False
    # Set when it has put out more than it may: it then ends, and with this.
    problem: str | None = None
    # Set when the agent has begun it, or the one that it was, by itself.
    silence: Silence | None = None
    # Not set while the session has yet to say which turn it is that the agent has begun.
    adopted: trio.Event = attrs.field(factory=trio.Event)
    # Set when the agent was told that it is to end.
    told: trio.Event = attrs.field(factory=trio.Event)
    # Around whoever says who we are.
    login: trio.CancelScope = attrs.field(factory=trio.CancelScope)
    over: trio.Event = attrs.field(factory=trio.Event)


class Talk:
    """One agent, its session, and the turn that it runs.

    `on_lost` hears why the agent cannot be talked to any more, as soon as that is noticed.
    """

    def __init__(
        self,
        *,
        session_id: str,
        connection: Connection,
        office: Office,
        nursery: trio.Nursery,
        host: Host,
        login: Login,
        on_lost: Callable[[str], None],
    ) -> None:
        self._session_id = session_id
        self._connection = connection
        self._office = office
        self._nursery = nursery
        self.host = host
        self._login = login
        self._on_lost = on_lost
        # What was said before the agent was there, if it does not know of it.
        self.tells_history = False
        self._turn: _Turn | None = None

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
        turn = self._turn
        if turn is None or turn.silence is None:
            # It was over before the session could say so.
            self._report(order.turn, Ended("completed", "end_turn"))
            return
        turn.id = order.turn
        turn.guidance = self._guidance(order.turn)
        self.host.end_turn()
        self.host.begin_turn(order.turn)
        turn.adopted.set()

    def cancel(self) -> None:
        """Ask the agent to end the turn; that it has is its answer to the prompt."""
        turn = self._turn
        if turn is not None and not turn.is_cancelled:
            turn.is_cancelled = True
            turn.adopted.set()  # a turn that is to end becomes no other any more
            turn.login.cancel(reason="the turn is to end")
            self.host.cancel_turn(turn.id)
            self._nursery.start_soon(self._notify_cancel, turn)

    def doom(self) -> None:
        """More than asking is done to end the turn: its agent is not fit for another."""
        if self._turn is not None:
            self._turn.is_doomed = True

    async def end_turn(self) -> None:
        """Ask the agent to end the turn that runs, if one does, and wait until it is over."""
        self.cancel()
        if self._turn is not None:
            await self._turn.over.wait()

    async def wait_told(self) -> None:
        """Wait until the agent was told that its turn is to end, if it is; bounded."""
        turn = self._turn
        if turn is not None and turn.is_cancelled:
            with trio.move_on_after(TOLD_SECONDS):
                await turn.told.wait()

    def steer(self, offer: OfferSteering) -> None:
        """Hand guidance to the turn, which may have begun by now."""
        if self.is_at(offer.turn):
            assert self._turn is not None
            self._turn.guidance.add(offer)
            self._hand_over(self._turn)

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
        update = given.get("update")
        turn = self._turn
        if turn is not None:
            if turn.problem is not None:
                return  # it has said too much already
            await self.wait_adopted()
            if turn.silence is not None:
                turn.silence.hear(as_mapping(update), trio.current_time())
        try:
            await self.host.updates.take(update)
        except OutputTooLarge as error:
            self.end_for(error)

    def end_for(self, error: OutputTooLarge) -> None:
        """The turn has put out more than it may: it ends, and its agent if it does not."""
        turn = self._turn
        if turn is not None and turn.problem is None:
            turn.problem = shown_error(error)
            self.cancel()
            self._nursery.start_soon(self._insist, turn)

    async def wait_adopted(self) -> None:
        """Wait until it is known which turn it is that the agent is in; bounded."""
        turn = self._turn
        if turn is not None and not turn.adopted.is_set():
            adopted = turn.adopted
            with trio.move_on_after(ADOPTION_SECONDS):
                await adopted.wait()
            adopted.set()  # nobody waits for that again

    async def _insist(self, turn: _Turn) -> None:
        """An agent that floods us and does not end when it is asked to is cut off."""
        with trio.move_on_after(self._office.ladder.ask_seconds):
            await turn.over.wait()
            return
        turn.is_doomed = True
        self.host.end_agent("it has put out more than it may, and does not end when it is asked to")

    # A turn -------------------------------------------------------------------------------

    async def _run(self, turn: _Turn, order: StartTurn) -> None:
        ended: Ended | Mapping[str, Any] | None = None
        try:
            ended = await self._to_its_end(turn, order)
        except ConnectionLost as error:
            self._on_lost(error.reason)
        finally:
            turn.guidance.close()
            did = self.host.end_turn()
            turn.over.set()
        if ended is None or turn.is_doomed:
            return  # until its agent is gone it is at this turn
        self._turn = None
        if isinstance(ended, Mapping):
            said = self._office.said(turn.id)
            ended = judge_end(ended.get("stopReason"), said=said, did=did)
        if turn.is_cancelled and ended.outcome == "failed":
            # An improper end: nothing is wrong with what was asked to end, however it says so.
            ended = Ended("interrupted", ended.stop_reason)
        if turn.problem is not None:
            ended = Ended("failed", ended.stop_reason, turn.problem)
        self._report(turn.id, ended)

    async def _to_its_end(self, turn: _Turn, order: StartTurn) -> Ended | Mapping[str, Any]:
        self.host.begin_turn(turn.id)
        ended = await self._prompt(turn, order)
        # Not awaited if it is: nothing that the agent says after its answer is to come first.
        if not turn.guidance.is_settled:
            await turn.guidance.wait_settled(GUIDANCE_SECONDS)
            if not turn.guidance.is_settled:
                await self._end_what_may_run()
        if turn.silence is not None:
            ended = await self._run_on(turn, turn.silence)
        return ended

    async def wait_reported(self) -> None:
        """Wait until the end of a turn that was answered is reported; bounded.

        For when the agent is gone: a turn that was not answered never ends here.
        """
        turn = self._turn
        if turn is not None and turn.is_answered and turn.silence is None:
            with trio.move_on_after(GUIDANCE_SECONDS):
                await turn.over.wait()

    async def _prompt(self, turn: _Turn, order: StartTurn) -> Ended | Mapping[str, Any]:
        """Send the prompt and wait for its answer, as long as that takes: others watch the time."""
        try:
            blocks = await self._blocks(order)
            return await self._send_prompt(turn, {"sessionId": self._session_id, "prompt": blocks})
        except RpcError as error:
            return self._refused(turn, error)
        except (Unsendable, SupervisorError) as error:
            return Ended("failed", None, str(error))

    async def _send_prompt(self, turn: _Turn, params: Mapping[str, Any]) -> Mapping[str, Any]:
        for is_last in (False, True):
            if turn.is_cancelled:
                break
            turn.is_sent = True
            self._hand_over(turn)
            try:
                answer = await self._connection.call(
                    "session/prompt", params, timeout_seconds=math.inf
                )
            except RpcError as error:
                # Refused before anything was done: say who we are, and try once more.
                turn.is_sent = False
                self.tells_history &= error.code == AUTH_REQUIRED
                if is_last or error.code != AUTH_REQUIRED or not await self._log_in(turn):
                    raise
            else:
                self.tells_history = False
                turn.is_answered = True
                self.host.updates.take_answer(answer)
                return as_mapping(answer)
        return {"stopReason": "cancelled"}

    async def _log_in(self, turn: _Turn) -> bool:
        """Say who we are; gives whether that has worked. An interrupt ends it at once."""
        with turn.login:
            return await self._login.log_in()
        return False

    def _refused(self, turn: _Turn, error: RpcError) -> Ended:
        if turn.is_cancelled and turn.problem is None:
            return Ended("interrupted", "cancelled")
        why = described(error)
        if error.code == AUTH_REQUIRED:
            why = f"{why}: {self._login.advice()}"
        return Ended("failed", None, why)

    async def _run_on(self, turn: _Turn, silence: Silence) -> Mapping[str, Any]:
        """The agent is in a turn that it has begun by itself: it is over when it falls silent."""
        await self.wait_adopted()
        while True:
            left = silence.seconds_left(trio.current_time(), asked_to_end=turn.is_cancelled)
            if not left and not self.host.questions:
                break
            # Looked at often, for it may be asked to end meanwhile.
            await trio.sleep(min(left, _LOOK_AGAIN_SECONDS) or _LOOK_AGAIN_SECONDS)
        if turn.is_cancelled:
            return {"stopReason": "cancelled"}
        # That it is over is our guess. If not, it ends now: the next prompt must find it idle.
        await self._notify_cancel(turn)
        return {"stopReason": "end_turn"}

    async def _blocks(self, order: StartTurn) -> list[Mapping[str, Any]]:
        """What the agent gets: what it does not know of what was said before, and the input."""
        before: Sequence[Message] = ()
        if self.tells_history or order.untold:
            before = await self._office.history(order.turn)
        if not self.tells_history:
            before = before[max(0, len(before) - order.untold) :]
        return self.host.prompt_blocks(order, before)

    def _report(self, turn: TurnId, ended: Ended) -> None:
        self.host.show_choices()
        self._office.report_surely(
            ev.TurnEnded(
                turn=turn,
                outcome=ended.outcome,
                stop_reason=ended.stop_reason,
                error=ended.error,
                **self._office.stamp(),
            )
        )

    # Inside -------------------------------------------------------------------------------

    def _new_turn(self, turn_id: TurnId) -> _Turn:
        turn = _Turn(turn_id, self._guidance(turn_id))
        turn.adopted.set()
        return turn

    def _guidance(self, turn: TurnId) -> Guidance:
        return Guidance(
            turn,
            self._session_id,
            self._connection,
            self._office,
            on_new_turn=lambda: self._note_new_turn(turn),
        )

    async def _end_what_may_run(self) -> None:
        """It may have begun a turn with guidance that it never answers: then that ends; bounded."""
        with trio.move_on_after(TOLD_SECONDS), suppress(ConnectionLost):
            await self._connection.notify("session/cancel", {"sessionId": self._session_id})

    def _hand_over(self, turn: _Turn) -> None:
        """Have what waits handed over, but not before the prompt: it is guidance for that."""
        if turn.is_sent and turn.guidance.begin():
            self._nursery.start_soon(turn.guidance.hand_over)

    def _note_new_turn(self, turn_id: TurnId) -> None:
        turn = self._turn
        if turn is not None and turn.id == turn_id:
            turn.silence = Silence(trio.current_time())
            if turn.is_cancelled:
                # It was told before it began this one.
                self._nursery.start_soon(self._notify_cancel, turn)
            else:
                turn.adopted = trio.Event()

    async def _notify_cancel(self, turn: _Turn) -> None:
        # What is over, or was never begun, needs no end; and if the agent is in the next turn by
        # now, nobody has interrupted that one.
        is_at_it = turn.is_sent and not turn.is_answered
        try:
            if self._turn is turn and (is_at_it or turn.silence is not None):
                await self._connection.notify("session/cancel", {"sessionId": self._session_id})
        except ConnectionLost:
            pass  # then it needs not be told
        finally:
            turn.told.set()
