"""One ACP conversation with an attached agent: one prompt at a time.

Rule 1: a second prompt is never sent to a busy agent. A turn is over when its prompt is answered,
        and the next prompt is sent only then.
Rule 2: all updates before the answer are handled when the end of the turn is reported; updates
        after the answer are late. If an interrupt ends the agent too, the turn's end is not
        reported: the agent's exit is.
Rule 3: an agent may start a turn by itself, from steering that arrived after its last turn. That is
        a new turn: the session names it (`adopt_turn`), and silence ends it.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Any, Final, TypeVarTuple

import trio

from supervisor.core import agent_events
from supervisor.core.agent_options import OptionValue
from supervisor.core.effects import AdoptTurn, OfferSteering, StartTurn
from supervisor.core.errors import OutputTooLarge, SupervisorError
from supervisor.core.ids import CallId, InputId, TurnId
from supervisor.core.text import describe_error
from supervisor.drivers.port import DriverContext
from supervisor.json_rpc.rpc_connection import ConnectionLost, RpcConnection
from supervisor.json_rpc.rpc_messages import AUTH_REQUIRED, InvalidAnswer, RpcError, Unsendable

from .client import AcpClient
from .content import as_mapping
from .handshake import Authenticator
from .option_setter import OptionSetter
from .steering import STEERING_SETTLE_SECONDS, SteeringDelivery
from .turn_result import AcpTurn, SilenceDetector, TurnEnd, classify_turn_end, describe_rpc_error

# Time for the session to name a turn that the agent started by itself.
ADOPTION_SECONDS: Final = 5.0
# Time for the agent to receive `session/cancel` before its open permission requests are cancelled.
CANCEL_SENT_SECONDS: Final = 2.0

_POLL_SECONDS: Final = 0.5


Args = TypeVarTuple("Args")


class AcpSession:
    """The ACP session of one agent and its running turn.

    `on_lost` is called with the reason as soon as the connection is lost.
    """

    def __init__(
        self,
        *,
        session_id: str,
        connection: RpcConnection,
        context: DriverContext,
        nursery: trio.Nursery,
        client: AcpClient,
        authenticator: Authenticator,
        options: OptionSetter,
        on_lost: Callable[[str], None],
    ) -> None:
        self._session_id = session_id
        self._connection = connection
        self._context = context
        self._nursery = nursery
        self.client = client
        self._authenticator = authenticator
        self._options = options
        self._on_lost = on_lost
        # Whether the next prompt starts with the session's history: the agent does not have it.
        self.sends_history = False
        self._turn: AcpTurn | None = None
        self._last_steering: SteeringDelivery | None = None

    # For the driver -----------------------------------------------------------------------

    def is_running_turn(self, turn: TurnId) -> bool:
        """Return True if the turn with this id is running."""
        return self._turn is not None and self._turn.id == turn

    @property
    def turn(self) -> TurnId | None:
        """The running turn; None if no turn runs."""
        return None if self._turn is None else self._turn.id

    def start_turn(self, effect: StartTurn) -> None:
        """Prompt the agent in a task that reports the end of the turn."""
        assert self._turn is None, "the agent is busy"
        self._turn = self._new_turn(effect.turn)
        self._start_soon(self._run_turn, self._turn, effect, name=effect.turn)

    def adopt_turn(self, effect: AdoptTurn) -> None:
        """Assign this id to the turn that the agent started by itself."""
        turn = self._turn
        if turn is None or turn.silence is None:
            # The agent's turn ended before the session named it.
            self._report_turn_end(effect.turn, TurnEnd("completed", "end_turn"))
            return
        turn.id = effect.turn
        turn.steering = self._new_steering(effect.turn)
        self.client.end_turn()
        self.client.begin_turn(effect.turn)
        turn.adopted.value = True

    def cancel_turn(self) -> None:
        """Send `session/cancel`; the agent confirms by answering the prompt."""
        turn = self._turn
        if turn is not None and not turn.is_cancelled:
            turn.is_cancelled = True
            turn.adopted.value = True  # a cancelled turn is not adopted any more
            turn.cancel_preparation()
            turn.steering.interrupt(within_seconds=self._context.ladder.ask_seconds)
            self.client.cancel_turn(turn.id)
            self._start_soon(self._notify_cancel, turn)

    def retire_agent(self) -> None:
        """Mark the agent for exit: it will be terminated, so it cannot take another turn."""
        if self._turn is not None:
            self._turn.retires_agent = True

    async def end_turn(self) -> None:
        """Cancel the running turn, if there is one, and wait until it is over."""
        self.cancel_turn()
        if self._turn is not None:
            await self._turn.over.wait()

    async def wait_cancel_sent(self) -> None:
        """Wait until `session/cancel` is sent, if the turn is cancelled; the wait is bounded."""
        turn = self._turn
        if turn is not None and turn.is_cancelled:
            with trio.move_on_after(CANCEL_SENT_SECONDS):
                await turn.cancel_sent.wait()

    def steer(self, offer: OfferSteering) -> None:
        """Queue steering for the turn; it is sent after the prompt."""
        if self.is_running_turn(offer.turn):
            assert self._turn is not None
            self._turn.steering.add(offer)
            self._deliver_steering(self._turn)

    def withdraw_steering(self, input_id: InputId) -> None:
        """Drop queued steering that has not been sent."""
        if self._turn is not None:
            self._turn.steering.withdraw(input_id)

    def set_options(self, options: Mapping[str, OptionValue]) -> None:
        """Set options before the next prompt; if no turn runs, at once, with those that wait."""
        self._options.want(options)
        if self._turn is None and self._options.has_wanted:
            self._start_soon(self._options.apply_between_turns, self._on_lost)

    def cancel_call(self, call: CallId) -> None:
        """Kill the terminals of a tool call, if the supervisor runs them."""
        self._start_soon(self.client.updates.interrupt_call, call)

    # Updates ------------------------------------------------------------------------------

    async def on_update(self, params: object) -> None:
        """Record a `session/update` of the agent, and count it as activity of the turn."""
        fields = as_mapping(params)
        if fields.get("sessionId", self._session_id) != self._session_id:
            return  # another session of the same agent
        update = fields.get("update")
        turn = self._turn
        if turn is not None:
            if turn.output_problem is not None:
                return  # the turn is being ended for its output
            await self.wait_adopted()
            if turn.silence is not None:
                turn.silence.on_update(as_mapping(update), trio.current_time())
        try:
            await self.client.updates.on_update(update)
        except OutputTooLarge as error:
            self.end_turn_for(error)

    def end_turn_for(self, error: OutputTooLarge) -> None:
        """Cancel a turn whose output is too large; kill the agent if the turn does not end."""
        turn = self._turn
        if turn is not None and turn.output_problem is None:
            turn.output_problem = describe_error(error)
            self.cancel_turn()
            self._start_soon(self._kill_unless_ended, turn)

    async def wait_adopted(self) -> None:
        """Wait until the session has assigned an id to the agent's turn; the wait is bounded."""
        turn = self._turn
        if turn is not None and not turn.adopted.value:
            with trio.move_on_after(ADOPTION_SECONDS) as bound:
                await turn.adopted.wait_value(True)  # noqa: FBT003 - the value waited for
            if bound.cancelled_caught:
                turn.adopted.value = True  # after the bound, no other update waits

    async def _kill_unless_ended(self, turn: AcpTurn) -> None:
        """Kill the agent if the turn does not end within the ladder's ask step."""
        with trio.move_on_after(self._context.ladder.ask_seconds):
            await turn.over.wait()
            return
        turn.retires_agent = True
        self.client.kill_agent("its output was too large and it did not end the turn when asked")

    # A turn -------------------------------------------------------------------------------

    async def _run_turn(self, turn: AcpTurn, effect: StartTurn) -> None:
        turn_end: TurnEnd | Mapping[str, Any] | None = None
        try:
            turn_end = await self._run_to_end(turn, effect)
        except ConnectionLost as error:
            self._on_lost(error.reason)
        finally:
            turn.steering.end()
            activity = self.client.end_turn()
            turn.over.set()
        if turn_end is None or turn.retires_agent:
            return  # the turn stays until the agent's exit ends it
        self._turn = None
        if isinstance(turn_end, Mapping):
            text = self._context.received_text(turn.id)
            turn_end = classify_turn_end(turn_end.get("stopReason"), text=text, activity=activity)
        if turn.is_cancelled and turn_end.outcome == "failed":
            # Some agents report a cancelled turn as a failure; it is an interrupt.
            turn_end = TurnEnd("interrupted", turn_end.stop_reason)
        if turn.output_problem is not None:
            turn_end = TurnEnd("failed", turn_end.stop_reason, turn.output_problem)
        self._report_turn_end(turn.id, turn_end)
        self.set_options({})

    async def _run_to_end(self, turn: AcpTurn, effect: StartTurn) -> TurnEnd | Mapping[str, Any]:
        self.client.begin_turn(turn.id)
        turn_end = await self._prompt(turn, effect)
        silence = None
        while True:
            if turn.silence is not silence:  # the agent has started a turn by itself
                silence = turn.silence
                turn_end = await self._run_until_silent(turn)
            # No checkpoint if settled: a later update must not be handled before the end.
            if not await turn.steering.settle():
                await self._cancel_unanswered_steering()
            if turn.silence is silence:
                return turn_end

    async def wait_reported(self) -> None:
        """Wait until the end of an answered turn is reported; the wait is bounded.

        It is called after the agent exited: an unanswered turn never ends by an answer.
        """
        turn = self._turn
        if turn is not None and turn.is_answered and turn.silence is None:
            with trio.move_on_after(STEERING_SETTLE_SECONDS):
                await turn.over.wait()

    async def _prompt(self, turn: AcpTurn, effect: StartTurn) -> TurnEnd | Mapping[str, Any]:
        """Send the prompt and wait for its answer without a timeout: the session has the timers."""
        if await turn.steering.previous_began_turn():
            await self._cancel_unanswered_steering()
        try:
            await self._context.workspace_root()  # raises if it was replaced
            with turn.option_setting:
                await self._options.apply()
            params = await self.client.prompt_params(effect, sends_history=self.sends_history)
            return await self._send_prompt(turn, {"sessionId": self._session_id, **params})
        except RpcError as error:
            return self._refused_turn_end(turn, error)
        except (Unsendable, SupervisorError) as error:
            return TurnEnd("failed", None, str(error))

    async def _send_prompt(self, turn: AcpTurn, params: Mapping[str, Any]) -> Mapping[str, Any]:
        for is_last in (False, True):
            if turn.is_cancelled:
                break
            turn.is_sent = True
            self._deliver_steering(turn)
            try:
                answer = await self._connection.call(
                    "session/prompt", params, timeout_seconds=math.inf
                )
            except RpcError as error:
                # Refused before any work was done: authenticate and try once more.
                turn.is_sent = False
                self.sends_history &= error.code == AUTH_REQUIRED
                if (
                    is_last
                    or error.code != AUTH_REQUIRED
                    or not await self._authenticate_turn(turn)
                ):
                    raise
            else:
                self.sends_history = False
                turn.is_answered = True
                self.client.updates.on_prompt_result(answer)
                return as_mapping(answer)
        return {"stopReason": "cancelled"}

    async def _authenticate_turn(self, turn: AcpTurn) -> bool:
        """Authenticate; return True if that succeeded. An interrupt cancels the authentication."""
        with turn.authentication:
            return await self._authenticator.authenticate()
        return False

    def _refused_turn_end(self, turn: AcpTurn, error: RpcError) -> TurnEnd:
        if turn.is_cancelled and turn.output_problem is None:
            return TurnEnd("interrupted", "cancelled")
        why = describe_rpc_error(error)
        if isinstance(error, InvalidAnswer):
            with suppress(OutputTooLarge):
                self._context.write(turn.id, "warning", {"text": error.message})
            return TurnEnd("failed", None, error.message)
        if error.code == AUTH_REQUIRED:
            why = f"{why}: {self._authenticator.hint()}"
        return TurnEnd("failed", None, why)

    async def _run_until_silent(self, turn: AcpTurn) -> Mapping[str, Any]:
        """Wait until the agent is silent, which ends a turn that the agent started by itself."""
        await self.wait_adopted()
        while True:
            assert turn.silence is not None
            left = turn.silence.seconds_left(trio.current_time(), is_cancelled=turn.is_cancelled)
            if not left and not self.client.pending_permissions:
                break
            # Polled, because a cancel shortens the time left.
            await trio.sleep(min(left, _POLL_SECONDS) or _POLL_SECONDS)
        if turn.is_cancelled:
            return {"stopReason": "cancelled"}
        # Silence is a guess. Cancel a turn that still runs: the next prompt needs an idle agent.
        await self._notify_cancel(turn)
        return {"stopReason": "end_turn"}

    def _report_turn_end(self, turn: TurnId, turn_end: TurnEnd) -> None:
        self.client.report_choices()
        self._context.report_eventually(
            agent_events.TurnEnded(
                turn=turn,
                outcome=turn_end.outcome,
                stop_reason=turn_end.stop_reason,
                error=turn_end.error,
                **self._context.stamp(),
            )
        )

    # Inside -------------------------------------------------------------------------------

    def _start_soon(
        self, work: Callable[[*Args], Awaitable[object]], *args: *Args, name: str | None = None
    ) -> None:
        """Start a task, unless the agent has exited; its exit is about to be reported."""
        if not self._nursery.cancel_scope.cancel_called:
            self._nursery.start_soon(work, *args, name=name)

    def _new_turn(self, turn_id: TurnId) -> AcpTurn:
        return AcpTurn(turn_id, self._new_steering(turn_id))

    def _new_steering(self, turn: TurnId) -> SteeringDelivery:
        self._last_steering = SteeringDelivery(
            turn,
            self._session_id,
            self._connection,
            self._context,
            on_agent_turn=lambda: self._note_agent_turn(turn),
            previous=self._last_steering,
        )
        return self._last_steering

    async def _cancel_unanswered_steering(self) -> None:
        """Cancel a turn that the agent may have started from unanswered steering.

        The wait for it is bounded.
        """
        with trio.move_on_after(CANCEL_SENT_SECONDS), suppress(ConnectionLost):
            await self._connection.notify("session/cancel", {"sessionId": self._session_id})

    def _deliver_steering(self, turn: AcpTurn) -> None:
        """Start to send queued steering, but not before the prompt of its turn."""
        if turn.is_sent and turn.steering.start_delivery():
            self._start_soon(turn.steering.deliver)

    def _note_agent_turn(self, turn_id: TurnId) -> None:
        turn = self._turn
        if turn is not None and turn.id == turn_id:
            turn.silence = SilenceDetector(trio.current_time())
            if turn.is_cancelled:
                # The first cancel was sent before the agent started this turn.
                self._start_soon(self._notify_cancel, turn)
            else:
                turn.adopted.value = False

    async def _notify_cancel(self, turn: AcpTurn) -> None:
        # Cancel only a turn that runs in the agent: a late cancel would end the next turn.
        is_running = turn.is_sent and not turn.is_answered
        try:
            if self._turn is turn and (is_running or turn.silence is not None):
                await self._connection.notify("session/cancel", {"sessionId": self._session_id})
        except ConnectionLost:
            pass  # the agent has exited or is about to
        finally:
            turn.cancel_sent.set()
