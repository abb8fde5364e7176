"""What the client asks of one session, done one after the other by a task.

Rule 1: a prompt reaches the session before everything that the client asks after it, so a cancel
        finds it, and a later prompt never overtakes it.
Rule 2: a cancel interrupts the turn that ran when it was handled, by its id, and cancels only
        inputs that this connection has sent before it.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import Final, TypeAlias

import trio

from supervisor.client import RemoteSession
from supervisor.core.errors import NotRunning, SupervisorError
from supervisor.core.ids import InputId, TurnId
from supervisor.core.log_content import error_content
from supervisor.core.scopes import TurnScope
from supervisor.core.session_values import WhenBusy
from supervisor.json_rpc.rpc_messages import INTERNAL_ERROR, RpcError

from .own_prompts import OwnPrompts, WaitingPrompt
from .prompt_input import PromptInput
from .sending import send_surely
from .turn_answers import error_data, rpc_error

logger = logging.getLogger("supervisor")

# What may wait for one session.
MAX_JOBS: Final = 256
_REASON: Final = "the client cancelled the turn"

_Job: TypeAlias = Callable[[], Awaitable[None]]


class SessionJobs:
    """The jobs for one session of one connection."""

    def __init__(self, handle: RemoteSession, prompts: OwnPrompts, nursery: trio.Nursery) -> None:
        self._handle = handle
        self._prompts = prompts
        self._nursery = nursery
        self._put, self._next = trio.open_memory_channel[_Job](MAX_JOBS)
        self.busy_mode: WhenBusy = "queue"
        # Set when the send in progress is over.
        self._sending: trio.Event | None = None

    async def run(self) -> None:
        """Do the jobs until cancelled."""
        async for job in self._next:
            try:
                await job()
            except SupervisorError as error:
                logger.warning("a request of the client failed: %s", error_content(error))

    async def wait_sent(self) -> None:
        """Wait until no input is being sent, so that it is known which inputs are ours."""
        while self._sending is not None:
            await self._sending.wait()

    # For the client -----------------------------------------------------------------------

    def submit(self, content: PromptInput) -> WaitingPrompt:
        """Send a prompt."""
        waiting = WaitingPrompt(content)
        self._add(partial(self._send_prompt, waiting))
        return waiting

    def steer(self, content: PromptInput, *, starts_turn: bool) -> WaitingPrompt:
        """Steer the running turn; without one, start one if that is wanted."""
        waiting = WaitingPrompt(content, "steering")
        self._add(partial(self._steer, waiting, starts_turn=starts_turn))
        return waiting

    def cancel(self) -> None:
        """Interrupt the running turn, and cancel what this connection has queued."""
        self._add(self._cancel)

    def withdraw(self, waiting: WaitingPrompt) -> None:
        """Cancel one prompt, because the client has cancelled its request."""
        waiting.is_withdrawn = True
        with suppress(RpcError):
            self._add(partial(self._cancel_prompt, waiting))

    def _add(self, job: _Job) -> None:
        try:
            self._put.send_nowait(job)
        except trio.WouldBlock:
            raise RpcError(
                INTERNAL_ERROR,
                f"{MAX_JOBS} requests for this session are waiting",
                error_data("too_many_requests", "wait for an answer first", "later"),
            ) from None

    # The jobs -----------------------------------------------------------------------------

    async def _send_prompt(self, waiting: WaitingPrompt) -> None:
        if waiting.is_withdrawn:
            waiting.end({"stopReason": "cancelled"})
            return
        with self._while_sending(waiting):
            receipt = await send_surely(self._handle, waiting.content, when_busy=self.busy_mode)
            self._prompts.accept(receipt.input_id, waiting)

    async def _steer(self, waiting: WaitingPrompt, *, starts_turn: bool) -> None:
        with self._while_sending(waiting):
            try:
                receipt = await self._handle.steer(waiting.content.text)
            except NotRunning:
                if not starts_turn:
                    waiting.end({"outcome": "promptRequired"})
                    return
                receipt = await send_surely(self._handle, waiting.content, when_busy="steer")
            self._prompts.accept(receipt.input_id, waiting)

    @contextmanager
    def _while_sending(self, waiting: WaitingPrompt) -> Iterator[None]:
        sending = self._sending = trio.Event()
        try:
            yield
        except SupervisorError as error:
            waiting.end(rpc_error(error))
        finally:
            self._sending = None
            sending.set()

    async def _cancel(self) -> None:
        waiting = self._prompts.unstarted()
        left = [one for one in waiting if not await self._cancel_queued(one)]
        turn = (await self._handle.info()).turn_id
        # Not awaited: a prompt that follows is queued while the turn ends.
        self._nursery.start_soon(self._interrupt, turn, left)

    async def _cancel_prompt(self, waiting: WaitingPrompt) -> None:
        input_id = waiting.input_id
        if input_id is None or waiting.has_ended or await self._cancel_queued(input_id):
            return
        self._nursery.start_soon(self._interrupt, None, [input_id])

    async def _cancel_queued(self, input_id: InputId) -> bool:
        """Cancel an input; return False if it has begun a turn, or was offered to one."""
        try:
            await self._handle.cancel_input(input_id)
        except SupervisorError:
            return False
        return True

    async def _interrupt(self, turn: TurnId | None, inputs: Sequence[InputId]) -> None:
        """Interrupt a turn; then cancel inputs that it did not take, or the turns they began."""
        try:
            if turn is not None:
                await self._handle.interrupt(TurnScope(turn), reason=_REASON)
            for input_id in inputs:
                if not await self._cancel_queued(input_id):
                    state = await self._handle.input(input_id)
                    if state.turn_id is not None and state.result is None:
                        await self._handle.interrupt(TurnScope(state.turn_id), reason=_REASON)
        except SupervisorError as error:
            logger.warning("a turn was not interrupted: %s", error_content(error))
