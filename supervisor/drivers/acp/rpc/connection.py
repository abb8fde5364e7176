"""A peer at work: calls that wait for their answers, and requests that are served.

Rule 1: messages are handled one after the other, in the order in which they came. The handler of a
        notification has returned, that of a request has begun, and who waited for an answer has
        taken it and run to its next await, before the next message is looked at.
Rule 2: who is slow here slows the agent down: while a message is handled nothing is read.
Rule 3: nobody waits on a connection that is lost, and nobody is answered twice.
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Awaitable, Callable
from typing import Any, Final, Literal, TypeAlias, assert_never

import attrs
import outcome
import trio

from supervisor.drivers.process.lines import MAX_LINE_BYTES
from supervisor.drivers.process.port import InputClosed, InputStuck

from .messages import Answer, Id, Notification, Refusal, Request, RpcError
from .outbox import ConnectionLost, Outbox, Send
from .peer import MAX_OPEN_REQUESTS, CallId, CancelAsked, Event, Fault, FaultKind, Peer, Statistics
from .serving import Handlers, Serving

__all__ = [
    "CallTimeout",
    "Connection",
    "ConnectionLost",
    "Handlers",
    "IfGivenUp",
    "Receive",
    "RpcError",
    "Send",
    "Statistics",
]

Receive: TypeAlias = Callable[[], Awaitable[bytes]]
# What to do when nobody waits for a call any more: let it be answered for nothing, or say so.
IfGivenUp: TypeAlias = Literal["forget", "tell"]

# So many messages are handled before others get their turn, whatever the handlers do.
MESSAGES_A_TURN: Final = 64

logger = logging.getLogger("supervisor")


class CallTimeout(Exception):
    """The agent has not answered in time."""

    def __init__(self, method: str, timeout_seconds: float) -> None:
        super().__init__(f"{method} was not answered within {timeout_seconds:g} seconds")
        self.method = method
        self.timeout_seconds = timeout_seconds


@attrs.frozen
class _Call:
    """Who waits, and the place of the call's line in the outbox."""

    task: trio.lowlevel.Task
    place: int
    taken: trio.Event = attrs.field(factory=trio.Event)


