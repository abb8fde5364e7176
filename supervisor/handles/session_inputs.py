"""Inputs of a session: send, steer, wait for results, and change the queue."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import attrs

from supervisor.core import events as ev
from supervisor.core.ids import InputId
from supervisor.core.receipts import Receipt, TurnResult
from supervisor.core.state import WhenBusy
from supervisor.core.validation import check_choice, check_integer, check_prompt, check_text

from .results import ResultWaiter, find_input_state, wait_for_result
from .session_base import SessionBase
from .shapes import Input, InputState, input_status
from .submission import make_input, make_steering, run_input_hooks, send


class SessionInputs(SessionBase):
    """The methods of `Session` that concern inputs."""

    __slots__ = ()

    async def send(
        self,
        text: str,
        *,
        attachments: Sequence[Mapping[str, Any]] = (),
        when_busy: WhenBusy = "queue",
        idempotency_key: str | None = None,
        ttl_seconds: float | None = None,
        if_stopped: Literal["resume", "reject"] = "resume",
        queued: Literal["keep", "cancel"] = "keep",
    ) -> Receipt:
        """Send an input; return its receipt when the input is durable.

        While a turn runs, `when_busy` decides: `queue` the input, `steer` the turn with it,
        `interrupt` the turn and run the input next (with `queued="cancel"`, all queued inputs are
        cancelled), or `reject` the input. A stopped session is resumed unless `if_stopped` is
        `reject`. An input that has not started after `ttl_seconds` expires.

        Raise `InputRefused`, `InputTooLarge`, `QueueFull`, `BudgetSpent`, `SessionNotActive` or
        `StoreDegraded`. If the call is cancelled, the input may have been accepted; with an
        `idempotency_key` it can be sent again safely: the same request returns the same receipt,
        and another request with that key raises `IdempotencyConflict`.
        """
        check_choice("queued", queued, Literal["keep", "cancel"])
        event = make_input(
            self._parts,
            text,
            attachments=attachments,
            when_busy=when_busy,
            ttl_seconds=ttl_seconds,
            if_stopped=if_stopped,
            source=self._source(),
        )
        if queued == "cancel":
            event = attrs.evolve(event, queued=queued)
        return await send(self._parts, self.id, event, idempotency_key)

    async def prompt(
        self,
        text: str,
        *,
        attachments: Sequence[Mapping[str, Any]] = (),
        when_busy: WhenBusy = "queue",
        idempotency_key: str | None = None,
        ttl_seconds: float | None = None,
        if_stopped: Literal["resume", "reject"] = "resume",
    ) -> TurnResult:
        """Send an input and wait for its turn; return the result of that turn.

        The turn is the one that the input starts or is steered into. Raise as `send` does,
        `InputRefused` if the input is cancelled or expires, and `SessionNotActive` if the session
        stops while the input is queued. Cancelling the call undoes nothing: an accepted input
        stays accepted.
        """
        self._refuse_own_session("prompt()", "use send(), which does not wait for the turn")
        event = make_input(
            self._parts,
            text,
            attachments=attachments,
            when_busy=when_busy,
            ttl_seconds=ttl_seconds,
            if_stopped=if_stopped,
            source=self._source(),
        )
        with (
            ResultWaiter(self._parts.registry, self.id, event.input) as pending,
            self._mark_awaited(),
        ):
            receipt = await send(self._parts, self.id, event, idempotency_key)
            if receipt.input_id == event.input:
                return await pending.wait()
        return await self.result(receipt.input_id)

    async def result(self, input_id: str) -> TurnResult:
        """Wait for the turn that an input starts or is steered into; return its result.

        Return at once if that turn has ended. Raise `InputRefused` if the session never accepted
        such an input or if the input was cancelled or expired, and `SessionNotActive` if the
        session is stopped with the input queued. Cancelling the call changes nothing.
        """
        check_text("input_id", input_id)
        self._refuse_own_session("result()", "wait for it outside this agent")
        with self._mark_awaited():
            return await wait_for_result(self._parts, self.id, InputId(input_id))

    async def input(self, input_id: str) -> InputState:
        """Return the current state of an input, however old it is.

        Raise `InputRefused` if the session never accepted such an input.
        """
        check_text("input_id", input_id)
        return await find_input_state(self._parts, self.id, InputId(input_id))

    async def steer(
        self, text: str, *, idempotency_key: str | None = None, ttl_seconds: float | None = None
    ) -> Receipt:
        """Steer the running turn with a text; return the receipt when the text is durable.

        Raise `NotRunning` if no turn runs, and otherwise as `send` does. Cancellation is as for
        `send`.
        """
        event = make_steering(self._parts, text, ttl_seconds=ttl_seconds, source=self._source())
        return await send(self._parts, self.id, event, idempotency_key)

    async def inputs(self) -> list[Input]:
        """Return the accepted inputs that are not settled, in the order in which they will run."""
        return [
            Input(
                id=waiting.id,
                text=waiting.text,
                status=input_status(waiting),
                position=position,
                accepted_at=waiting.accepted_at,
                expires_at=waiting.expires_at,
            )
            for position, waiting in enumerate((await self._row()).inputs)
        ]

    async def edit_input(self, input_id: str, text: str) -> None:
        """Replace the text of a queued input; raise `InputRefused` if it is not queued."""
        text = check_prompt(text)
        edited, source = InputId(input_id), self._source()
        await run_input_hooks(self._parts, self.id, edited, text, when_busy="queue", source=source)
        await self._ask(ev.InputEdited(input=edited, text=text, **self._stamp()))

    async def move_input(self, input_id: str, position: int) -> None:
        """Move a queued input to another position, from 0.

        Raise `InputRefused` if the input is not queued.
        """
        check_integer("position", position, least=0)
        await self._ask(ev.InputMoved(input=InputId(input_id), position=position, **self._stamp()))

    async def promote_input(self, input_id: str) -> Receipt:
        """Steer the running turn with a queued input; return its new receipt.

        Raise `NotRunning` if no turn runs, and `InputRefused` if the input is not queued.
        """
        receipt = await self._ask(ev.InputPromoted(input=InputId(input_id), **self._stamp()))
        assert isinstance(receipt, Receipt)
        return receipt

    async def cancel_input(self, input_id: str) -> None:
        """Cancel a queued input; raise `InputRefused` if it is not queued."""
        await self._ask(ev.InputWithdrawn(input=InputId(input_id), **self._stamp()))
