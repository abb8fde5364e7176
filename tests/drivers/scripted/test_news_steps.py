"""Steps that report news, over the wire; see scripted/news_steps.py."""

from __future__ import annotations

import pytest

from tests.support.acp_schema import Conversation
from tests.support.scripted_client import Client, Json

ABLE: Json = {"session": {"notices": {}, "compaction": {}}, "subagents": {}}

SCRIPT = """notice warning careful
window 900 1000
compact 100 the work so far
named-tool bash List files
subagent Explorer running I look
subagent Explorer idle"""


def test_each_step_sends_its_updates_as_the_schema_says() -> None:
    client = Client()
    client.finish(client.prompt(client.open(ABLE), SCRIPT))

    conversation = Conversation()
    for side, message in client.talk:
        conversation.says(side, message)
    assert [update["sessionUpdate"] for update in client.updates()] == [
        "notice",
        "usage_update",
        "compaction_update",
        *["compaction_summary_chunk"] * 2,
        "usage_update",
        "compaction_update",
        *("tool_call", "tool_call_update"),
        *("subagent_update", "agent_message_chunk", "subagent_update"),
    ]
    (call,) = client.updates("tool_call")
    assert (call["name"], call["title"]) == ("bash", "List files")


def test_a_client_without_the_capabilities_is_told_nothing() -> None:
    client = Client()
    script = "notice info a\ncompact 5 b\nsubagent c idle\nsubagent-ask c bash"
    client.finish(client.prompt(client.open(), script))

    kinds = {update["sessionUpdate"] for update in client.updates()}
    assert kinds == {"agent_message_chunk"}
    assert client.text.count("the client shows no") == 4


def test_notices_are_not_replayed() -> None:
    client = Client("--load")
    session = client.open(ABLE)
    client.finish(client.prompt(session, "notice info hello\nsay done"))
    client.request("session/load", sessionId=session, cwd="/project", mcpServers=[])

    assert len(client.updates("notice")) == 1
    assert len(client.updates("agent_message_chunk")) == 2


@pytest.mark.parametrize(
    "script",
    [
        *("notice", "notice loud hello", "notice info", "compact x y", "compact 5", "window 5"),
        *("named-tool bash", "subagent a", "subagent a asleep", "subagent-ask a"),
    ],
)
def test_an_incomplete_step_fails_the_turn(script: str) -> None:
    client = Client()
    asked = client.prompt(client.open(ABLE), script)

    (answer,) = client.answers_to(asked)
    assert "error" in answer
