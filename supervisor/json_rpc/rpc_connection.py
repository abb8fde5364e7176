"""A JSON-RPC connection to one agent: calls that wait for answers, and requests that are served.

Rule 1: messages are handled one at a time, in order of arrival. Before the next one, the handler of
        a notification has returned, the handler of a request has started, and the task that waited
        for an answer has taken it and run to its next await.
Rule 2: a slow handler slows the agent down: nothing is read while a message is handled.
Rule 3: a lost connection fails every call, and no request is answered twice.
Rule 4: a call that is abandoned before its line has left is taken back.
Rule 5: the unfinished lines of all agents together are bounded; see `line_budget`. After each
        `MESSAGES_PER_CHECKPOINT` messages, `pace` decides when the next ones are handled.
Rule 6: when a lost connection fails a call, the writer has ended, so `OutgoingLine.has_left` is
        final.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Awaitable, Callable
from typing import Any, Final, Literal, TypeAlias, assert_never

import attrs
import outcome
import trio

from supervisor.core.log_content import Content

from .line_budget import LineBudget
from .lines import MAX_LINE_BYTES
from .request_budget import RequestBudget
from .rpc_handlers import RpcDispatcher, RpcHandlers
from .rpc_messages import (
    InvalidAnswer,
    RpcError,
    RpcErrorResponse,
    RpcId,
    RpcNotification,
    RpcRequest,
    RpcResult,
)
from .rpc_outbox import (
    ConnectionLost,
    CountBytes,
    InputClosed,
    InputStuck,
    OutgoingLine,
    RpcOutbox,
    SendBytes,
)
from .rpc_peer import (
    MAX_OPEN_REQUESTS,
    CancelRequested,
    InvalidAnswerReceived,
    Peer,
    PeerEvent,
    RpcCallId,
    RpcFault,
    RpcFaultKind,
    RpcStatistics,
)

__all__ = [
    "CallTimeout",
    "ConnectionLost",
    "OnAbandon",
    "ReceiveBytes",
    "RpcConnection",
    "RpcError",
    "RpcHandlers",
    "RpcStatistics",
    "SendBytes",
]

ReceiveBytes: TypeAlias = Callable[[], Awaitable[bytes]]
# For an abandoned call: ignore its late answer, or also send the agent a cancel.
OnAbandon: TypeAlias = Literal["forget", "tell"]

# Waits until more messages may be handled, after that number of them.
Pace: TypeAlias = Callable[[int], Awaitable[None]]

# Messages handled before other tasks get to run, also if no handler yields: some 0.3 ms.
MESSAGES_PER_CHECKPOINT: Final = 8

logger = logging.getLogger("supervisor")


class CallTimeout(Exception):
    """The agent did not answer in time."""

    def __init__(self, method: str, timeout_seconds: float) -> None:
        super().__init__(f"{method} was not answered within {timeout_seconds:g} seconds")
        self.method = method
        self.timeout_seconds = timeout_seconds


@attrs.frozen
class _PendingCall:
    """The task that waits, and the line of the call."""

    task: trio.lowlevel.Task
    outgoing: OutgoingLine
    taken: trio.Event = attrs.field(factory=trio.Event)


class RpcConnection:
    """JSON-RPC with one agent, over two functions that send and receive bytes.

    `send` writes all bytes or raises, and `written` counts them; `receive` returns the next bytes,
    and b"" at the end.
    Calls are answered while `serve` runs, and raise `ConnectionLost` when it has ended.
    """

    def __init__(
        self,
        send: SendBytes,
        receive: ReceiveBytes,
        *,
        name: str,
        written: CountBytes | None = None,
        max_line_bytes: int = MAX_LINE_BYTES,
        max_open_requests: int = MAX_OPEN_REQUESTS,
        line_budget: LineBudget | None = None,
        request_budget: RequestBudget | None = None,
        pace: Pace | None = None,
    ) -> None:
        self._send = send
        self._written = written
        self._receive = receive
        self._name = name
        self._peer = Peer(
            max_line_bytes=max_line_bytes,
            max_open_requests=max_open_requests,
            request_budget=request_budget,
        )
        budget = LineBudget(max_line_bytes) if line_budget is None else line_budget
        self._line_share = budget.share(self._peer.drop_unfinished)
        self._pace = pace or _yield_only
        self._unpaced_messages = 0
        self._outbox = RpcOutbox()
        # Invariant: the keys are the open calls of the peer.
        self._calls: dict[RpcCallId, _PendingCall] = {}
        # Set when the waiting task has taken the last answer.
        self._response_taken = trio.Event()
        self._response_taken.set()
        self._dispatcher = RpcDispatcher(self._peer, self._reply, name=name)
        self._lost_reason: str | None = None
        # Kinds of fault already logged: one line each; the statistics count all.
        self._logged: set[RpcFaultKind] = set()

    def statistics(self) -> RpcStatistics:
        """Return the counts of open calls and requests, and of faults so far."""
        return self._peer.statistics()

    # Calls to the agent ------------------------------------------------------------------

    async def call(
        self,
        method: str,
        params: object = None,
        *,
        timeout_seconds: float,
        on_abandon: OnAbandon = "forget",
        outgoing: OutgoingLine | None = None,
    ) -> Any:  # noqa: ANN401 - any JSON value
        """Call a method of the agent and return its result; `math.inf` seconds are allowed.

        Raise `RpcError` if the agent refuses, `InvalidAnswer`, which is one, if the answer cannot
        be read, `CallTimeout` if it does not answer in time,
        `ConnectionLost` if the connection is lost before the answer, and `Unsendable` if the params
        are not JSON. A call that is cancelled or times out is abandoned: its line is sent whole or
        not at all, and a late answer is dropped. With `on_abandon="tell"`, the agent is also told
        that the call is cancelled. `outgoing` shows at any time whether the line
        has left.
        """
        with trio.move_on_after(timeout_seconds):
            await trio.lowlevel.checkpoint_if_cancelled()
            await self._outbox.wait_for_space()
            self._outbox.check_open()
            call_id, line = self._peer.call(method, params)
            outgoing = self._outbox.put(line, outgoing)
            return await self._wait_response(call_id, outgoing, on_abandon)
        raise CallTimeout(method, timeout_seconds)

    async def notify(self, method: str, params: object = None) -> None:
        """Send a notification and wait until it is written.

        Raise `ConnectionLost` if the connection is lost before, and `Unsendable` if the params are
        not JSON. After a cancellation the line may still be written, as a whole.
        """
        await trio.lowlevel.checkpoint_if_cancelled()
        await self._outbox.wait_for_space()
        await self._outbox.wait_sent(self._outbox.put(self._peer.notify(method, params)))

    async def queue_notification(self, method: str, params: object = None) -> None:
        """Queue a notification; wait only for space, so that many are written in one go.

        Raise `ConnectionLost` if the connection is lost before, and `Unsendable` if the params are
        not JSON.
        """
        await trio.lowlevel.checkpoint()
        await self._outbox.wait_for_space()
        self._outbox.put(self._peer.notify(method, params))

    async def wait_written(self) -> None:
        """Wait until everything queued so far is written; return also if the connection is lost."""
        with contextlib.suppress(ConnectionLost):
            await self._outbox.wait_sent(self._outbox.last)

    async def _wait_response(
        self, call_id: RpcCallId, outgoing: OutgoingLine, on_abandon: OnAbandon
    ) -> object:
        call = _PendingCall(trio.lowlevel.current_task(), outgoing)

        def abandon(_raise_cancelled: object) -> trio.lowlevel.Abort:
            del self._calls[call_id]
            cancel = self._peer.abandon_call(call_id)
            self._outbox.withdraw(outgoing)
            if on_abandon == "tell" and cancel is not None and outgoing.has_left:
                self._reply(cancel)
            return trio.lowlevel.Abort.SUCCEEDED

        self._calls[call_id] = call
        try:
            return await trio.lowlevel.wait_task_rescheduled(abandon)
        finally:
            call.taken.set()

    # Messages of the agent ---------------------------------------------------------------

    async def serve(self, handlers: RpcHandlers) -> str:
        """Handle the agent's messages until its output ends; return why it ended. Call once.

        In every case open calls fail and running handlers are cancelled.
        """
        try:
            async with trio.open_nursery() as nursery:
                async with trio.open_nursery() as writing:
                    writing.start_soon(self._write, nursery.cancel_scope)
                    reason = await self._read(handlers, nursery)
                    writing.cancel_scope.cancel(reason="the connection is lost")
                self._close(reason)
                nursery.cancel_scope.cancel(reason="the connection is lost")
        finally:
            self._close("the connection was closed")
            self._line_share.end_messages(0)
            self._peer.drop_requests()
        return self._lost_reason or ""

    async def _write(self, serving: trio.CancelScope) -> None:
        try:
            await self._outbox.write_all(self._send, self._written)
        except InputStuck:
            self._close("the agent does not read its input")
            serving.cancel(reason="the agent does not read")
        except (InputClosed, OSError, trio.BrokenResourceError, trio.ClosedResourceError):
            # Keep reading: the agent may still answer earlier calls.
            self._stop_writing("the agent's input is closed")

    async def _read(self, handlers: RpcHandlers, nursery: trio.Nursery) -> str:
        share = self._line_share  # without bytes between whole lines, which is usual
        while True:
            try:
                if share.bytes:
                    await share.wait()
                data = await self._receive()
            except (OSError, trio.BrokenResourceError, trio.ClosedResourceError) as error:
                return f"the agent's output cannot be read: {type(error).__name__}"
            if data:
                self._peer.feed(data)
            else:
                self._peer.finish()
            if share.bytes:
                share.begin_messages(len(data))
            await self._handle_all(handlers, nursery)
            if share.bytes or self._peer.unfinished_bytes:
                share.end_messages(self._peer.unfinished_bytes)
            if not data:
                return "the agent has closed its output"

    async def _handle_all(self, handlers: RpcHandlers, nursery: trio.Nursery) -> None:
        while True:
            if not self._response_taken.is_set():
                await self._response_taken.wait()
            event = self._peer.next_event()
            if event is None:
                return
            await self._handle(event, handlers, nursery)
            self._unpaced_messages += 1
            if self._unpaced_messages == MESSAGES_PER_CHECKPOINT:
                self._unpaced_messages = 0
                await self._pace(MESSAGES_PER_CHECKPOINT)
            await self._outbox.wait_for_space()

    async def _handle(self, event: PeerEvent, handlers: RpcHandlers, nursery: trio.Nursery) -> None:
        match event:
            case RpcNotification():
                await self._dispatcher.handle_notification(event, handlers)
            case RpcResult(call_id, result):
                self._end_call(call_id, outcome.Value(result))
            case RpcErrorResponse(call_id, code, message, data):
                self._end_call(call_id, outcome.Error(RpcError(code, message, data)))
            case RpcRequest():
                await self._dispatcher.start_request(event, handlers, nursery)
            case CancelRequested(request_id):
                self._dispatcher.cancel_request(request_id)
            case InvalidAnswerReceived(call_id, fault):
                self._log_fault(fault)
                self._end_call(call_id, outcome.Error(InvalidAnswer(fault.line.reason)))
            case RpcFault():
                self._log_fault(event)
                if event.kind == "unknown_answer":
                    handlers.on_unknown_answer()
            case _:
                assert_never(event)

    def _end_call(self, call_id: RpcId, result: outcome.Outcome[Any]) -> None:
        assert isinstance(call_id, int), "our own ids are numbers"
        call = self._calls.pop(RpcCallId(call_id))
        self._response_taken = call.taken
        trio.lowlevel.reschedule(call.task, result)

    def _log_fault(self, fault: RpcFault) -> None:
        if fault.kind not in self._logged:
            self._logged.add(fault.kind)
            logger.warning(
                "%s: %s in its output: %s: %s; further ones are only counted",
                self._name,
                fault.kind,
                fault.line.reason,
                Content(fault.line.excerpt),
            )
        if fault.reply is not None:
            self._reply(fault.reply)

    def _reply(self, line: bytes) -> None:
        """Send a line without an answer, unless the connection is lost."""
        if not self._outbox.is_closed:
            self._outbox.put(line)

    # The end -----------------------------------------------------------------------------

    def _stop_writing(self, reason: str) -> None:
        """Close the outbox and fail the calls that were not sent.

        Sent calls may still be answered.
        """
        self._outbox.close(reason)
        for call_id, call in list(self._calls.items()):
            if not self._outbox.is_sent(call.outgoing):
                self._fail_call(call_id, reason)

    def _close(self, reason: str) -> None:
        """Close the outbox and fail all calls; the first reason is kept."""
        if self._lost_reason is None:
            self._lost_reason = reason
            self._outbox.close(reason)
            for call_id in list(self._calls):
                self._fail_call(call_id, reason)

    def _fail_call(self, call_id: RpcCallId, reason: str) -> None:
        self._peer.abandon_call(call_id)
        call = self._calls.pop(call_id)
        trio.lowlevel.reschedule(call.task, outcome.Error(ConnectionLost(reason)))


async def _yield_only(_: int) -> None:
    await trio.lowlevel.checkpoint()
