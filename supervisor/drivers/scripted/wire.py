"""JSON-RPC 2.0, one message per line, and the output of a scripted agent in order.

The parser is tolerant, the encoder exact.

A `ProcessAction` is an action of the process, such as exit or fork, besides writing lines. The host
performs the actions in order, after the output before them, and calls `ScriptedAgent.action_done`;
the script waits for that.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Mapping
from typing import Any, Final, Literal, NamedTuple, TypeAlias

PARSE_ERROR: Final = -32700
INVALID_REQUEST: Final = -32600
UNKNOWN_METHOD: Final = -32601
INVALID_PARAMS: Final = -32602
INTERNAL_ERROR: Final = -32603
REQUEST_CANCELLED: Final = -32800
AUTH_REQUIRED: Final = -32000
NOT_FOUND: Final = -32002

MessageId: TypeAlias = int | str | None
Json: TypeAlias = dict[str, Any]


class ErrorReply(Exception):
    """Raised to answer a request with an error."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code
        self.text = text


class ClientRequest(NamedTuple):
    """A request of the client."""

    id: MessageId
    method: str
    params: Json


class ClientNotification(NamedTuple):
    """A notification of the client."""

    method: str
    params: Json


class ClientReply(NamedTuple):
    """An answer of the client to a request of the agent; `error` is None on success."""

    id: MessageId
    result: Any
    error: Any


class MalformedMessage(NamedTuple):
    """A line that is not a valid message, and the error to answer with."""

    id: MessageId
    code: int
    text: str


WireMessage: TypeAlias = ClientRequest | ClientNotification | ClientReply | MalformedMessage


def parse_line(line: bytes) -> WireMessage:
    """Return the message of a line; a `MalformedMessage` if the line is not valid."""
    try:
        message = json.loads(line)
    except (ValueError, RecursionError):
        return MalformedMessage(None, PARSE_ERROR, "the line is not JSON")
    if not isinstance(message, dict) or message.get("jsonrpc") != "2.0":
        return MalformedMessage(None, INVALID_REQUEST, "the message is not JSON-RPC 2.0")
    message_id = message.get("id")
    if isinstance(message_id, bool) or not isinstance(message_id, int | str | None):
        return MalformedMessage(None, INVALID_REQUEST, "id must be a number or a string")
    if "method" in message:
        return _parse_call(message_id, message)
    if "result" in message or "error" in message:
        return ClientReply(message_id, message.get("result"), message.get("error"))
    return MalformedMessage(message_id, INVALID_REQUEST, "the message has no method and no result")


def _parse_call(message_id: MessageId, message: Json) -> WireMessage:
    method, params = message["method"], message.get("params", {})
    if not isinstance(method, str):
        return MalformedMessage(message_id, INVALID_REQUEST, "method must be a string")
    if not isinstance(params, dict):
        return MalformedMessage(message_id, INVALID_PARAMS, "params must be an object")
    if "id" in message:
        return ClientRequest(message_id, method, params)
    return ClientNotification(method, params)


def encode_line(message: Mapping[str, Any]) -> bytes:
    """Return the encoded message with its newline."""
    message = {"jsonrpc": "2.0", **message}
    try:
        # Not in ASCII, so that a client that splits lines at other separators is found out.
        return (_ENCODE_UTF8(message) + "\n").encode()
    except UnicodeEncodeError:  # a lone surrogate, which must be escaped
        return (_ENCODE_ASCII(message) + "\n").encode()


_ENCODE_UTF8: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
_ENCODE_ASCII: Final = json.JSONEncoder(separators=(",", ":")).encode


ActionKind: TypeAlias = Literal[
    "exit",  # exit with the code `number`
    "fork",  # start `number` children that only sleep; the result is their pids
    "detach",  # start one in a session of its own, double forked; the result is its pid
    "ignore_term",  # ignore SIGTERM; children inherit that
    "stop",  # send SIGSTOP to itself
    "deafen",  # stop reading the input, including its end
    "close_output",  # close the output and drop later output
    "log",  # write `text` to standard error, unchanged
    "mcp",  # send a line to an MCP server: `text` is JSON with both; the result is a problem
]


class ProcessAction(NamedTuple):
    """One action that the host of the agent has to perform."""

    kind: ActionKind
    number: int = 0
    text: str = ""


# A script waits while this much of its output was not taken.
FULL_BYTES: Final = 65_536
# How long an answer is delayed for another one to overtake it.
OVERTAKEN_SECONDS: Final = 0.2


class EngineOutbox:
    """Output that the host has not taken.

    With `swaps_answers`, answers are sent in swapped pairs.
    """

    def __init__(self, *, swaps_answers: bool) -> None:
        # The time of the last tick.
        self.now = 0.0
        self.waiting_bytes = 0
        self._swaps_answers = swaps_answers
        self._lines: list[bytes] = []
        self._actions: deque[ProcessAction] = deque()
        self._requests = 0
        # Invariant: at most one answer is delayed, and only with `swaps_answers`.
        self._delayed_answer: bytes | None = None
        self._delayed_until = 0.0

    @property
    def is_full(self) -> bool:
        """True while scripts must wait before they write more."""
        return self.waiting_bytes >= FULL_BYTES

    def write(self, data: bytes) -> None:
        """Add bytes to the output, unchanged."""
        self._lines.append(data)
        self.waiting_bytes += len(data)

    def notify(self, method: str, params: Json) -> None:
        """Send a notification to the client."""
        self.write(encode_line({"method": method, "params": params}))

    def request(self, method: str, params: Json) -> int:
        """Send a request to the client; return its id."""
        self._requests += 1
        self.write(encode_line({"id": self._requests, "method": method, "params": params}))
        return self._requests

    def answer(self, request: MessageId, result: Any) -> None:  # noqa: ANN401 - also invalid results
        """Answer a request of the client with a result."""
        self._reply(encode_line({"id": request, "result": result}))

    def refuse(self, request: MessageId, code: int, text: str) -> None:
        """Answer a request of the client with an error."""
        self._reply(encode_line({"id": request, "error": {"code": code, "message": text}}))

    def request_action(self, action: ProcessAction) -> None:
        """Add an action for the host."""
        self._actions.append(action)

    @property
    def has_actions(self) -> bool:
        """True while an action waits to be taken."""
        return bool(self._actions)

    @property
    def is_exiting(self) -> bool:
        """True if an action is to exit the process."""
        return any(action.kind == "exit" for action in self._actions)

    def take(self) -> list[bytes]:
        """Return the bytes to write, in order."""
        taken, self._lines, self.waiting_bytes = self._lines, [], 0
        return taken

    def take_actions(self) -> list[ProcessAction]:
        """Return the actions to perform, in order, once all earlier output is written."""
        taken = list(self._actions)
        self._actions.clear()
        return taken

    def next_deadline(self) -> float | None:
        """Return the time at which a delayed answer is sent; None if none is delayed."""
        return None if self._delayed_answer is None else self._delayed_until

    def tick(self, now: float) -> None:
        """Set the current time and send a delayed answer that is due."""
        self.now = now
        if self._delayed_answer is not None and now >= self._delayed_until:
            delayed, self._delayed_answer = self._delayed_answer, None
            self.write(delayed)

    def _reply(self, answer: bytes) -> None:
        if not self._swaps_answers:
            self.write(answer)
        elif self._delayed_answer is None:
            self._delayed_answer, self._delayed_until = answer, self.now + OVERTAKEN_SECONDS
        else:
            delayed, self._delayed_answer = self._delayed_answer, None
            self.write(answer)
            self.write(delayed)
