"""JSON-RPC without I/O: open calls and open requests of one connection.

Rule 1: no method waits or does I/O. `feed` takes bytes and `next_event` returns events; calls and
        answers return the line to send.
Rule 2: a call of ours ends once: answered, refused or abandoned. A request of the agent is answered
        once.
Rule 3: messages are parsed one at a time, in order of arrival.
"""

from __future__ import annotations

from collections import Counter, deque
from typing import Final, Literal, NewType, TypeAlias, get_args

import attrs

from .lines import (
    MAX_LINE_BYTES,
    Line,
    LineSplitter,
    OverlongLine,
)
from .request_budget import RequestBudget
from .rpc_messages import (
    ID_TYPES,
    INVALID_REQUEST,
    InvalidLine,
    RpcError,
    RpcErrorResponse,
    RpcId,
    RpcNotification,
    RpcRequest,
    RpcResult,
    answered_call,
    encode,
    parse,
)

RpcCallId = NewType("RpcCallId", int)

CANCEL: Final = "$/cancel_request"
# From JSON-RPC's range for servers; ACP uses -32000 and -32002 for other errors.
TOO_MANY_REQUESTS: Final = -32005
MAX_OPEN_REQUESTS: Final = 64
# Abandoned calls that are remembered, so that their late answers do not count as faults.
MAX_ABANDONED_CALLS: Final = 1024

RpcFaultKind: TypeAlias = Literal[
    "junk", "too_long", "unknown_answer", "repeated_request", "too_many_requests"
]


@attrs.frozen
class CancelRequested:
    """The agent cancelled an open request."""

    request_id: RpcId


@attrs.frozen
class RpcFault:
    """A violation of the protocol by the agent; `reply` must be sent, if there is one."""

    kind: RpcFaultKind
    line: InvalidLine
    reply: bytes | None = attrs.field(default=None, repr=False)


@attrs.frozen
class InvalidAnswerReceived:
    """The agent has answered a call with a line that is not a message, which ends the call."""

    call_id: RpcCallId
    fault: RpcFault


PeerEvent: TypeAlias = (
    RpcRequest
    | RpcNotification
    | RpcResult
    | RpcErrorResponse
    | CancelRequested
    | RpcFault
    | InvalidAnswerReceived
)


@attrs.frozen
class RpcStatistics:
    """Counts of open calls and requests, and of faults so far."""

    open_calls: int
    open_requests: int
    late_answers: int
    junk: int
    too_long: int
    unknown_answer: int
    repeated_request: int
    too_many_requests: int


class AnsweredTwice(RuntimeError):
    """A request that is not open was answered: a bug in understudy."""


