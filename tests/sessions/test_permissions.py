"""Permissions and questions: the inbox, answers, rules, and modes that answer by themselves."""

from __future__ import annotations

import pytest
import trio

from actors.testing import settle
from supervisor import (
    InvalidDecision,
    PermissionConflict,
    PermissionNotFound,
    PermissionRequest,
    Session,
    Supervisor,
    SupervisorError,
    ToolCall,
)
from supervisor.core.state import Decision
from tests.support.fake_agents import AgentRun, FakeAgent, records
from tests.support.permission_requests import ask, begin_turn, only_request

# The inbox ------------------------------------------------------------------------------


async def test_a_request_is_listed_in_the_inbox_with_all_fields(
    sup: Supervisor, session: Session, run: AgentRun
) -> None:
    await trio.sleep(7)
    action = await ask(run, "bash", input={"cmd": "rm -r ."})

    (asked,) = await records(session, "permission_asked")
    assert await only_request(sup) == PermissionRequest(
        id=asked.body["request_id"],
        session_id=session.id,
        turn_id=run.turn.id,
        tool="bash",
        question="may I use bash?",
        input={"cmd": "rm -r ."},
        options=("allow_once", "allow_always", "reject_once", "reject_always"),
        asked_at=asked.at,
    )
    assert not action.done.is_set()


async def test_the_inbox_lists_requests_of_all_sessions_oldest_first(
    sup: Supervisor, fake_agent: FakeAgent
) -> None:
    sessions = [await sup.create("fake") for _ in range(3)]
    runs = [await begin_turn(session, fake_agent) for session in sessions]
    for place in (2, 0, 1):
        await ask(runs[place])
        await trio.sleep(1)

    waiting = await sup.permissions()

    assert [request.session_id for request in waiting] == [
        sessions[place].id for place in (2, 0, 1)
    ]


async def test_info_of_a_session_with_a_request_waits_for_a_person(
    sup: Supervisor, session: Session, run: AgentRun
) -> None:
    assert (await session.info()).badge == "running"
    action = await ask(run)
    assert (await session.info()).badge == "waiting-for-you"

    await sup.answer((await only_request(sup)).id, "allow_once")
    await action.wait()

    assert (await session.info()).badge == "running"


@pytest.mark.parametrize(
    ("decision", "allowed"),
    [
        ("allow_once", True),
        ("allow_always", True),
        ("reject_once", False),
        ("reject_always", False),
    ],
)
async def test_the_agent_gets_the_answer(
    sup: Supervisor, session: Session, run: AgentRun, decision: Decision, *, allowed: bool
) -> None:
    action = await ask(run)
    request = await only_request(sup)

    await sup.answer(request.id, decision)

    (answered,) = await records(session, "permission_answered")
    assert await action.wait() is allowed
    assert await sup.permissions() == ()
    assert answered.body["request_id"] == request.id
    assert answered.body["decision"] == decision
    assert answered.body["by"] == "person"


async def test_two_requests_of_a_turn_get_separate_answers(sup: Supervisor, run: AgentRun) -> None:
    bash, grep = await ask(run, "bash"), await ask(run, "grep")
    ids = {request.tool: request.id for request in await sup.permissions()}

    await sup.answer(ids["grep"], "allow_once")
    await settle()
    assert not bash.done.is_set()
    await sup.answer(ids["bash"], "reject_once")

    assert await grep.wait() is True
    assert await bash.wait() is False


async def test_an_allow_once_answer_makes_no_rule(
    sup: Supervisor, session: Session, run: AgentRun
) -> None:
    first = await ask(run)
    await sup.answer((await only_request(sup)).id, "allow_once")
    assert await first.wait()

    second = await ask(run)

    assert not second.done.is_set()
    assert await session.rules() == []


# Answers that cannot be meant -----------------------------------------------------------


async def test_answering_twice_is_a_conflict_and_the_first_counts(
    sup: Supervisor, session: Session, run: AgentRun
) -> None:
    action = await ask(run)
    request = await only_request(sup)
    await sup.answer(request.id, "reject_once")

    with pytest.raises(PermissionConflict, match="reject_once"):
        await sup.answer(request.id, "allow_once")

    assert await action.wait() is False
    assert len(await records(session, "permission_answered")) == 1


async def test_exactly_one_of_many_concurrent_answers_counts(
    sup: Supervisor, session: Session, run: AgentRun, nursery: trio.Nursery
) -> None:
    errors: list[SupervisorError] = []

    async def answer(decision: Decision) -> None:
        try:
            await sup.answer(request.id, decision)
        except SupervisorError as error:
            errors.append(error)

    action = await ask(run)
    request = await only_request(sup)
    for number in range(10):
        nursery.start_soon(answer, "allow_once" if number % 2 else "reject_once")
    await settle()

    (answered,) = await records(session, "permission_answered")
    assert await action.wait() is (answered.body["decision"] == "allow_once")
    assert [type(error) for error in errors] == [PermissionConflict] * 9


async def test_an_unknown_request_is_not_found(sup: Supervisor, run: AgentRun) -> None:
    await ask(run)

    with pytest.raises(PermissionNotFound) as refusal:
        await sup.answer("req_nobody", "allow_once")

    assert refusal.value.hint
    assert len(await sup.permissions()) == 1


