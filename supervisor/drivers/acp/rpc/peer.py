"""Who owes whom an answer: both directions of a connection, and nothing else.

Rule 1: nothing here waits, writes or runs. Bytes come in and events go out; orders come in and
        lines to be sent go out.
Rule 2: a call of ours ends once: answered, refused or given up. A request of theirs is answered
        once.
Rule 3: messages are looked at one at a time, in the order in which they came.
"""

from __future__ import annotations

from collections import Counter, deque
from typing import Final, Literal, NewType, TypeAlias, get_args

import attrs

from supervisor.drivers.process.lines import MAX_LINE_BYTES, Line, Lines, TooLong

from .messages import (
    ID_TYPES,
    INVALID_REQUEST,
    Answer,
    Id,
    Junk,
    Notification,
    Refusal,
    Request,
    RpcError,
    encode,
    parse,
)

CallId = NewType("CallId", int)

CANCEL: Final = "$/cancel_request"
# Of those that JSON-RPC leaves to servers; the protocol means other things by -32000 and -32002.
TOO_MANY_REQUESTS: Final = -32005
MAX_OPEN_REQUESTS: Final = 64
# What is asked is held until it is answered: beyond this, only what was being asked already.
MAX_OPEN_BYTES: Final = 64 * 1024 * 1024
# How many calls that were given up are remembered, so that their late answers are no faults.
MAX_GIVEN_UP: Final = 1024

FaultKind: TypeAlias = Literal[
    "junk", "too_long", "unknown_answer", "repeated_request", "too_many_requests"
]


@attrs.frozen
class CancelAsked:
    """They no longer need the answer to a request that is open."""

    request_id: Id


@attrs.frozen
class Fault:
    """They have done what they should not, and it was counted; `reply` is to be sent, if any."""

    kind: FaultKind
    what: Junk
    reply: bytes | None = attrs.field(default=None, repr=False)


Event: TypeAlias = Request | Notification | Answer | Refusal | CancelAsked | Fault


@attrs.frozen
class Statistics:
    """How it stands between the two, and what was wrong so far."""

    open_calls: int
    open_requests: int
    late_answers: int
    junk: int
    too_long: int
    unknown_answer: int
    repeated_request: int
    too_many_requests: int


class AnsweredTwice(RuntimeError):
    """A request was to be answered that is not open: a mistake in this program."""


