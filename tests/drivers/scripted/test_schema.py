"""Messages of the scripted agent match the protocol's published schema."""

from __future__ import annotations

import pytest

from supervisor.drivers.scripted import MemoryConversations
from tests.support.acp_schema import Conversation
from tests.support.scripted_client import ABLE, Client, Json

FLAGS = (
    *("--load", "--resume", "--close", "--mcp", "--attachments", "--modes", "--config-options"),
    *("--auth", "login", "--steering", "injected", "--usage"),
)
BOOLEANS: Json = {"session": {"configOptions": {"boolean": {}}}}
OPENING: Json = {"cwd": "/project", "mcpServers": []}


def judge(client: Client) -> None:
    """Fails unless all that both have said is what it has to be."""
    conversation = Conversation()
    for side, message in client.talk:
        conversation.says(side, message)
    assert conversation.unanswered == []


def answer_all(client: Client, result: Json) -> None:
    """Answer what the agent asks, until it asks no more."""
    answered = 0
    while len(client.requests()) > answered:
        client.answer(client.requests()[answered]["id"], result)
        answered += 1


@pytest.mark.parametrize("flags", [(), FLAGS])
def test_the_handshake(flags: tuple[str, ...]) -> None:
    client = Client(*flags)
    client.initialize({**ABLE, **BOOLEANS})
    client.request("session/new", **OPENING)
    client.request("authenticate", methodId="login")
    client.request("session/new", **OPENING)

    judge(client)


def test_every_step_that_only_speaks(client: Client, session: str) -> None:
    client.finish(client.prompt(session, "say a\nthink b\ntool c 1\nuse 5\nfork\nsetsid\nflood 3"))
    client.prompt(session, "fail so")
    client.prompt(session, "answer refusal")

    judge(client)


def test_permission_for_a_tool(client: Client, session: str) -> None:
    client.prompt(session, "ask bash\nask-tool edit a.txt")
    answer_all(client, {"outcome": {"outcome": "selected", "optionId": "option-2"}})

    judge(client)


@pytest.mark.parametrize(
    ("script", "result"),
    [("read a", {"content": "b"}), ("write a b", {}), ("terminal ls -l", {"terminalId": "t"})],
)
def test_steps_that_need_a_client(client: Client, script: str, result: Json) -> None:
    client.prompt(client.open(ABLE), script)
    request = client.requests()[0]
    client.answer(request["id"], result)
    for more in ({"exitCode": 0}, {"output": "", "truncated": False}, {}):
        if len(client.requests()) > 1:
            client.answer(client.requests()[-1]["id"], more)

    judge(client)


def test_a_cancelled_turn(client: Client) -> None:
    session = client.open(ABLE)
    client.prompt(session, "ask bash")
    client.cancel(session)
    client.answer(client.requests()[0]["id"], {"outcome": {"outcome": "cancelled"}})

    judge(client)


def test_modes_options_and_closing() -> None:
    client = Client(*FLAGS)
    client.initialize(BOOLEANS)
    client.request("authenticate", methodId="login")
    session = client.new_session()
    client.request("session/set_mode", sessionId=session, modeId="ask")
    option = {"sessionId": session, "configId": "model", "value": "large"}
    client.request("session/set_config_option", **option)
    brief = {"sessionId": session, "configId": "brief", "value": True, "type": "boolean"}
    client.request("session/set_config_option", **brief)
    client.request("session/close", sessionId=session)

    judge(client)


def test_steering_and_usage() -> None:
    client = Client("--steering", "injected", "--usage")
    session = client.open()
    asked = client.prompt(session, "use 5\nsleep 1")
    blocks = [{"type": "text", "text": "go on"}]
    client.request("_session/steering", sessionId=session, prompt=blocks)
    client.finish(asked)

    judge(client)


def test_loading_and_resuming() -> None:
    saved = MemoryConversations()
    first = Client(saved=saved)
    session = first.open()
    first.finish(first.prompt(session, "say a\ntool b 1\nuse 3"))
    second = Client("--load", "--resume", saved=saved)
    second.initialize()
    second.request("session/load", sessionId=session, **OPENING)
    second.request("session/resume", sessionId=session, **OPENING)

    judge(second)
