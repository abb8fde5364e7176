"""The ACP methods of the scripted agent, and the flags that make them misbehave."""

from __future__ import annotations

import json

import pytest

from supervisor.drivers.scripted import MemoryConversations, ProcessAction
from supervisor.drivers.scripted.flags import PHASES
from tests.support.scripted_client import Client, Json, prompt_line

ALL_ABLE = (
    *("--load", "--resume", "--close", "--modes", "--config-options"),
    *("--auth", "login", "--steering", "injected"),
)

# As it should be -------------------------------------------------------------------------------


def test_initialize_reports_the_capabilities() -> None:
    answer = Client().initialize()

    assert answer["protocolVersion"] == 1
    assert answer["authMethods"] == []
    assert "_meta" not in answer
    assert answer["agentCapabilities"] == {
        "loadSession": False,
        "promptCapabilities": {"image": False, "audio": False, "embeddedContext": False},
        "mcpCapabilities": {"http": False, "sse": False},
        "sessionCapabilities": {},
    }


def test_initialize_reports_the_capabilities_of_the_flags() -> None:
    answer = Client(*ALL_ABLE, "--mcp", "--attachments").initialize()

    assert answer["authMethods"] == [{"id": "login", "name": "login"}]
    assert answer["_meta"] == {"steering": {"supported": True}}
    assert answer["agentCapabilities"] == {
        "loadSession": True,
        "promptCapabilities": {"image": True, "audio": True, "embeddedContext": True},
        "mcpCapabilities": {"http": True, "sse": True},
        "sessionCapabilities": {"resume": {}, "close": {}},
    }


@pytest.mark.parametrize("method", sorted({*PHASES.values()} - {"initialize", "session/cancel"}))
def test_an_optional_method_without_its_flag_is_unknown(method: str) -> None:
    client = Client()
    client.initialize()

    code, _ = client.error_of(client.request(method))

    assert (code == -32601) == (method not in ("session/new", "session/prompt"))


@pytest.mark.parametrize("method", ["session/dance", "_weather", ""])
def test_an_unknown_method_is_answered_with_an_error(
    client: Client, session: str, method: str
) -> None:
    assert client.error_of(client.request(method, sessionId=session))[0] == -32601


def test_an_unknown_notification_is_ignored(client: Client, session: str) -> None:
    before = len(client.heard)

    client.notify("_weather", sessionId=session)

    assert len(client.heard) == before


def test_initialize_comes_first_and_once(client: Client) -> None:
    early = client.request("session/new", cwd="/project", mcpServers=[])
    client.initialize()
    again = client.request("initialize", protocolVersion=1)

    assert (client.error_of(early)[0], client.error_of(again)[0]) == (-32600, -32600)


@pytest.mark.parametrize(
    ("line", "code", "name"),
    [
        (b"hello", -32700, None),
        (b"\xff\xfe", -32700, None),
        (b"[" * 100_000, -32700, None),
        (b"[]", -32600, None),
        (b'{"id":1,"method":"initialize"}', -32600, None),
        (b'{"jsonrpc":"2.0","id":[],"method":"a"}', -32600, None),
        (b'{"jsonrpc":"2.0","id":true,"method":"a"}', -32600, None),
        (b'{"jsonrpc":"2.0","id":4}', -32600, 4),
        (b'{"jsonrpc":"2.0","id":4,"method":5}', -32600, 4),
        (b'{"jsonrpc":"2.0","id":"a","method":"initialize","params":[]}', -32602, "a"),
    ],
)
def test_a_malformed_message_is_answered_with_an_error(
    client: Client, line: bytes, code: int, name: object
) -> None:
    client.say_line(line)

    (answer,) = client.heard
    assert (answer["error"]["code"], answer["id"]) == (code, name)


def test_a_blank_line_is_ignored(client: Client) -> None:
    client.say_line(b" \r\n")

    assert client.heard == []


