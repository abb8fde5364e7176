"""`inbox` and `answer`: requests of the sessions below, with the right and within the rights."""

from __future__ import annotations

import pytest

from supervisor import Permissions, Session, Supervisor
from supervisor.mcp_server.session_tools import SessionTools
from tests.support.fake_agents import AgentRun, FakeAgent
from tests.support.permission_requests import ask
from tests.support.tool_calls import CallingSession


@pytest.fixture
async def child_run(session: Session, run: AgentRun, child_agent: FakeAgent) -> AgentRun:
    await session.spawn("child-agent", "work", name="tom")
    return await child_agent.next_run()


async def test_a_parent_answers_questions_and_rejects_what_it_may_not_allow(
    sup: Supervisor, tools: SessionTools, parent: CallingSession, child_run: AgentRun
) -> None:
    action = await ask(child_run, "bash", input={"command": "rm x"})
    child = CallingSession(tools, child_run.turn.session_id)
    asked = await child.call("ask", question="which?", options=["this"], seconds=0)

    permission, question = (await parent.call("inbox"))["requests"]
    assert (permission["asks"], permission["tool"]) == ("permission", "bash")
    assert permission["input"] == '{"command": "rm x"}'
    assert (question["asks"], question["options"]) == ("question", ["this"])

    allowed = {"request": permission["request"], "decision": "allow_once"}
    assert (await parent.refusal("answer", **allowed))["code"] == "permission_denied"
    wrong = {"request": permission["request"], "decision": "perhaps"}
    assert (await parent.refusal("answer", **wrong))["code"] == "invalid_decision"
    await parent.call("answer", request=permission["request"], decision="reject_once")
    await parent.call("answer", request=question["request"], decision="this")

    assert await action.wait() is False
    answered = await child.call("ask", request=asked["request"])
    assert (answered["text"], answered["by"]) == ("this", "parent")
    assert (await parent.call("inbox"))["requests"] == []


async def test_a_parent_allows_what_it_may_do_itself(
    sup: Supervisor, tools: SessionTools, fake_agent: FakeAgent, child_agent: FakeAgent
) -> None:
    session = await sup.create(
        "fake", answers_for_children=True, permissions=Permissions(mode="approve_all")
    )
    await session.send("lead")
    await fake_agent.next_run()
    await session.spawn("child-agent", "work", permissions=Permissions(mode="approve_reads"))
    action = await ask(await child_agent.next_run(), "bash")
    parent = CallingSession(tools, session.id)

    (request,) = (await parent.call("inbox"))["requests"]
    await parent.call("answer", request=request["request"], decision="allow_once")

    assert await action.wait() is True


async def test_requests_outside_are_as_unknown_as_those_that_never_were(
    sup: Supervisor, parent: CallingSession, fake_agent: FakeAgent
) -> None:
    other = await sup.create("fake")
    await other.send("work")
    await ask(await fake_agent.next_run(), "bash")
    (theirs,) = await sup.permissions()

    assert (await parent.call("inbox"))["requests"] == []
    refusals = []
    for one in (theirs.id, "req_000000000000"):
        refused = await parent.refusal("answer", request=one, decision="reject_once")
        refusals.append({**refused, "detail": refused["detail"].replace(repr(one), "X")})
    await sup.answer(theirs.id, "reject_once")
    refused = await parent.refusal("answer", request=theirs.id, decision="reject_once")
    refusals.append({**refused, "detail": refused["detail"].replace(repr(theirs.id), "X")})
    assert refusals == [refusals[0]] * 3


async def test_a_session_without_the_right_has_neither_tool(
    sup: Supervisor, tools: SessionTools, fake_agent: FakeAgent
) -> None:
    session = await sup.create("fake")
    await session.send("lead")
    await fake_agent.next_run()
    caller = CallingSession(tools, session.id)

    assert not {"inbox", "answer"} & {one.name for one in tools.tools_for(caller.caller)}
    for name in ("inbox", "answer"):
        with pytest.raises(KeyError):
            await tools.call(name, {}, caller.caller)
