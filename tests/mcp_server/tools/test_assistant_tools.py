"""The tools of a person's assistant: every session; and which tools each scope has."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import pytest
import trio

from supervisor import Session, Settings, Supervisor
from supervisor.mcp_server.caller import Caller, ToolScope
from supervisor.mcp_server.session_tools import SessionTools
from supervisor.mcp_server.tool_list import ASSISTANT_TOOLS, TOOLS
from tests.support.fake_agents import AgentRun, FakeAgent, records
from tests.support.permission_requests import ask
from tests.support.tool_calls import check_answer

READING: Final = {"agents", "wait", "read", "tree", "why", "search"}
CHANGING: Final = {"spawn", "send", "interrupt", "stop", "ask"}
ANSWERING: Final = {"inbox", "answer"}
OF_ASSISTANTS: Final = {
    *("agents", "list", "create", "spawn", "send", "wait", "read", "interrupt", "stop", "tree"),
    *("why", "search", "inbox", "answer", "resume", "fork", "clear", "archive", "inputs"),
    *("edit_input", "cancel_input", "set_limits", "export"),
}


class Assistant:
    """A person's assistant that calls tools; each answer is checked."""

    def __init__(self, tools: SessionTools) -> None:
        self.tools = tools
        self.caller = Caller(name="anna", scope="all")

    async def call(self, name: str, /, **arguments: Any) -> Mapping[str, Any]:  # noqa: ANN401
        await trio.sleep(0.05)
        answer = await self.tools.call(name, arguments, self.caller)
        check_answer(self.tools, self.caller, name, answer)
        assert not answer.is_error, answer.text
        return answer.structured

    async def refusal(self, name: str, /, **arguments: Any) -> Mapping[str, Any]:  # noqa: ANN401
        await trio.sleep(0.05)
        answer = await self.tools.call(name, arguments, self.caller)
        check_answer(self.tools, self.caller, name, answer)
        assert answer.is_error, answer.text
        return answer.structured


@pytest.fixture
def assistant(tools: SessionTools) -> Assistant:
    return Assistant(tools)


# Which tools --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("scope", "is_answering", "offered"),
    [
        ("self", True, READING | CHANGING | ANSWERING),
        ("self", False, READING | CHANGING),
        ("self,look", True, READING | {"inbox"}),
        ("self,look", False, READING),
        ("all", False, OF_ASSISTANTS),
    ],
)
async def test_each_scope_has_exactly_its_tools(
    sup: Supervisor,
    tools: SessionTools,
    fake_agent: FakeAgent,
    *,
    scope: ToolScope,
    is_answering: bool,
    offered: set[str],
) -> None:
    session = await sup.create("fake", answers_for_children=is_answering)
    await session.send("work")
    await fake_agent.next_run()
    caller = Caller(name="x", scope=scope, session_id=None if scope == "all" else session.id)

    assert {one.name for one in tools.tools_for(caller)} == offered
    everything = {tool.name for tool in (*TOOLS, *ASSISTANT_TOOLS)} | {"delete", "configure"}
    for name in everything - offered:
        with pytest.raises(KeyError):
            await tools.call(name, {}, caller)
    for name in offered:
        await trio.sleep(0.05)
        refused = await tools.call(name, {"nonsense": 1}, caller)
        assert refused.structured["code"] == "config_error"


async def test_a_session_with_the_scope_all_and_a_person_without_it_get_nothing(
    tools: SessionTools, session: Session
) -> None:
    for caller in (
        Caller(name="x", scope="all", session_id=session.id),
        Caller(name="x", scope="self"),
    ):
        with pytest.raises(KeyError):
            await tools.call("agents", {}, caller)


def test_nothing_offered_deletes_widens_or_configures() -> None:
    names = {tool.name for tool in (*TOOLS, *ASSISTANT_TOOLS)}
    assert not {name for name in names if "delete" in name or "config" in name or "rule" in name}
    for tool in ASSISTANT_TOOLS:
        # A child's permissions lie within those of its parent; no other tool takes any.
        properties = tool.describe(Settings()).input_schema["properties"]
        assert ("permissions" in properties) == (tool.name == "spawn")
        assert not {"answers_for_children", "mode"} & properties.keys()


# What they do ---------------------------------------------------------------------------------


async def test_a_relative_workspace_is_refused_and_makes_no_session(assistant: Assistant) -> None:
    refused = await assistant.refusal("create", agent="echo", workspace="../rel")

    assert (refused["code"], refused["retry"]) == ("config_error", "never")
    assert (await assistant.call("list"))["sessions"] == []