class Peer:
    """Our end of a connection.

    Feed it what has come, then take events until there are none. Every `Request` that it gives out
    is open until `answer` or `refuse`; an `Answer` or a `Refusal` ends the call of that id.
    """

    def __init__(
        self,
        *,
        max_line_bytes: int = MAX_LINE_BYTES,
        max_open_requests: int = MAX_OPEN_REQUESTS,
    ) -> None:
        self._lines = Lines(max_line_bytes=max_line_bytes)
        self._max_open_requests = max_open_requests
        # Lines that nobody has looked at; no more than one piece of what was fed is made of.
        self._waiting: deque[Line] = deque()
        # Ours that wait for an answer; an id is never used again.
        self._calls: set[CallId] = set()
        self._last_call = CallId(0)
        # Ours that may be answered still, but nobody waits any more; the oldest first.
        self._given_up: dict[CallId, None] = {}
        # Theirs that we owe an answer, and how many bytes they are.
        self._requests: dict[Id, int] = {}
        self._faults: Counter[FaultKind] = Counter()
        self._late_answers = 0

    # What comes in -----------------------------------------------------------------------

    def feed(self, data: bytes) -> None:
        """Take in a piece of what they have written."""
        self._waiting.extend(self._lines.feed(data))

    def finish(self) -> None:
        """Take in that nothing more will come."""
        self._waiting.extend(self._lines.finish())

    def next_event(self) -> Event | None:
        """Look at the next message that is of any interest; None when there is no more for now."""
        while self._waiting:
            event = self._look_at(self._waiting.popleft())
            if event is not None:
                return event
        return None

    def _look_at(self, line: Line) -> Event | None:
        if isinstance(line, TooLong):
            return self._fault("too_long", Junk("it is longer than a line may be", line.beginning))
        message = parse(line)
        match message:
            case Notification():
                return self._cancelled(message) if message.method == CANCEL else message
            case Request():
                return self._requested(message, line)
            case Answer() | Refusal():
                return self._answered(message, line)
            case Junk():
                return self._fault("junk", message)

    def _requested(self, request: Request, line: bytes) -> Request | Fault:
        if request.id in self._requests:
            problem = "a request of this id is still open"
            reply = encode(Refusal(request.id, INVALID_REQUEST, problem))
            return self._fault("repeated_request", Junk(problem, line), reply)
        open_bytes = sum(self._requests.values())
        if len(self._requests) >= self._max_open_requests or open_bytes >= MAX_OPEN_BYTES:
            problem = f"{len(self._requests)} requests are open; wait for an answer, then ask"
            reply = encode(Refusal(request.id, TOO_MANY_REQUESTS, problem))
            return self._fault("too_many_requests", Junk(problem, line), reply)
        self._requests[request.id] = len(line)
        return request

    def _answered(self, outcome: Answer | Refusal, line: bytes) -> Answer | Refusal | Fault | None:
        if outcome.id in self._calls:
            self._calls.discard(CallId(outcome.id))
            return outcome
        if outcome.id in self._given_up:
            del self._given_up[CallId(outcome.id)]
            self._late_answers += 1
            return None
        return self._fault("unknown_answer", Junk("it answers a call that is not open", line))

    def _cancelled(self, notification: Notification) -> CancelAsked | None:
        params = notification.params
        request_id = params.get("requestId") if isinstance(params, dict) else None
        if type(request_id) not in ID_TYPES or request_id not in self._requests:
            return None  # it has been answered meanwhile, or never was
        return CancelAsked(request_id)

    def _fault(self, kind: FaultKind, what: Junk, reply: bytes | None = None) -> Fault:
        self._faults[kind] += 1
        return Fault(kind, what, reply)

    # What goes out -----------------------------------------------------------------------

    def call(self, method: str, params: object = None) -> tuple[CallId, bytes]:
        """Open a call; its line is to be sent. Raises `Unsendable`, and then nothing is open."""
        call_id = CallId(self._last_call + 1)
        line = encode(Request(call_id, method, params))
        self._last_call = call_id
        self._calls.add(call_id)
        return call_id, line

    def notify(self, method: str, params: object = None) -> bytes:
        """A line to be sent; raises `Unsendable`."""
        return encode(Notification(method, params))

    def give_up(self, call_id: CallId) -> bytes | None:
        """Nobody waits for that call any more: what tells them so; None if it is over anyway."""
        if call_id not in self._calls:
            return None
        self._calls.discard(call_id)
        self._given_up[call_id] = None
        if len(self._given_up) > MAX_GIVEN_UP:
            del self._given_up[next(iter(self._given_up))]
        return encode(Notification(CANCEL, {"requestId": call_id}))

    def answer(self, request_id: Id, result: object) -> bytes:
        """Answer a request; raises `Unsendable`, and then it is still open."""
        return self._settle(request_id, Answer(request_id, result))

    def refuse(self, request_id: Id, error: RpcError) -> bytes:
        """Answer a request with an error; raises `Unsendable`, and then it is still open."""
        return self._settle(request_id, Refusal(request_id, error.code, error.message, error.data))

    def _settle(self, request_id: Id, outcome: Answer | Refusal) -> bytes:
        if request_id not in self._requests:
            raise AnsweredTwice(f"request {request_id!r} is not open")
        line = encode(outcome)
        del self._requests[request_id]
        return line

    def statistics(self) -> Statistics:
        """How it stands."""
        faults: dict[str, int] = {kind: self._faults[kind] for kind in get_args(FaultKind)}
        return Statistics(
            open_calls=len(self._calls),
            open_requests=len(self._requests),
            late_answers=self._late_answers,
            **faults,
        )