class Connection:
    """JSON-RPC with one agent, over anything that sends and receives bytes.

    `send` writes all of it or raises; `receive` gives the next piece, and nothing at the end.
    Calls are answered while `serve` runs, and fail with `ConnectionLost` when it has ended.
    """

    def __init__(
        self,
        send: Send,
        receive: Receive,
        *,
        name: str,
        max_line_bytes: int = MAX_LINE_BYTES,
        max_open_requests: int = MAX_OPEN_REQUESTS,
    ) -> None:
        self._send = send
        self._receive = receive
        self._name = name
        self._peer = Peer(max_line_bytes=max_line_bytes, max_open_requests=max_open_requests)
        self._outbox = Outbox()
        # Exactly the open calls of the peer.
        self._calls: dict[CallId, _Call] = {}
        # Set when whoever waited for the last answer has taken it.
        self._answered = trio.Event()
        self._answered.set()
        self._serving = Serving(self._peer, self._reply, name=name)
        self._lost: str | None = None
        # The log gets one line for each kind of fault; how many there were, the statistics say.
        self._logged: set[FaultKind] = set()

    def statistics(self) -> Statistics:
        """How it stands, and what was wrong so far."""
        return self._peer.statistics()

    # Ours --------------------------------------------------------------------------------

    async def call(
        self,
        method: str,
        params: object = None,
        *,
        timeout_seconds: float,
        if_given_up: IfGivenUp = "forget",
    ) -> Any:  # noqa: ANN401 - the result, whatever it is
        """Ask the agent, and give its result; `math.inf` seconds are allowed.

        Raises `RpcError` if it refuses, `CallTimeout`, `ConnectionLost`, and `Unsendable` if the
        params are not to be sent. Cancelled or timed out, the call is given up: if it had been sent
        it was sent whole, and a late answer is dropped. With "tell" the agent is told.
        """
        with trio.move_on_after(timeout_seconds):
            await trio.lowlevel.checkpoint_if_cancelled()
            await self._outbox.wait_room()
            self._outbox.refuse_if_closed()
            call_id, line = self._peer.call(method, params)
            return await self._answer_to(call_id, self._outbox.put(line), if_given_up)
        raise CallTimeout(method, timeout_seconds)

    async def notify(self, method: str, params: object = None) -> None:
        """Tell the agent, and wait until that is written.

        Raises `ConnectionLost` and `Unsendable`. Cancelled, it may still be written, but whole.
        """
        await trio.lowlevel.checkpoint_if_cancelled()
        await self._outbox.wait_room()
        await self._outbox.wait_sent(self._outbox.put(self._peer.notify(method, params)))

    async def _answer_to(self, call_id: CallId, place: int, if_given_up: IfGivenUp) -> object:
        call = _Call(trio.lowlevel.current_task(), place)

        def give_up(_raise_cancelled: object) -> trio.lowlevel.Abort:
            del self._calls[call_id]
            told = self._peer.give_up(call_id)
            if if_given_up == "tell" and told is not None and not self._outbox.is_closed:
                self._outbox.put(told)
            return trio.lowlevel.Abort.SUCCEEDED

        self._calls[call_id] = call
        try:
            return await trio.lowlevel.wait_task_rescheduled(give_up)
        finally:
            call.taken.set()

    # Theirs ------------------------------------------------------------------------------

    async def serve(self, handlers: Handlers) -> str:
        """Handle what the agent writes, to its end; gives why that has come. Once, and no more.

        When it ends, whatever it ends with, open calls fail, and handlers at work are cancelled.
        """
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._write, nursery.cancel_scope)
                self._lose(await self._read(handlers, nursery))
                nursery.cancel_scope.cancel(reason="the connection is lost")
        finally:
            self._lose("the connection was closed")
        return self._lost or ""

    async def _write(self, serving: trio.CancelScope) -> None:
        try:
            await self._outbox.write_all(self._send)
        except InputStuck:
            self._lose("the agent does not read what it is sent")
            serving.cancel(reason="the agent does not read")
        except (InputClosed, OSError, trio.BrokenResourceError, trio.ClosedResourceError):
            # It may have more to say: the answer to what it was asked before, for one.
            self._stop_writing("the agent's input is closed")

    async def _read(self, handlers: Handlers, nursery: trio.Nursery) -> str:
        while True:
            try:
                data = await self._receive()
            except (OSError, trio.BrokenResourceError, trio.ClosedResourceError) as error:
                return f"the agent's output cannot be read: {type(error).__name__}"
            if data:
                self._peer.feed(data)
            else:
                self._peer.finish()
            await self._handle_all(handlers, nursery)
            if not data:
                return "the agent has closed its output"

    async def _handle_all(self, handlers: Handlers, nursery: trio.Nursery) -> None:
        for number in itertools.count(1):
            if not self._answered.is_set():
                await self._answered.wait()
            event = self._peer.next_event()
            if event is None:
                return
            await self._handle(event, handlers, nursery)
            if number % MESSAGES_A_TURN == 0:
                await trio.lowlevel.checkpoint()
            await self._outbox.wait_room()

    async def _handle(self, event: Event, handlers: Handlers, nursery: trio.Nursery) -> None:
        match event:
            case Notification():
                await self._serving.heed(event, handlers)
            case Answer(call_id, result):
                self._end_call(call_id, outcome.Value(result))
            case Refusal(call_id, code, message, data):
                self._end_call(call_id, outcome.Error(RpcError(code, message, data)))
            case Request():
                await self._serving.begin(event, handlers, nursery)
            case CancelAsked(request_id):
                self._serving.cancel(request_id)
            case Fault():
                self._note(event)
            case _:
                assert_never(event)

    def _end_call(self, call_id: Id, result: outcome.Outcome[Any]) -> None:
        assert isinstance(call_id, int), "our own ids are numbers"
        call = self._calls.pop(CallId(call_id))
        self._answered = call.taken
        trio.lowlevel.reschedule(call.task, result)

    def _note(self, fault: Fault) -> None:
        if fault.kind not in self._logged:
            self._logged.add(fault.kind)
            logger.warning(
                "%s: %s in its output: %s: %s; further ones are only counted",
                self._name,
                fault.kind,
                fault.what.reason,
                fault.what.excerpt,
            )
        if fault.reply is not None:
            self._reply(fault.reply)

    def _reply(self, line: bytes) -> None:
        if not self._outbox.is_closed:
            self._outbox.put(line)

    # The end -----------------------------------------------------------------------------

    def _stop_writing(self, reason: str) -> None:
        """Calls that were sent may still be answered; the others will not."""
        self._outbox.close(reason)
        for call_id, call in list(self._calls.items()):
            if not self._outbox.is_sent(call.place):
                self._fail(call_id, reason)

    def _lose(self, reason: str) -> None:
        """Nothing will be answered any more. The first reason stays."""
        if self._lost is None:
            self._lost = reason
            self._outbox.close(reason)
            for call_id in list(self._calls):
                self._fail(call_id, reason)

    def _fail(self, call_id: CallId, reason: str) -> None:
        self._peer.give_up(call_id)
        call = self._calls.pop(call_id)
        trio.lowlevel.reschedule(call.task, outcome.Error(ConnectionLost(reason)))