async def test_a_session_lives_its_life_through_the_tools(
    sup: Supervisor, assistant: Assistant
) -> None:
    assert "echo" in [one["name"] for one in (await assistant.call("agents"))["agents"]]
    made = await assistant.call("create", agent="echo", text="hello", name="bob")
    news = await assistant.call("wait", sessions=["bob"])
    assert (news["reason"], news["sessions"][0]["text"]) == ("news", "hello")
    sent = await assistant.call("send", session="bob", text="and again")
    assert sent["session"] == made["session"]
    await assistant.call("wait", sessions=["bob"], after=news["cursor"])
    assert "again" in (await assistant.call("read", session="bob", what="transcript"))["text"]
    assert "again" in (await assistant.call("export", session="bob"))["text"]
    part = await assistant.call("export", session="bob", format="jsonl", max_chars=10)
    assert (len(part["text"]), part["next"]) == (10, 10)

    forked = await assistant.call("fork", session="bob")
    listed = (await assistant.call("list"))["sessions"]
    assert [one["session"] for one in listed] == [made["session"], forked["session"]]
    found = (await assistant.call("search", text="again"))["messages"]
    assert made["session"] in {one["session"] for one in found}
    child = await assistant.call("spawn", parent="bob", agent="echo", text="x", name="kid")
    tree = (await assistant.call("tree", session="bob"))["sessions"]
    assert [one["session"] for one in tree] == [made["session"], child["session"]]

    changed = await assistant.call("set_limits", session="bob", tokens=500)
    assert (changed["limits"]["tokens"], changed["limits"]["max_depth"]) == (500, 3)
    assert (await assistant.call("stop", session="bob"))["is_stopped"]
    assert (await assistant.call("archive", session="bob"))["is_archived"]
    assert not (await assistant.call("archive", session="bob", undo=True))["is_archived"]
    assert (await assistant.call("resume", session="bob"))["badge"] != "stopped"
    assert (await assistant.call("clear", session="bob"))["session"] == made["session"]
    transcript = await assistant.call("read", session="bob", what="transcript")
    assert transcript["text"] == ""


async def test_the_queue_of_any_session_is_edited(
    assistant: Assistant, session: Session, run: AgentRun
) -> None:
    first = await assistant.call("send", session=session.id, text="one")
    second = await assistant.call("send", session=session.id, text="two")

    edited = await assistant.call("edit_input", session=session.id, input=first["input"], text="1")
    assert [one["text"] for one in edited["inputs"]] == ["1", "two"]
    await assistant.call("cancel_input", session=session.id, input=second["input"])
    left = (await assistant.call("inputs", session=session.id))["inputs"]
    assert [one["input"] for one in left] == [first["input"]]
    assert (await assistant.call("why", session=session.id))["chain"]
    ended = await assistant.call("interrupt", session=session.id, replace_with="instead")
    assert ended["matched"] == 1


async def test_an_answer_of_an_assistant_is_that_of_a_person(
    assistant: Assistant, session: Session, run: AgentRun
) -> None:
    action = await ask(run, "bash")

    (request,) = (await assistant.call("inbox"))["requests"]
    await assistant.call("answer", request=request["request"], decision="allow_once")

    assert await action.wait() is True
    (answered,) = await records(session, "permission_answered")
    assert answered.body["by"] == "person"


async def test_what_it_changes_is_on_record_and_what_it_reads_is_not(
    assistant: Assistant, session: Session, run: AgentRun
) -> None:
    await assistant.call("read", session=session.id)
    await assistant.call("send", session=session.id, text="more")

    calls = [one.body for one in await records(session, "mcp_call")]
    assert [(one["caller"], one["tool"], one["target"]) for one in calls] == [
        ("anna", "send", session.id)
    ]


@pytest.mark.parametrize(
    ("name", "given"),
    [("tree", {}), ("why", {}), ("wait", {}), ("set_limits", {"session": "NAME"})],
)
async def test_a_call_that_names_too_little_is_refused(
    assistant: Assistant, session: Session, name: str, given: dict[str, Any]
) -> None:
    given = dict.fromkeys(given, session.id)

    assert (await assistant.refusal(name, **given))["code"] == "config_error"


async def test_an_unknown_session_is_not_found(assistant: Assistant) -> None:
    for one in ("nobody", "s_000000000000"):
        refused = await assistant.refusal("read", session=one)
        assert refused["code"] == "session_not_found"