@pytest.mark.parametrize(
    "params",
    [
        {"cwd": "work", "mcpServers": []},
        {"mcpServers": []},
        {"cwd": "/project"},
        {"cwd": "/project", "mcpServers": ["files"]},
        {"cwd": "/project", "mcpServers": [{"type": "http", "name": "a", "url": "x"}]},
    ],
)
def test_a_session_with_invalid_parameters_is_refused(client: Client, params: Json) -> None:
    client.initialize()

    assert client.error_of(client.request("session/new", **params))[0] == -32602


def test_an_agent_may_take_servers_over_http() -> None:
    client = Client("--mcp")
    session = client.open(mcpServers=[{"type": "http", "name": "web", "url": "x", "headers": []}])

    client.prompt(session, "servers")

    assert client.text == "servers: web\n"


@pytest.mark.parametrize(
    "blocks",
    ["say a", [5], [{"type": "text"}], [{"type": "image", "data": "", "mimeType": "a/b"}], None],
)
def test_an_invalid_prompt_is_refused(client: Client, session: str, blocks: object) -> None:
    assert client.error_of(client.prompt(session, prompt=blocks))[0] == -32602


def test_an_agent_may_take_attachments() -> None:
    client = Client("--attachments")
    image = {"type": "image", "data": "", "mimeType": "image/png"}
    document = {"type": "resource", "resource": {"uri": "file:///a", "text": "b"}}

    client.prompt(client.open(), prompt=[{"type": "text", "text": "context"}, image, document])

    assert client.text == "image\nresource file:///a\n"


def test_a_prompt_for_an_unknown_session_is_refused(client: Client, session: str) -> None:
    assert client.error_of(client.prompt("scripted-0", "say a"))[0] == -32002


def test_text_is_sent_in_utf8_and_a_lone_surrogate_escaped(client: Client, session: str) -> None:
    client.prompt(session, "say ä€\U0001f642")
    client.say_line(prompt_line(session, "say \ud800"))

    assert client.text == "ä€\U0001f642\ud800"


# Not as it should be ---------------------------------------------------------------------------


def ask_at(client: Client, phase: str) -> int:
    """Go where the phase is, through all that come before it."""
    if phase == "initialize":
        return client.request("initialize", protocolVersion=1)
    client.initialize()
    if phase == "authenticate":
        return client.request("authenticate", methodId="login")
    client.request("authenticate", methodId="login")
    if phase == "new":
        return client.request("session/new", cwd="/project", mcpServers=[])
    session = client.new_session()
    if phase == "prompt":
        return client.prompt(session, "say hello")
    params = {"sessionId": session, "cwd": "/project", "mcpServers": [], "modeId": "ask"}
    params |= {"configId": "model", "value": "large", "prompt": []}
    return client.request(PHASES[phase], **params)


ANSWERED = [phase for phase in PHASES if phase != "cancel"]


@pytest.mark.parametrize("phase", ANSWERED)
def test_an_agent_without_flags_answers_in_every_phase(phase: str) -> None:
    client = Client(*ALL_ABLE)

    client.result_of(ask_at(client, phase))


@pytest.mark.parametrize("phase", ANSWERED)
def test_an_agent_may_die_in_any_phase(phase: str) -> None:
    client = Client(*ALL_ABLE, "--die-at", phase)

    asked = ask_at(client, phase)

    assert client.answers_to(asked) == []
    assert client.actions[-1] == ProcessAction("exit", 1)
    assert PHASES[phase] in client.actions[0].text


@pytest.mark.parametrize("phase", ANSWERED)
def test_an_agent_may_hang_in_any_phase(phase: str) -> None:
    client = Client(*ALL_ABLE, "--hang-at", phase)

    asked = ask_at(client, phase)
    client.notify("$/cancel_request", requestId=asked)
    client.wait(1e6)

    assert (client.answers_to(asked), client.actions) == ([], [])


@pytest.mark.parametrize("phase", ANSWERED)
def test_an_agent_may_fail_in_any_phase(phase: str) -> None:
    client = Client(*ALL_ABLE, "--fail-at", phase)

    assert client.error_of(ask_at(client, phase))[0] == -32603


@pytest.mark.parametrize("phase", ANSWERED)
def test_an_agent_may_answer_with_rubbish_in_any_phase(phase: str) -> None:
    client = Client(*ALL_ABLE, "--rubbish-at", phase)

    (answer,) = client.answers_to(ask_at(client, phase))

    assert answer["result"] == "rubbish"


