"""Parents that answer what their children ask, and never allow more than they may themselves."""

from __future__ import annotations

import pytest
import trio

from actors.testing import settle
from supervisor import (
    InvalidDecision,
    PermissionConflict,
    PermissionDenied,
    PermissionNotFound,
    Permissions,
    Session,
    Supervisor,
    TurnOver,
)
from supervisor.core.state import Decision
from supervisor.drivers.port import ChildRequest
from tests.support.fake_agents import AgentAction, AgentRun, FakeAgent, records
from tests.support.session_states import phase_of
from tests.support.tree_queries import NARROW, ask, begin, check_tree_counts, refusal


@pytest.fixture
async def guardian(sup: Supervisor) -> Session:
    """May answer for those below it, and may do everything itself."""
    rights = Permissions(mode="approve_all")
    return await sup.create("fake", permissions=rights, answers_for_children=True)


@pytest.fixture
async def judge(guardian: Session, fake_agent: FakeAgent) -> AgentRun:
    return await begin(guardian, fake_agent)


@pytest.fixture
async def asked(judge: AgentRun, child_agent: FakeAgent) -> tuple[AgentAction[bool], ChildRequest]:
    """A child of the guardian asks for bash: the question, and what the guardian sees of it."""
    child = judge.turn.spawn(
        "child-agent", "x", permissions=NARROW, permission_timeout_seconds=300.0
    )
    await judge.do(child)
    action = await ask(await child_agent.next_run())
    (request,) = judge.turn.requests()
    return action, request


Asked = tuple[AgentAction[bool], ChildRequest]


async def test_a_parent_sees_the_requests_of_its_child(sup: Supervisor, asked: Asked) -> None:
    _, request = asked
    (same,) = await sup.permissions()  # people may answer it as well

    assert (request.id, request.session_id, request.tool) == (same.id, same.session_id, "bash")
    assert (request.question, request.options) == ("may I use bash?", same.options)


@pytest.mark.parametrize(
    ("decision", "allowed"),
    [
        ("allow_once", True),
        ("allow_always", True),
        ("reject_once", False),
        ("reject_always", False),
    ],
)
async def test_a_parent_decides(
    sup: Supervisor, judge: AgentRun, asked: Asked, decision: Decision, *, allowed: bool
) -> None:
    action, request = asked
    await judge.do(judge.turn.answer_request(request.id, decision))

    assert await action.wait() is allowed
    assert judge.turn.requests() == []
    child = sup.session(request.session_id)
    (answered,) = await records(child, "permission_answered")
    assert (answered.body["decision"], answered.body["by"]) == (decision, "parent")
    assert len(await child.rules()) == decision.endswith("always")


async def test_a_parent_decides_for_its_grandchildren(
    sup: Supervisor, judge: AgentRun, child_agent: FakeAgent
) -> None:
    child = await judge.do(judge.turn.spawn("child-agent", "x", permissions=NARROW))
    await child_agent.next_run()
    await sup.session(child.id).spawn("child-agent", "y")
    action = await ask(await child_agent.next_run())
    (request,) = judge.turn.requests()
    await judge.do(judge.turn.answer_request(request.id, "allow_once"))

    assert await action.wait() is True


async def test_a_parent_without_that_right_sees_nothing(
    sup: Supervisor, run: AgentRun, child_agent: FakeAgent
) -> None:
    await run.do(run.turn.spawn("child-agent", "x"))
    action = await ask(await child_agent.next_run())
    (request,) = await sup.permissions()

    assert run.turn.requests() == []
    with pytest.raises(PermissionDenied):
        await run.do(run.turn.answer_request(request.id, "reject_once"))
    assert not action.done.is_set()


async def test_a_parent_does_not_answer_for_strangers(
    sup: Supervisor, judge: AgentRun, session: Session, fake_agent: FakeAgent
) -> None:
    await ask(await begin(session, fake_agent))
    (request,) = await sup.permissions()

    assert judge.turn.requests() == []
    with pytest.raises(PermissionDenied):
        await judge.do(judge.turn.answer_request(request.id, "allow_once"))


async def test_a_parent_does_not_answer_for_itself(sup: Supervisor, fake_agent: FakeAgent) -> None:
    parent = await sup.create("fake", permissions=NARROW, answers_for_children=True)
    run = await begin(parent, fake_agent)
    await ask(run)
    (request,) = await sup.permissions()

    assert run.turn.requests() == []
    with pytest.raises(PermissionDenied):
        await run.do(run.turn.answer_request(request.id, "allow_once"))


