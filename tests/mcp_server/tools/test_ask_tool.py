"""`ask`: a question to people, waited for in several calls; and its end."""

from __future__ import annotations

import pytest
import trio

from actors.testing import settle
from supervisor import Permissions, Session, Supervisor
from supervisor.core.permissions import MODES
from supervisor.mcp_server.session_tools import SessionTools
from tests.support.fake_agents import AgentRun, FakeAgent, records
from tests.support.permission_requests import only_request
from tests.support.tool_calls import CallingSession


async def test_a_question_is_answered_by_a_person(
    sup: Supervisor, session: Session, parent: CallingSession
) -> None:
    async with trio.open_nursery() as nursery:

        async def answer() -> None:
            await settle()
            request = await only_request(sup)
            assert (request.asks, request.choices) == ("question", ("this", "that"))
            assert (await session.info()).badge == "waiting-for-you"
            await trio.sleep(7)
            await sup.answer_question(request.id, "neither")

        nursery.start_soon(answer)
        began = trio.current_time()
        answered = await parent.call("ask", question="which one?", options=["this", "that"])

    assert (answered["state"], answered["text"], answered["by"]) == (
        "answered",
        "neither",
        "person",
    )
    assert trio.current_time() - began == 7


async def test_it_returns_in_time_and_the_same_question_goes_on(
    sup: Supervisor, parent: CallingSession
) -> None:
    began = trio.current_time()
    first = await parent.call("ask", question="which?", seconds=50)
    assert (first["state"], trio.current_time() - began) == ("waiting", 50)

    again = await parent.call("ask", question="which?", seconds=0)
    by_id = await parent.call("ask", request=first["request"], seconds=1)
    assert first["request"] == again["request"] == by_id["request"]
    assert len(await sup.permissions()) == 1
    assert (await parent.refusal("ask", question="x", seconds=51))["code"] == "config_error"


async def test_an_answer_between_two_calls_is_not_lost(
    sup: Supervisor, parent: CallingSession
) -> None:
    first = await parent.call("ask", question="which?", seconds=1)
    await sup.answer_question(first["request"], "that")

    assert (await parent.call("ask", question="which?"))["text"] == "that"
    # It was read: now the same question is another one. By its id, it can be read again.
    assert (await parent.call("ask", request=first["request"]))["text"] == "that"
    another = await parent.call("ask", question="which?", seconds=0)
    assert (another["state"], another["request"] != first["request"]) == ("waiting", True)


async def test_an_interrupted_turn_cancels_its_question(
    session: Session, parent: CallingSession, run: AgentRun, sup: Supervisor
) -> None:
    asked = await parent.call("ask", question="which?", seconds=0)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(session.interrupt)
        ended = await parent.call("ask", request=asked["request"])

    assert (ended["state"], ended["by"]) == ("cancelled", "turn")
    assert await sup.permissions() == ()
    assert (await parent.refusal("ask", question="which?"))["code"] == "not_running"


async def test_a_request_of_another_session_is_as_unknown_as_one_that_never_was(
    sup: Supervisor, tools: SessionTools, parent: CallingSession, fake_agent: FakeAgent
) -> None:
    other = await sup.create("fake")
    await other.send("work")
    await fake_agent.next_run()
    theirs = await CallingSession(tools, other.id).call("ask", question="which?", seconds=0)

    answers = []
    for one in (theirs["request"], "req_000000000000", "x"):
        refused = await parent.refusal("ask", request=one)
        answers.append({**refused, "detail": refused["detail"].replace(repr(one), "X")})
    await sup.answer_question(theirs["request"], "yes")
    refused = await parent.refusal("ask", request=theirs["request"])
    answers.append({**refused, "detail": refused["detail"].replace(repr(theirs["request"]), "X")})

    assert answers == [answers[0]] * 4
    assert answers[0]["code"] == "permission_not_found"


async def test_neither_mode_nor_right_nor_rule_decides_a_question(
    sup: Supervisor, tools: SessionTools, fake_agent: FakeAgent
) -> None:
    for mode in MODES:
        one = await sup.create("fake", permissions=Permissions(mode=mode, tools=[]))
        await one.send("work")
        await fake_agent.next_run()
        asked = await CallingSession(tools, one.id).call("ask", question="which?", seconds=1)
        assert asked["state"] == "waiting"


@pytest.mark.parametrize("given", [{}, {"question": " "}, {"question": "x", "options": ["x"] * 21}])
async def test_a_question_without_content_is_refused(
    parent: CallingSession, given: dict[str, object]
) -> None:
    assert (await parent.refusal("ask", **given))["code"] in ("config_error", "input_refused")


async def test_questions_are_on_record_with_their_calls(
    sup: Supervisor, session: Session, parent: CallingSession
) -> None:
    asked = await parent.call("ask", question="which?", seconds=0)
    await sup.answer_question(asked["request"], "that")

    (answered,) = await records(session, "permission_answered")
    assert (answered.body["decision"], answered.body["text"]) == ("answered", "that")
    assert [one.body["tool"] for one in await records(session, "mcp_call")] == ["ask"]
