"""The script in a prompt, without a server."""

from __future__ import annotations

import pytest

from tests.support.stand_in_model.conversation import Conversation, Returned, Said, Tool, ToolCall
from tests.support.stand_in_model.script import Call, Round, Say, answer, parse, rounds


def asked(*items: Said | Returned, tools: tuple[str, ...] = ()) -> Conversation:
    return Conversation(tuple(map(Tool, tools)), items)


def test_lines_that_are_no_steps_are_ignored() -> None:
    text = "<reminder>\nsaying it\n  say hello\ncall me later\ncall spawn {not json}\n</reminder>"

    assert parse(text) == [Say("hello")]


def test_a_call_may_have_no_arguments() -> None:
    assert parse("call agents") == [Call("agents", {})]


def test_a_nested_script_is_one_argument() -> None:
    assert parse(r'call spawn {"text": "call read {}\nsay hi"}') == [
        Call("spawn", {"text": "call read {}\nsay hi"})
    ]


def test_an_answer_ends_with_a_call() -> None:
    first, second = Call("one", {}), Call("two", {})

    assert rounds([Say("a"), first, second, Say("b"), Say("c")]) == [
        Round(("a",), first),
        Round((), second),
        Round(("b", "c"), None),
    ]


def test_a_text_of_the_agent_after_the_prompt_changes_nothing() -> None:
    reply = answer(asked(Said("say hello"), Said("<environment>linux</environment>")))

    assert reply.text == "hello"


def test_a_prompt_without_steps_is_answered() -> None:
    assert answer(asked(Said("what is it?"))).text == "done"


@pytest.mark.parametrize(
    ("wanted", "offered"),
    [
        ("spawn", "mcp__understudy__spawn"),
        ("spawn", "understudy_spawn"),
        ("spawn", "spawn"),
        ("understudy.spawn", "mcp__understudy__spawn"),
        ("understudy.spawn", "understudy_spawn"),
    ],
)
def test_a_tool_is_found_by_the_end_of_its_name(wanted: str, offered: str) -> None:
    tools = ("respawn", "other_spawner", "mcp__understudy__respawn", offered)

    reply = answer(asked(Said(f"call {wanted} {{}}"), tools=tools))

    assert reply.call is not None
    assert reply.call.tool.name == offered


def test_the_server_distinguishes_tools_of_one_name() -> None:
    tools = ("read", "understudy_read")

    plain = answer(asked(Said("call read"), tools=tools))
    qualified = answer(asked(Said("call understudy.read"), tools=tools))

    assert plain.call == ToolCall(Tool("read"), {})
    assert qualified.call == ToolCall(Tool("understudy_read"), {})


def test_a_missing_tool_is_reported_with_the_offered_ones() -> None:
    reply = answer(asked(Said("call spawn"), tools=("write", "read")))

    assert reply.call is None
    assert reply.text == "no tool ends with spawn; offered: read, write"
