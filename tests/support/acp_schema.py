"""Checker of messages against the protocol's published schema.

The models are those of the official SDK, and ours for what is newer. They are lenient with received
messages: they drop malformed values, turn "5" into 5 and ignore unknown fields. Messages that we
send must be exact, so here the models are strict.

`side` is the sender: the client starts and supervises, the agent works.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any, Literal, TypeAlias
from unittest import mock

import orjson
from acp import schema
from attrs import frozen
from pydantic import TypeAdapter, ValidationError

from . import acp_newest_schema as newest

Side: TypeAlias = Literal["client", "agent"]
Json: TypeAlias = dict[str, Any]

CANCEL = "$/cancel_request"


@frozen
class Asks:
    """A method with an answer."""

    params: Any
    result: Any


@frozen
class Tells:
    """A method without an answer."""

    params: Any


SetConfigOption = (
    schema.SetSessionConfigOptionBooleanRequest | schema.SetSessionConfigOptionSelectRequest
)

# The methods that each side may send.
SENT_BY: Mapping[Side, Mapping[str, Asks | Tells]] = {
    "client": {
        "initialize": Asks(newest.InitializeRequest, schema.InitializeResponse),
        "authenticate": Asks(schema.AuthenticateRequest, schema.AuthenticateResponse),
        "logout": Asks(schema.LogoutRequest, schema.LogoutResponse),
        "session/new": Asks(schema.NewSessionRequest, schema.NewSessionResponse),
        "session/load": Asks(schema.LoadSessionRequest, schema.LoadSessionResponse),
        "session/resume": Asks(schema.ResumeSessionRequest, schema.ResumeSessionResponse),
        "session/list": Asks(schema.ListSessionsRequest, schema.ListSessionsResponse),
        "session/close": Asks(schema.CloseSessionRequest, schema.CloseSessionResponse),
        "session/delete": Asks(schema.DeleteSessionRequest, schema.DeleteSessionResponse),
        "session/fork": Asks(schema.ForkSessionRequest, schema.ForkSessionResponse),
        "session/prompt": Asks(schema.PromptRequest, schema.PromptResponse),
        "session/set_mode": Asks(schema.SetSessionModeRequest, schema.SetSessionModeResponse),
        "session/set_config_option": Asks(SetConfigOption, schema.SetSessionConfigOptionResponse),
        "session/cancel": Tells(schema.CancelNotification),
        CANCEL: Tells(schema.CancelRequestNotification),
    },
    "agent": {
        "session/request_permission": Asks(
            schema.RequestPermissionRequest, schema.RequestPermissionResponse
        ),
        "fs/read_text_file": Asks(schema.ReadTextFileRequest, schema.ReadTextFileResponse),
        "fs/write_text_file": Asks(schema.WriteTextFileRequest, schema.WriteTextFileResponse),
        "terminal/create": Asks(schema.CreateTerminalRequest, schema.CreateTerminalResponse),
        "terminal/output": Asks(schema.TerminalOutputRequest, schema.TerminalOutputResponse),
        "terminal/wait_for_exit": Asks(
            schema.WaitForTerminalExitRequest, schema.WaitForTerminalExitResponse
        ),
        "terminal/kill": Asks(schema.KillTerminalRequest, schema.KillTerminalResponse),
        "terminal/release": Asks(schema.ReleaseTerminalRequest, schema.ReleaseTerminalResponse),
        "elicitation/create": Asks(
            schema.CreateElicitationRequest, schema.CreateElicitationResponse
        ),
        "elicitation/complete": Tells(schema.CompleteElicitationNotification),
        "session/update": Tells(newest.SessionNotification),
        CANCEL: Tells(schema.CancelRequestNotification),
    },
}


def assert_valid(message: Json, side: Side, *, answers: str | None = None) -> None:
    """Fail unless the schema allows `side` to send exactly this message.

    A result is judged as that of the method it `answers`; if that is not said, it has to be a
    result of some method that this side serves. `Conversation` knows.
    """
    _check(message.get("jsonrpc") == "2.0", "it does not say that it is JSON-RPC 2.0", message)
    if "method" in message:
        _judge_method(message, side)
    elif "error" in message:
        _check_names(message, {"jsonrpc", "id", "error"})
        _judge(message["error"], schema.Error, "error")
    else:
        _check_names(message, {"jsonrpc", "id", "result"})
        _check("result" in message, "it has neither a method nor an outcome", message)
        _judge_result(message["result"], side, answers)


class Conversation:
    """Checker of a whole conversation, which matches results to requests."""

    def __init__(self) -> None:
        self._open: dict[tuple[Side, int | str | None], str] = {}

    def says(self, side: Side, message: Json) -> None:
        """Check a message that `side` sends."""
        if "method" in message:
            assert_valid(message, side)
            if "id" in message:
                _check((side, message["id"]) not in self._open, "its id is open", message)
                self._open[side, message["id"]] = message["method"]
        else:
            other: Side = "agent" if side == "client" else "client"
            method = self._open.pop((other, message.get("id")), None)
            _check(method is not None, "it answers nothing that was asked", message)
            assert_valid(message, side, answers=method)

    @property
    def unanswered(self) -> list[str]:
        """Return the methods of the unanswered requests."""
        return list(self._open.values())


def _judge_method(message: Json, side: Side) -> None:
    method = message["method"]
    _check_names(message, {"jsonrpc", "id", "method", "params"})
    if method.startswith("_"):
        return  # an extension may have any params
    known = SENT_BY[side].get(method)
    _check(known is not None, f"the {side} may not send this", message)
    if isinstance(known, Asks):
        _check("id" in message, "it is owed an answer, but has no id", message)
        _check(type(message["id"]) in (int, str), "its id is neither number nor text", message)
    else:
        _check("id" not in message, "it is owed no answer, but has an id", message)
    _judge(message.get("params"), known.params, method)  # type: ignore[union-attr]


def _judge_result(result: object, side: Side, answers: str | None) -> None:
    other: Side = "agent" if side == "client" else "client"
    served = {name: known for name, known in SENT_BY[other].items() if isinstance(known, Asks)}
    if answers is None:
        _check(any(_fits(result, known.result) for known in served.values()), "no result", result)
    elif not answers.startswith("_"):
        _judge(result, served[answers].result, f"the result of {answers}")


def _check_names(message: Json, allowed: set[str]) -> None:
    _check(message.keys() <= allowed, f"{message.keys() - allowed} have no place here", message)


def _check(holds: object, problem: str, what: object) -> None:
    if not holds:
        raise AssertionError(f"{problem}: {what!r}")


def _fits(value: object, model: object) -> bool:
    try:
        _judge(value, model, "")
    except AssertionError:
        return False
    return True


def _judge(value: object, model: object, name: str) -> None:
    """Validate strictly as the model; encoding it again must return the same value."""
    adapter = _adapter(model)
    try:
        with mock.patch.multiple(schema, salvage_on_error=_raise, skip_invalid_items=_raise):
            read = adapter.validate_json(orjson.dumps(value), strict=True)
    except ValidationError as error:
        raise AssertionError(f"{name} is not what the schema says: {error}") from None
    written = adapter.dump_python(read, mode="json", by_alias=True, exclude_unset=True)
    _check(written == value, f"{name} has what the schema does not know; it has {written!r}", value)


def _raise(value: object, handler: Any, fallback: object = None) -> object:  # noqa: ANN401 - pydantic's own
    """Raise where the SDK would skip an invalid value."""
    return handler(value)


@functools.cache
def _adapter(model: Any) -> TypeAdapter[Any]:  # noqa: ANN401 - a model, or several
    return TypeAdapter(model)