@pytest.mark.parametrize(
    "rights", [NARROW, Permissions(mode="approve_all", tools=["bash"])], ids=["mode", "tools"]
)
async def test_a_parent_cannot_allow_more_than_its_own_permissions(
    sup: Supervisor, fake_agent: FakeAgent, child_agent: FakeAgent, rights: Permissions
) -> None:
    parent = await sup.create("fake", permissions=rights, answers_for_children=True)
    run = await begin(parent, fake_agent)
    await run.do(run.turn.spawn("child-agent", "x", permissions=NARROW))
    tool = "bash" if rights is NARROW else "other"
    action = await ask(await child_agent.next_run(), tool)
    if rights is not NARROW:
        assert await action.wait() is False  # decided without a request
        return
    (request,) = run.turn.requests()
    with pytest.raises(PermissionDenied):
        await run.do(run.turn.answer_request(request.id, "allow_once"))
    await run.do(run.turn.answer_request(request.id, "reject_once"))

    assert await action.wait() is False


async def test_a_parent_that_was_allowed_for_always_may_allow(
    sup: Supervisor, fake_agent: FakeAgent, child_agent: FakeAgent
) -> None:
    parent = await sup.create("fake", permissions=NARROW, answers_for_children=True)
    run = await begin(parent, fake_agent)
    mine = await ask(run)
    await sup.answer((await sup.permissions())[0].id, "allow_always")
    await mine.wait()
    await run.do(run.turn.spawn("child-agent", "x"))
    action = await ask(await child_agent.next_run())
    (request,) = run.turn.requests()
    await run.do(run.turn.answer_request(request.id, "allow_once"))

    assert await action.wait() is True


async def test_a_parent_that_was_rejected_for_always_may_not_allow(
    sup: Supervisor, guardian: Session, fake_agent: FakeAgent, child_agent: FakeAgent
) -> None:
    run = await begin(guardian, fake_agent)
    await run.do(run.turn.spawn("child-agent", "x", permissions=NARROW))
    rejecting = await sup.create("fake", permissions=NARROW, answers_for_children=True)
    theirs = await begin(rejecting, fake_agent)
    mine = await ask(theirs)
    await sup.answer((await sup.permissions())[0].id, "reject_always")
    await mine.wait()
    await child_agent.next_run()
    await theirs.do(theirs.turn.spawn("child-agent", "y"))
    await ask(await child_agent.next_run())
    (request,) = theirs.turn.requests()

    with pytest.raises(PermissionDenied):
        await theirs.do(theirs.turn.answer_request(request.id, "allow_once"))


async def test_only_a_parent_that_may_answer_passes_that_right_on(
    sup: Supervisor, session: Session, guardian: Session
) -> None:
    refused = await refusal(session.spawn("child-agent", "x", answers_for_children=True))
    child = await guardian.spawn("child-agent", "x", answers_for_children=True)

    assert refused.limit == "permissions"
    assert await phase_of(child) == "running"
    await check_tree_counts(sup)


async def test_the_right_to_answer_is_not_inherited(
    guardian: Session, child_agent: FakeAgent, sup: Supervisor
) -> None:
    child = await guardian.spawn("child-agent", "x", permissions=NARROW)
    middle = await child_agent.next_run()
    await child.spawn("child-agent", "y")
    await ask(await child_agent.next_run())
    (request,) = await sup.permissions()

    assert middle.turn.requests() == []
    with pytest.raises(PermissionDenied):
        await middle.do(middle.turn.answer_request(request.id, "reject_once"))


async def test_a_second_answer_is_a_conflict(
    sup: Supervisor, judge: AgentRun, asked: Asked
) -> None:
    action, request = asked
    await sup.answer(request.id, "reject_once")

    with pytest.raises(PermissionConflict):
        await judge.do(judge.turn.answer_request(request.id, "allow_once"))
    assert await action.wait() is False


async def test_a_decision_not_offered_or_an_unknown_request_is_refused(
    judge: AgentRun, asked: Asked
) -> None:
    _, request = asked

    with pytest.raises(InvalidDecision):
        await judge.do(judge.turn.answer_request(request.id, "maybe"))  # type: ignore[arg-type]
    with pytest.raises(PermissionNotFound):
        await judge.do(judge.turn.answer_request("req_none", "allow_once"))


async def test_an_ended_turn_cannot_answer_requests(judge: AgentRun, asked: Asked) -> None:
    _, request = asked
    judge.finish()
    await settle()

    with pytest.raises(TurnOver):
        judge.turn.requests()
    with pytest.raises(TurnOver):
        await judge.turn.answer_request(request.id, "allow_once")


async def test_a_request_of_an_awaited_child_goes_to_the_inbox(
    sup: Supervisor, judge: AgentRun, child_agent: FakeAgent
) -> None:
    child = await judge.do(judge.turn.spawn("child-agent", "x", permissions=NARROW))
    waiting = judge.begin(child.wait())
    at_work = await child_agent.next_run()
    action = await ask(at_work)
    (request,) = await sup.permissions()
    await sup.answer(request.id, "allow_once")
    assert await action.wait() is True
    at_work.finish("done")

    assert (await waiting.wait()).text == "done"


async def test_a_request_that_no_parent_answers_times_out(asked: Asked, judge: AgentRun) -> None:
    action, _ = asked
    began = trio.current_time()

    assert await action.wait() is False
    assert trio.current_time() - began == pytest.approx(300.0)
    assert judge.turn.requests() == []
