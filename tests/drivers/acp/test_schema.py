"""The judge is strict, knows every method that we do, and agrees with what our peer writes."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from acp import meta

from supervisor.drivers.acp.rpc.messages import (
    INVALID_PARAMS,
    Answer,
    Message,
    Notification,
    Refusal,
    Request,
    RpcError,
    encode,
)
from supervisor.drivers.acp.rpc.peer import CANCEL, Peer
from tests.drivers.acp.schema import SENT_BY, Conversation, Json, Side, assert_valid

# Not stable, and of no use to a supervisor.
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


def wire(message: Message) -> Json:
    decoded: Json = orjson.loads(encode(message))
    return decoded


@pytest.mark.parametrize("method", FROM_CLIENT)
def test_what_a_client_asks_is_valid(method: str) -> None:
    assert_valid(wire(Request(1, method, FROM_CLIENT[method])), "client")


@pytest.mark.parametrize("method", FROM_AGENT)
def test_what_an_agent_asks_is_valid(method: str) -> None:
    assert_valid(wire(Request("a", method, FROM_AGENT[method])), "agent")


@pytest.mark.parametrize("method", RESULTS)
def test_what_a_client_answers_is_valid(method: str) -> None:
    assert_valid(wire(Answer(1, RESULTS[method])), "client", answers=method)
    assert_valid(wire(Answer(1, RESULTS[method])), "client")


def test_notifications_and_refusals_are_valid() -> None:
    update = {"sessionUpdate": "agent_message_chunk", "content": TEXT}

    assert_valid(wire(Notification("session/cancel", {"sessionId": "s1"})), "client")
    assert_valid(
        wire(Notification("session/update", {"sessionId": "s1", "update": update})), "agent"
    )
    assert_valid(wire(Refusal(1, INVALID_PARAMS, "no", {"path": "x"})), "client")


def test_methods_that_begin_with_an_underscore_are_free() -> None:
    assert_valid(wire(Request(1, "_session/steering", {"sessionId": "s1", "x": 1})), "client")
    assert_valid(wire(Notification("_auth/status_update", {})), "agent")


def test_the_peers_own_words_are_valid() -> None:
    peer = Peer(max_open_requests=1)
    call_id, _ = peer.call("session/new", FROM_CLIENT["session/new"])
    given_up = peer.give_up(call_id) or b""
    peer.feed(encode(Request(1, "a")) + encode(Request(1, "b")) + encode(Request(2, "c")))
    assert peer.next_event() == Request(1, "a")
    replies = [peer.next_event(), peer.next_event()]
    refusal = peer.refuse(1, RpcError(5, "no"))

    for line in (given_up, refusal, *(reply.reply for reply in replies)):  # type: ignore[union-attr]
        assert_valid(orjson.loads(line or b""), "client")


PROMPT = FROM_CLIENT["session/prompt"]
READ = FROM_AGENT["fs/read_text_file"]


@pytest.mark.parametrize(
    ("message", "side"),
    [
        (wire(Request(1, "session/prompt", {**PROMPT, "extra": 1})), "client"),
        (wire(Request(1, "session/prompt", {"session_id": "s1", "prompt": []})), "client"),
        (wire(Request(1, "session/prompt", {"sessionId": 5, "prompt": []})), "client"),
        (wire(Request(1, "session/prompt", {"sessionId": "s1"})), "client"),
        (wire(Request(1, "session/prompt")), "client"),
        (wire(Request(1, "session/prompt", {"sessionId": "s", "prompt": [{}]})), "client"),
        (wire(Request(1, "initialize", {"protocolVersion": "1"})), "client"),
        (wire(Request(1, "session/new", {"cwd": "/home/ada"})), "client"),
        (wire(Request(1, "session/new", {"cwd": "/home/ada", "mcpServers": [5]})), "client"),
        (wire(Request(1, "session/prompt", PROMPT)), "agent"),
        (wire(Request(1, "session/invented", {})), "client"),
        (wire(Request(1, "session/cancel", {"sessionId": "s1"})), "client"),
        (wire(Notification("session/prompt", PROMPT)), "client"),
        (wire(Request(1, "fs/read_text_file", {**READ, "line": "1"})), "agent"),
        (wire(Answer(1, {"contents": "text"})), "client"),
        (wire(Answer(1, None)), "client"),
        ({"jsonrpc": "2.0", "id": 1, "error": {"code": "x", "message": "no"}}, "client"),
        ({"jsonrpc": "2.0", "id": 1, "result": {}, "custom": 1}, "client"),
        ({"jsonrpc": "2.0", "id": 1}, "client"),
        ({"id": 1, "method": "session/prompt", "params": PROMPT}, "client"),
    ],
)  # fmt: skip
def test_what_is_not_to_the_letter_is_refused(message: Json, side: Side) -> None:
    with pytest.raises(AssertionError):
        assert_valid(message, side)


def test_a_result_of_another_method_is_refused() -> None:
    with pytest.raises(AssertionError):
        assert_valid(wire(Answer(1, {"content": "x"})), "client", answers="terminal/create")


def test_a_conversation_knows_what_each_result_answers() -> None:
    talk = Conversation()
    talk.says("client", wire(Request(1, "session/prompt", PROMPT)))
    talk.says("agent", wire(Request(1, "fs/read_text_file", FROM_AGENT["fs/read_text_file"])))
    assert talk.unanswered == ["session/prompt", "fs/read_text_file"]

    talk.says("client", wire(Answer(1, {"content": "x"})))
    talk.says("client", wire(Notification(CANCEL, {"requestId": 1})))
    with pytest.raises(AssertionError, match="the result of session/prompt"):
        talk.says("agent", wire(Answer(1, {"stopReason": "tired"})))
    with pytest.raises(AssertionError, match="answers nothing"):
        talk.says("client", wire(Answer(1, {"content": "x"})))


def test_the_judge_knows_every_method_of_the_protocol() -> None:
    for side, methods in (("client", meta.AGENT_METHODS), ("agent", meta.CLIENT_METHODS)):
        spoken = {name for name in methods.values() if not name.startswith(NOT_SPOKEN)}
        assert SENT_BY[side].keys() - {CANCEL} == spoken  # type: ignore[index]
