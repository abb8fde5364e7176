"""What a caller may not reach: a session outside and one that does not exist are the same."""

from __future__ import annotations

from typing import Any, Final

import pytest
import trio

from supervisor import Session, Supervisor
from supervisor.mcp_server.session_tools import SessionTools
from supervisor.mcp_server.tool_list import TOOLS
from tests.support.fake_agents import AgentRun, FakeAgent, records
from tests.support.tool_calls import CallingSession

# The arguments with which each tool names a session.
NAMING: Final[dict[str, dict[str, Any]]] = {
    "send": {"text": "x"},
    "wait": {},
    "read": {},
    "interrupt": {},
    "stop": {},
    "tree": {},
    "why": {},
    "search": {"text": "x"},
}
WITHOUT_SESSION: Final = {"agents", "spawn", "ask", "inbox", "answer"}
FOREIGN: Final = 1_000
# A call takes this long: the rate of a caller.
CALL_SECONDS: Final = 0.05


def naming(tool: str, session: str) -> dict[str, Any]:
    named = {"sessions": [session]} if tool == "wait" else {"session": session}
    return {**NAMING[tool], **named}


@pytest.fixture
async def child(
    sup: Supervisor, session: Session, fake_agent: FakeAgent, tools: SessionTools
) -> CallingSession:
    """Return a child in its turn as a caller; its parent is idle."""
    made = await session.spawn("fake", "work")
    await fake_agent.next_run()
    return CallingSession(tools, made.id)


def test_each_tool_is_called_here() -> None:
    assert {*NAMING, *WITHOUT_SESSION} == {tool.name for tool in TOOLS}


async def shape_of_refusal(caller: CallingSession, tool: str, named: str) -> dict[str, Any]:
    """Return the refusal, with the text that the caller gave taken out."""
    await trio.sleep(CALL_SECONDS)
    refused = await caller.refusal(tool, **naming(tool, named))
    return {
        name: value.replace(repr(named), "X") if isinstance(value, str) else value
        for name, value in refused.items()
    }


@pytest.mark.parametrize("tool", NAMING)
async def test_sessions_outside_are_as_unknown_as_those_that_do_not_exist(
    sup: Supervisor, child: CallingSession, session: Session, tool: str
) -> None:
    sibling = await session.spawn("echo", "x", name="sibling", role="aunt")
    niece = await sibling.spawn("echo", "x")
    stranger = await sup.create("echo", name="stranger")
    gone = await sup.create("echo")
    await sup.delete(gone.id)
    stopped = await sup.create("echo")
    await stopped.stop()
    outside = [one.id for one in (session, sibling, niece, stranger, gone, stopped)]
    texts = [*outside, "sibling", "aunt", "stranger", "s_000000000000", "nobody", "../x", "S_1"]

    shapes = [await shape_of_refusal(child, tool, text) for text in texts]

    assert shapes == [
        {
            "code": "session_not_found",
            "detail": "you have no session X",
            "hint": shapes[0]["hint"],
            "retry": "never",
        }
    ] * len(texts)


async def test_a_child_learns_nothing_of_a_thousand_foreign_sessions(
    sup: Supervisor, child: CallingSession, run: AgentRun
) -> None:
    foreign = [await sup.create("echo") for _ in range(FOREIGN)]
    before = await sup.stats()

    answers = {
        str(await shape_of_refusal(child, tool, one.id)) for one in foreign for tool in NAMING
    }

    assert len(answers) == 1
    after = await sup.stats()
    assert (after.phases, after.turns) == (before.phases, before.turns)


@pytest.mark.parametrize("tool", sorted(NAMING))
async def test_other_arguments_are_checked_before_the_session_is_looked_for(
    sup: Supervisor, child: CallingSession, tool: str
) -> None:
    stranger = await sup.create("echo")

    answers = [
        await child.refusal(tool, **naming(tool, named), nonsense=1)
        for named in (stranger.id, "s_000000000000")
    ]

    assert answers[0] == answers[1]
    assert answers[0]["code"] == "config_error"


async def test_a_grandchild_is_reached_and_a_stopped_one_too(
    sup: Supervisor, tools: SessionTools, session: Session
) -> None:
    child = await session.spawn("echo", "x")
    below = await child.spawn("echo", "y", name="deep")
    await below.wait()
    await below.stop()

    answer = await CallingSession(tools, session.id).call("read", session="deep")

    assert (answer["session"], answer["text"]) == (below.id, "y")


async def test_a_foreign_session_is_not_on_record_as_the_target(
    sup: Supervisor, child: CallingSession
) -> None:
    stranger = await sup.create("echo")
    await child.refusal("stop", session=stranger.id)

    (call,) = await records(sup.session(child.id), "mcp_call")
    assert (call.body["outcome"], call.body["target"]) == ("session_not_found", None)
    assert await records(stranger, "mcp_call") == []