@pytest.mark.parametrize("decision", ["maybe", "allow", "cancelled", ""])
async def test_a_decision_that_is_not_offered_is_refused(
    sup: Supervisor, session: Session, run: AgentRun, decision: Decision
) -> None:
    action = await ask(run)
    request = await only_request(sup)
    before = await records(session)

    with pytest.raises(InvalidDecision) as refusal:
        await sup.answer(request.id, decision)

    assert "allow_once" in refusal.value.hint
    assert not action.done.is_set()
    assert await records(session) == before


# No answer ------------------------------------------------------------------------------


async def test_without_a_time_limit_a_request_waits_for_its_answer(
    sup: Supervisor, session: Session, run: AgentRun
) -> None:
    action = await ask(run)

    await trio.sleep(30 * 24 * 3600)

    request = await only_request(sup)
    assert (request.expires_at, action.done.is_set()) == (None, False)
    (item,) = (await session.info()).attention
    assert (item.kind, item.detail) == ("permission", "bash: may I use bash?")
    assert (await session.info()).badge == "waiting-for-you"


async def test_after_its_time_a_request_is_rejected_once(
    sup: Supervisor, fake_agent: FakeAgent
) -> None:
    session = await sup.create("fake", permission_timeout_seconds=300)
    action = await ask(await begin_turn(session, fake_agent))
    request = await only_request(sup)
    assert request.expires_at == pytest.approx(request.asked_at + 300)

    assert await action.wait() is False

    (answered,) = await records(session, "permission_answered")
    assert trio.current_time() == pytest.approx(300)
    assert (answered.body["decision"], answered.body["by"]) == ("reject_once", "timeout")
    assert await sup.permissions() == ()
    assert await session.rules() == []
    (item,) = (await session.info()).attention
    assert (item.kind, item.seq) == ("permission_timeout", answered.seq)


async def test_each_request_has_its_own_time(sup: Supervisor, fake_agent: FakeAgent) -> None:
    session = await sup.create("fake", permission_timeout_seconds=10)
    run = await begin_turn(session, fake_agent)
    first = await ask(run, "bash")
    await trio.sleep(6)
    second = await ask(run, "grep")

    await first.wait()
    assert trio.current_time() == pytest.approx(10)
    assert not second.done.is_set()
    await second.wait()
    assert trio.current_time() == pytest.approx(16)


async def test_an_answered_request_does_not_time_out(
    sup: Supervisor, session: Session, run: AgentRun
) -> None:
    action = await ask(run)
    await sup.answer((await only_request(sup)).id, "allow_once")

    await trio.sleep(600)

    assert await action.wait() is True
    assert len(await records(session, "permission_answered")) == 1


async def test_a_timed_out_request_cannot_be_answered(
    sup: Supervisor, fake_agent: FakeAgent
) -> None:
    session = await sup.create("fake", permission_timeout_seconds=300)
    action = await ask(await begin_turn(session, fake_agent))
    request = await only_request(sup)
    await action.wait()

    with pytest.raises(PermissionConflict):
        await sup.answer(request.id, "allow_once")


async def test_an_interrupted_turn_cancels_its_requests(
    sup: Supervisor, session: Session, run: AgentRun
) -> None:
    await ask(run)
    request = await only_request(sup)

    await session.interrupt()

    (answered,) = await records(session, "permission_answered")
    assert answered.body["decision"] == "cancelled"
    assert await sup.permissions() == ()
    with pytest.raises((PermissionConflict, PermissionNotFound)):
        await sup.answer(request.id, "allow_once")


async def test_an_interrupt_cancels_requests_before_the_agent_reacts(
    sup: Supervisor, shielded_agent: FakeAgent, nursery: trio.Nursery
) -> None:
    session = await sup.create("shielded")
    run = await begin_turn(session, shielded_agent)
    before = await ask(run)
    nursery.start_soon(session.interrupt)
    await settle()

    during = await ask(run)

    assert await sup.permissions() == ()
    assert await before.wait() is False
    assert await during.wait() is False
    assert trio.current_time() == 0


async def test_a_turn_that_ends_cancels_its_open_requests(
    sup: Supervisor, session: Session, run: AgentRun
) -> None:
    await ask(run)

    run.finish()
    await settle()

    assert await sup.permissions() == ()
    kinds = [r.kind for r in await records(session, "permission_answered", "turn_ended")]
    assert kinds == ["permission_answered", "turn_ended"]


async def test_a_stopped_session_has_no_requests(sup: Supervisor, session: Session) -> None:
    scripted = await sup.create("scripted")
    await scripted.send("ask bash")
    await settle()
    assert len(await sup.permissions()) == 1

    await scripted.stop()

    assert await sup.permissions() == ()
    assert (await session.info()).phase == "idle"


async def test_a_cancelled_tool_call_keeps_the_requests_of_other_calls(
    sup: Supervisor, session: Session, run: AgentRun
) -> None:
    call = await run.open_call("grep")
    action = await ask(run)

    await session.interrupt(ToolCall(call.id))

    await sup.answer((await only_request(sup)).id, "allow_once")
    assert await action.wait() is True