class Peer:
    """Our end of a connection.

    Call `feed`, then `next_event` until it returns None. Every returned `RpcRequest` is open until
    `answer` or `refuse`; an `RpcResult`, `RpcErrorResponse` or `InvalidAnswerReceived` ends the
    call with that id.
    """

    def __init__(
        self,
        *,
        max_line_bytes: int = MAX_LINE_BYTES,
        max_open_requests: int = MAX_OPEN_REQUESTS,
        request_budget: RequestBudget | None = None,
    ) -> None:
        self._lines = LineSplitter(max_line_bytes=max_line_bytes)
        self._max_open_requests = max_open_requests
        # Lines not parsed yet; at most those of one feed().
        self._unread_lines: deque[Line] = deque()
        # Further events of the last line, which was a batch.
        self._batch_events: deque[PeerEvent] = deque()
        # Calls that wait for an answer; an id is never used again.
        self._calls: set[RpcCallId] = set()
        self._last_call = RpcCallId(0)
        # Abandoned calls, oldest first; the agent may still answer them.
        self._abandoned_calls: dict[RpcCallId, None] = {}
        # Open requests of the agent, with the size of their lines, which the budget counts.
        self._requests: dict[RpcId, int] = {}
        self._request_budget = RequestBudget() if request_budget is None else request_budget
        self._faults: Counter[RpcFaultKind] = Counter()
        self._late_answers = 0

    # Input -------------------------------------------------------------------------------

    def feed(self, data: bytes) -> None:
        """Add bytes that the agent has written."""
        self._unread_lines.extend(self._lines.feed(data))

    @property
    def unfinished_bytes(self) -> int:
        """Size of the unfinished line."""
        return self._lines.unfinished_bytes

    def drop_unfinished(self) -> None:
        """Drop the unfinished line, which then counts as too long."""
        self._unread_lines.extend(self._lines.drop_unfinished())

    def finish(self) -> None:
        """Mark the end of the agent's output."""
        self._unread_lines.extend(self._lines.finish())

    def next_event(self) -> PeerEvent | None:
        """Return the next event; None if more bytes are needed."""
        if self._batch_events:
            return self._batch_events.popleft()
        while self._unread_lines:
            event = self._parse_line(self._unread_lines.popleft())
            if event is not None:
                return event
        return None

    def _parse_line(self, line: Line) -> PeerEvent | None:
        if isinstance(line, OverlongLine):
            return self._on_invalid("too_long", InvalidLine("it is too long", line.beginning))
        message = parse(line)
        match message:
            case RpcNotification():
                return self._on_cancel(message) if message.method == CANCEL else message
            case RpcRequest():
                return self._on_request(message, line)
            case RpcResult() | RpcErrorResponse():
                return self._on_response(message, line)
            case InvalidLine():
                return self._on_invalid("junk", message)

    def _on_invalid(self, kind: RpcFaultKind, line: InvalidLine) -> PeerEvent:
        """Return the fault, or the first call that the line answers; queue further calls."""
        fault = self._fault(kind, line)
        for call_id in (*line.batch_answers, answered_call(line.beginning)):
            if call_id in self._calls:
                self._calls.discard(RpcCallId(call_id))
                self._batch_events.append(InvalidAnswerReceived(RpcCallId(call_id), fault))
        return self._batch_events.popleft() if self._batch_events else fault

    def _on_request(self, request: RpcRequest, line: bytes) -> RpcRequest | RpcFault:
        if request.id in self._requests:
            problem = "a request with this id is still open"
            reply = encode(RpcErrorResponse(request.id, INVALID_REQUEST, problem))
            return self._fault("repeated_request", InvalidLine(problem, line), reply)
        if len(self._requests) >= self._max_open_requests:
            problem = f"{len(self._requests)} requests are open; wait for an answer first"
            return self._refuse_request(request.id, problem, line)
        if not self._request_budget.take(len(line), sum(self._requests.values())):
            problem = f"the open requests of all agents have {self._request_budget.bytes} bytes"
            return self._refuse_request(request.id, f"{problem}; send this one later", line)
        self._requests[request.id] = len(line)
        return request

    def _refuse_request(self, request_id: RpcId, problem: str, line: bytes) -> RpcFault:
        reply = encode(RpcErrorResponse(request_id, TOO_MANY_REQUESTS, problem))
        return self._fault("too_many_requests", InvalidLine(problem, line), reply)

    def _on_response(
        self, outcome: RpcResult | RpcErrorResponse, line: bytes
    ) -> RpcResult | RpcErrorResponse | RpcFault | None:
        if outcome.id in self._calls:
            self._calls.discard(RpcCallId(outcome.id))
            return outcome
        if outcome.id in self._abandoned_calls:
            del self._abandoned_calls[RpcCallId(outcome.id)]
            self._late_answers += 1
            return None
        return self._fault(
            "unknown_answer", InvalidLine("the answer belongs to no open call", line)
        )

    def _on_cancel(self, notification: RpcNotification) -> CancelRequested | None:
        params = notification.params
        request_id = params.get("requestId") if isinstance(params, dict) else None
        if type(request_id) not in ID_TYPES or request_id not in self._requests:
            return None  # already answered, or never received
        return CancelRequested(request_id)

    def _fault(self, kind: RpcFaultKind, line: InvalidLine, reply: bytes | None = None) -> RpcFault:
        self._faults[kind] += 1
        return RpcFault(kind, line, reply)

    # Output ------------------------------------------------------------------------------

    def call(self, method: str, params: object = None) -> tuple[RpcCallId, bytes]:
        """Open a call; return its id and its line.

        Raise `Unsendable` if the params are not JSON; then no call is open.
        """
        call_id = RpcCallId(self._last_call + 1)
        line = encode(RpcRequest(call_id, method, params))
        self._last_call = call_id
        self._calls.add(call_id)
        return call_id, line

    def notify(self, method: str, params: object = None) -> bytes:
        """Return the line of a notification; raise `Unsendable` if the params are not JSON."""
        return encode(RpcNotification(method, params))

    def abandon_call(self, call_id: RpcCallId) -> bytes | None:
        """Abandon a call; return the line that cancels it, None if the call is not open."""
        if call_id not in self._calls:
            return None
        self._calls.discard(call_id)
        self._abandoned_calls[call_id] = None
        if len(self._abandoned_calls) > MAX_ABANDONED_CALLS:
            del self._abandoned_calls[next(iter(self._abandoned_calls))]
        return encode(RpcNotification(CANCEL, {"requestId": call_id}))

    def answer(self, request_id: RpcId, result: object) -> bytes:
        """Answer a request; return the line.

        Raise `Unsendable` if the result is not JSON; then the request is still open.
        """
        return self._close_request(request_id, RpcResult(request_id, result))

    def refuse(self, request_id: RpcId, error: RpcError) -> bytes:
        """Refuse a request; return the line.

        Raise `Unsendable` if the error's data is not JSON; then the request is still open.
        """
        return self._close_request(
            request_id, RpcErrorResponse(request_id, error.code, error.message, error.data)
        )

    def _close_request(self, request_id: RpcId, outcome: RpcResult | RpcErrorResponse) -> bytes:
        if request_id not in self._requests:
            raise AnsweredTwice(f"request {request_id!r} is not open")
        line = encode(outcome)
        self._request_budget.release(self._requests.pop(request_id))
        return line

    def drop_requests(self) -> None:
        """Close all requests without an answer; the connection is lost."""
        self._request_budget.release(sum(self._requests.values()))
        self._requests.clear()

    def statistics(self) -> RpcStatistics:
        """Return the counts of open calls and requests, and of faults so far."""
        faults: dict[str, int] = {kind: self._faults[kind] for kind in get_args(RpcFaultKind)}
        return RpcStatistics(
            open_calls=len(self._calls),
            open_requests=len(self._requests),
            late_answers=self._late_answers,
            **faults,
        )
