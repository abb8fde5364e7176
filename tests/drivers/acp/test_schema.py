"""The schema checker of the tests is strict and covers every method that we use."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from acp import meta

from supervisor.json_rpc.rpc_messages import (
    INVALID_PARAMS,
    RpcError,
    RpcErrorResponse,
    RpcMessage,
    RpcNotification,
    RpcRequest,
    RpcResult,
    encode,
)
from supervisor.json_rpc.rpc_peer import CANCEL, Peer
from tests.support.acp_schema import SENT_BY, Conversation, Json, Side, assert_valid

# Unstable methods that a supervisor does not use.
NOT_SPOKEN = ("providers/", "mcp/", "nes/", "document/")

TEXT = {"type": "text", "text": "hello"}
CALL = {"toolCallId": "c1", "title": "ls", "kind": "execute", "status": "pending"}

FROM_CLIENT: dict[str, Any] = {
    "initialize": {
        "protocolVersion": 1,
        "clientCapabilities": {"fs": {"readTextFile": True, "writeTextFile": True}},
        "clientInfo": {"name": "understudy", "version": "0.1"},
    },
    "authenticate": {"methodId": "api-key"},
    "session/new": {"cwd": "/home/ada", "mcpServers": []},
    "session/load": {"cwd": "/home/ada", "mcpServers": [], "sessionId": "s1"},
    "session/resume": {"cwd": "/home/ada", "sessionId": "s1"},
    "session/close": {"sessionId": "s1"},
    "session/prompt": {"sessionId": "s1", "prompt": [TEXT]},
    "session/set_mode": {"sessionId": "s1", "modeId": "plan"},
    "session/set_config_option": {"sessionId": "s1", "configId": "model", "value": "large"},
}
FROM_AGENT: dict[str, Any] = {
    "session/request_permission": {
        "sessionId": "s1",
        "toolCall": CALL,
        "options": [{"optionId": "o1", "name": "Yes", "kind": "allow_once"}],
    },
    "fs/read_text_file": {"sessionId": "s1", "path": "/home/ada/x", "line": 1},
    "terminal/create": {"sessionId": "s1", "command": "ls", "args": ["-l"]},
}
RESULTS: dict[str, Any] = {
    "session/request_permission": {"outcome": {"outcome": "selected", "optionId": "o1"}},
    "fs/read_text_file": {"content": "text"},
    "fs/write_text_file": {},
    "terminal/create": {"terminalId": "t1"},
    "terminal/output": {"output": "x", "truncated": False, "exitStatus": {"exitCode": 0}},
    "terminal/wait_for_exit": {"exitCode": None, "signal": "SIGKILL"},
}


def wire(message: RpcMessage) -> Json:
    decoded: Json = orjson.loads(encode(message))
    return decoded


@pytest.mark.parametrize("method", FROM_CLIENT)
def test_client_requests_are_valid(method: str) -> None:
    assert_valid(wire(RpcRequest(1, method, FROM_CLIENT[method])), "client")


@pytest.mark.parametrize("method", FROM_AGENT)
def test_agent_requests_are_valid(method: str) -> None:
    assert_valid(wire(RpcRequest("a", method, FROM_AGENT[method])), "agent")


@pytest.mark.parametrize("method", RESULTS)
def test_client_answers_are_valid(method: str) -> None:
    assert_valid(wire(RpcResult(1, RESULTS[method])), "client", answers=method)
    assert_valid(wire(RpcResult(1, RESULTS[method])), "client")


def test_notifications_and_refusals_are_valid() -> None:
    update = {"sessionUpdate": "agent_message_chunk", "content": TEXT}

    assert_valid(wire(RpcNotification("session/cancel", {"sessionId": "s1"})), "client")
    assert_valid(
        wire(RpcNotification("session/update", {"sessionId": "s1", "update": update})), "agent"
    )
    assert_valid(wire(RpcErrorResponse(1, INVALID_PARAMS, "no", {"path": "x"})), "client")


def test_methods_with_an_underscore_are_extensions() -> None:
    assert_valid(wire(RpcRequest(1, "_session/steering", {"sessionId": "s1", "x": 1})), "client")
    assert_valid(wire(RpcNotification("_auth/status_update", {})), "agent")


def test_messages_of_the_peer_are_valid() -> None:
    peer = Peer(max_open_requests=1)
    call_id, _ = peer.call("session/new", FROM_CLIENT["session/new"])
    given_up = peer.abandon_call(call_id) or b""
    peer.feed(encode(RpcRequest(1, "a")) + encode(RpcRequest(1, "b")) + encode(RpcRequest(2, "c")))
    assert peer.next_event() == RpcRequest(1, "a")
    replies = [peer.next_event(), peer.next_event()]
    refusal = peer.refuse(1, RpcError(5, "no"))

    for line in (given_up, refusal, *(reply.reply for reply in replies)):  # type: ignore[union-attr]
        assert_valid(orjson.loads(line or b""), "client")


PROMPT = FROM_CLIENT["session/prompt"]
READ = FROM_AGENT["fs/read_text_file"]


@pytest.mark.parametrize(
    ("message", "side"),
    [
        (wire(RpcRequest(1, "session/prompt", {**PROMPT, "extra": 1})), "client"),
        (wire(RpcRequest(1, "session/prompt", {"session_id": "s1", "prompt": []})), "client"),
        (wire(RpcRequest(1, "session/prompt", {"sessionId": 5, "prompt": []})), "client"),
        (wire(RpcRequest(1, "session/prompt", {"sessionId": "s1"})), "client"),
        (wire(RpcRequest(1, "session/prompt")), "client"),
        (wire(RpcRequest(1, "session/prompt", {"sessionId": "s", "prompt": [{}]})), "client"),
        (wire(RpcRequest(1, "initialize", {"protocolVersion": "1"})), "client"),
        (wire(RpcRequest(1, "session/new", {"cwd": "/home/ada"})), "client"),
        (wire(RpcRequest(1, "session/new", {"cwd": "/home/ada", "mcpServers": [5]})), "client"),
        (wire(RpcRequest(1, "session/prompt", PROMPT)), "agent"),
        (wire(RpcRequest(1, "session/invented", {})), "client"),
        (wire(RpcRequest(1, "session/cancel", {"sessionId": "s1"})), "client"),
        (wire(RpcNotification("session/prompt", PROMPT)), "client"),
        (wire(RpcRequest(1, "fs/read_text_file", {**READ, "line": "1"})), "agent"),
        (wire(RpcResult(1, {"contents": "text"})), "client"),
        (wire(RpcResult(1, None)), "client"),
        ({"jsonrpc": "2.0", "id": 1, "error": {"code": "x", "message": "no"}}, "client"),
        ({"jsonrpc": "2.0", "id": 1, "result": {}, "custom": 1}, "client"),
        ({"jsonrpc": "2.0", "id": 1}, "client"),
        ({"id": 1, "method": "session/prompt", "params": PROMPT}, "client"),
    ],
)  # fmt: skip
def test_an_invalid_message_is_refused(message: Json, side: Side) -> None:
    with pytest.raises(AssertionError):
        assert_valid(message, side)


def test_a_result_of_another_method_is_refused() -> None:
    with pytest.raises(AssertionError):
        assert_valid(wire(RpcResult(1, {"content": "x"})), "client", answers="terminal/create")


def test_each_result_is_checked_against_its_request() -> None:
    talk = Conversation()
    talk.says("client", wire(RpcRequest(1, "session/prompt", PROMPT)))
    talk.says("agent", wire(RpcRequest(1, "fs/read_text_file", FROM_AGENT["fs/read_text_file"])))
    assert talk.unanswered == ["session/prompt", "fs/read_text_file"]

    talk.says("client", wire(RpcResult(1, {"content": "x"})))
    talk.says("client", wire(RpcNotification(CANCEL, {"requestId": 1})))
    with pytest.raises(AssertionError, match="the result of session/prompt"):
        talk.says("agent", wire(RpcResult(1, {"stopReason": "tired"})))
    with pytest.raises(AssertionError, match="answers nothing"):
        talk.says("client", wire(RpcResult(1, {"content": "x"})))


def test_the_checker_covers_every_method_of_the_protocol() -> None:
    for side, methods in (("client", meta.AGENT_METHODS), ("agent", meta.CLIENT_METHODS)):
        spoken = {name for name in methods.values() if not name.startswith(NOT_SPOKEN)}
        assert SENT_BY[side].keys() - {CANCEL} == spoken  # type: ignore[index]