def test_an_agent_may_die_at_a_cancel() -> None:
    client = Client("--die-at", "cancel")
    session = client.open()
    client.prompt(session, "sleep 1000")

    client.cancel(session)

    assert client.is_gone


def test_an_agent_may_ignore_a_cancel_and_end_normally() -> None:
    client = Client("--hang-at", "cancel")
    session = client.open()
    asked = client.prompt(session, "sleep 5")

    client.cancel(session)

    assert client.finish(asked)["result"] == {"stopReason": "end_turn"}
    assert client.now == 5.0


def test_an_agent_may_delay_its_answers() -> None:
    client = Client("--delay", "2")

    client.finish(client.request("initialize", protocolVersion=1))
    opened = client.finish(client.request("session/new", cwd="/project", mcpServers=[]))
    asked = client.prompt(opened["result"]["sessionId"], "say at once")

    assert client.now == 4.0
    assert client.result_of(asked)


def test_a_delayed_request_can_be_cancelled() -> None:
    client = Client("--delay", "2")
    asked = client.request("initialize", protocolVersion=1)

    client.notify("$/cancel_request", requestId=asked)
    client.wait(10.0)

    assert client.error_of(asked)[0] == -32800


def test_an_agent_may_speak_another_version() -> None:
    assert Client("--protocol", "2").initialize()["protocolVersion"] == 2


def test_answers_may_come_out_of_order() -> None:
    client = Client("--out-of-order")
    client.finish(client.request("initialize", protocolVersion=1))
    first = client.request("session/new", cwd="/a", mcpServers=[])
    second = client.request("session/new", cwd="/b", mcpServers=[])

    assert [said["id"] for said in client.heard[-2:]] == [second, first]


def test_an_answer_that_is_not_overtaken_is_sent_later() -> None:
    client = Client("--out-of-order")
    asked = client.request("initialize", protocolVersion=1)
    assert client.answers_to(asked) == []

    client.finish(asked)

    assert client.now == pytest.approx(0.2)


def test_an_agent_may_write_a_banner_first() -> None:
    client = Client("--banner", "Welcome!")

    client.initialize()

    assert client.junk == [b"Welcome!"]


def test_an_agent_may_report_usage_in_its_answer() -> None:
    client = Client("--usage")
    session = client.open()
    client.prompt(session, "use 40")

    answer = client.result_of(client.prompt(session, "use 1\nuse 2"))

    assert answer["usage"] == {"totalTokens": 3, "inputTokens": 0, "outputTokens": 3}


def test_an_echo_agent_runs_no_script() -> None:
    client = Client("--echo")

    client.prompt(client.open(), "say one\n\n two ")

    chunks = [chunk["content"]["text"] for chunk in client.updates()]
    assert chunks == ["say ", "one\n\n ", "two "]


# Logging in ------------------------------------------------------------------------------------


def test_a_session_before_authentication_is_refused() -> None:
    client = Client(*ALL_ABLE, saved=MemoryConversations())
    client.initialize()
    params = {"cwd": "/project", "mcpServers": [], "sessionId": "scripted-1"}

    assert client.error_of(client.request("session/new", **params))[0] == -32000
    client.result_of(client.request("authenticate", methodId="login"))
    assert client.result_of(client.request("session/new", **params))["sessionId"]


def test_an_unknown_authentication_method_is_refused() -> None:
    client = Client("--auth", "login")
    client.initialize()

    assert client.error_of(client.request("authenticate", methodId="guess"))[0] == -32602
    assert client.error_of(client.request("session/new"))[0] == -32000


# The same again --------------------------------------------------------------------------------


def test_the_same_calls_give_the_same_lines() -> None:
    def lines() -> str:
        client = Client("--out-of-order", "--delay", "1", "--usage")
        client.finish(client.request("initialize", protocolVersion=1))
        client.finish(client.request("session/new", cwd="/project", mcpServers=[]))
        client.finish(client.prompt("scripted-1", "tool a 3\nuse 4\nflood 900\nsetsid"))
        return json.dumps(client.heard)

    assert lines() == lines()
