"""Permissions and questions: the inbox, answers, rules, and modes that answer by themselves."""

from __future__ import annotations

from typing import Any

import pytest
import trio

from actors.testing import settle
from supervisor import (
    ConfigError,
    InputRefused,
    InvalidDecision,
    PermissionConflict,
    PermissionDenied,
    PermissionNotFound,
    PermissionRequest,
    Permissions,
    Session,
    Supervisor,
    SupervisorError,
    ToolCall,
)
from supervisor.core.permissions import Mode
from supervisor.core.state import Decision
from tests.support.fake_agents import AgentAction, AgentRun, FakeAgent, records

ALWAYS: tuple[Decision, ...] = ("allow_always", "reject_always")


async def ask(run: AgentRun, tool: str = "bash", **more: Any) -> AgentAction[bool]:  # noqa: ANN401
    """Begin a permission request; return when the session has recorded it."""
    action = run.begin(run.turn.ask(f"may I use {tool}?", tool=tool, **more))
    await settle()
    return action


async def only_request(sup: Supervisor) -> PermissionRequest:
    (request,) = await sup.permissions()
    return request


async def begin(session: Session, fake_agent: FakeAgent, text: str = "more") -> AgentRun:
    await session.send(text)
    return await fake_agent.next_run()


async def make_rule(sup: Supervisor, run: AgentRun, decision: Decision = "allow_always") -> str:
    """Have a question about bash answered for always, and let the turn end."""
    action = await ask(run)
    request = await only_request(sup)
    await sup.answer(request.id, decision)
    await action.wait()
    run.finish()
    await settle()
    return request.id


# The inbox -------------------------------------------------------------------------------------


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
    runs = [await begin(session, fake_agent) for session in sessions]
    for place in (2, 0, 1):
        await ask(runs[place])
        await trio.sleep(1)

    waiting = await sup.permissions()

    assert [request.session_id for request in waiting] == [
        sessions[place].id for place in (2, 0, 1)
    ]


async def test_a_session_that_waits_for_an_answer_says_so(
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


async def test_an_answer_for_once_is_for_once(
    sup: Supervisor, session: Session, run: AgentRun
) -> None:
    first = await ask(run)
    await sup.answer((await only_request(sup)).id, "allow_once")
    assert await first.wait()

    second = await ask(run)

    assert not second.done.is_set()
    assert await session.rules() == []


# Answers that cannot be meant ------------------------------------------------------------------


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


# No answer -------------------------------------------------------------------------------------


async def test_after_five_minutes_a_request_is_rejected_once(
    sup: Supervisor, session: Session, run: AgentRun
) -> None:
    action = await ask(run)

    assert await action.wait() is False

    (answered,) = await records(session, "permission_answered")
    assert trio.current_time() == pytest.approx(300)
    assert (answered.body["decision"], answered.body["by"]) == ("reject_once", "timeout")
    assert await sup.permissions() == ()
    assert await session.rules() == []


async def test_each_request_has_its_own_time(sup: Supervisor, fake_agent: FakeAgent) -> None:
    session = await sup.create("fake", permission_timeout_seconds=10)
    run = await begin(session, fake_agent)
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


async def test_a_request_that_timed_out_can_not_be_answered_any_more(
    sup: Supervisor, run: AgentRun
) -> None:
    action = await ask(run)
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
    run = await begin(session, shielded_agent)
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


async def test_a_session_that_stops_leaves_no_requests(sup: Supervisor, session: Session) -> None:
    scripted = await sup.create("scripted")
    await scripted.send("ask bash")
    await settle()
    assert len(await sup.permissions()) == 1

    await scripted.stop()

    assert await sup.permissions() == ()
    assert (await session.info()).phase == "idle"


async def test_a_cancelled_tool_call_does_not_cancel_the_requests_of_others(
    sup: Supervisor, session: Session, run: AgentRun
) -> None:
    call = await run.open_call("grep")
    action = await ask(run)

    await session.interrupt(ToolCall(call.id))

    await sup.answer((await only_request(sup)).id, "allow_once")
    assert await action.wait() is True


# Rules -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("decision", ALWAYS)
async def test_an_answer_for_always_becomes_a_rule(
    sup: Supervisor, session: Session, run: AgentRun, decision: Decision
) -> None:
    first = await ask(run)
    await sup.answer((await only_request(sup)).id, decision)
    await first.wait()

    second = await ask(run)

    (rule,) = await session.rules()
    answers = await records(session, "permission_answered")
    assert (rule.tool, rule.decision) == ("bash", decision)
    assert await second.wait() is (decision == "allow_always")
    assert [record.body["by"] for record in answers] == ["person", "rule"]


async def test_a_rule_is_for_its_own_tool(sup: Supervisor, run: AgentRun) -> None:
    action = await ask(run, "bash")
    await sup.answer((await only_request(sup)).id, "allow_always")
    await action.wait()

    other = await ask(run, "bash2")

    assert not other.done.is_set()


async def test_a_rule_is_for_its_own_session(
    sup: Supervisor, run: AgentRun, fake_agent: FakeAgent
) -> None:
    await make_rule(sup, run)
    other = await sup.create("fake")

    action = await ask(await begin(other, fake_agent))

    assert not action.done.is_set()
    assert await other.rules() == []


async def test_a_rule_can_be_removed(
    sup: Supervisor, session: Session, run: AgentRun, fake_agent: FakeAgent
) -> None:
    await make_rule(sup, run)
    (rule,) = await session.rules()

    await session.remove_rule(rule.id)

    assert await session.rules() == []
    action = await ask(await begin(session, fake_agent))
    assert not action.done.is_set()


async def test_removing_a_rule_that_is_not_there_is_refused(
    sup: Supervisor, session: Session, run: AgentRun
) -> None:
    await make_rule(sup, run)

    with pytest.raises(InputRefused, match="no rule"):
        await session.remove_rule("req_nobody")

    assert len(await session.rules()) == 1


async def test_a_new_always_answer_replaces_the_permission_rule(
    sup: Supervisor, session: Session, run: AgentRun
) -> None:
    first, second = await ask(run), await ask(run)
    older, newer = await sup.permissions()
    await sup.answer(older.id, "allow_always")
    await sup.answer(newer.id, "reject_always")
    await first.wait()
    await second.wait()

    third = await ask(run)

    assert await third.wait() is False
    assert [rule.decision for rule in await session.rules()] == ["reject_always"]


@pytest.mark.parametrize("way", ["resume", "send", "sleep"])
async def test_rules_survive_a_resume_and_a_sleep(
    sup: Supervisor, fake_agent: FakeAgent, way: str
) -> None:
    session = await sup.create("fake", suspend_after_seconds=60)
    await make_rule(sup, await begin(session, fake_agent))
    if way == "sleep":
        await trio.sleep(61)
    else:
        await session.stop()
    if way == "resume":
        await session.resume()

    action = await ask(await begin(session, fake_agent))

    assert await action.wait() is True
    assert len(await session.rules()) == 1


async def test_rules_do_not_survive_a_clear(
    sup: Supervisor, session: Session, run: AgentRun, fake_agent: FakeAgent
) -> None:
    await make_rule(sup, run)

    await session.clear()

    assert await session.rules() == []
    action = await ask(await begin(session, fake_agent))
    assert not action.done.is_set()


async def test_rules_are_not_forked(
    sup: Supervisor, session: Session, run: AgentRun, fake_agent: FakeAgent
) -> None:
    await make_rule(sup, run)

    fork = await session.fork()

    assert await fork.rules() == []
    assert len(await session.rules()) == 1
    action = await ask(await begin(fork, fake_agent))
    assert not action.done.is_set()


# Modes -----------------------------------------------------------------------------------------

INSIDE = {"kind": "read", "path": "/home/work/src/main.py"}


async def answer_of(
    sup: Supervisor, fake_agent: FakeAgent, mode: Mode | None, question: dict[str, str | None]
) -> str:
    """How a question is answered in that mode: allow, reject, or ask (a person)."""
    session = await sup.create("fake", workspace="/home/work", permissions=Permissions(mode=mode))
    action = await ask(await begin(session, fake_agent), "cat", **question)
    if not action.done.is_set():
        assert len(await sup.permissions()) == 1
        return "ask"
    (answered,) = await records(session, "permission_answered")
    assert answered.body["by"] == "mode"
    return "allow" if await action.wait() else "reject"


@pytest.mark.parametrize("mode", ["approve_reads", None])
@pytest.mark.parametrize(
    "question",
    [
        INSIDE,
        INSIDE | {"kind": "search"},
        INSIDE | {"path": "src/main.py"},
        INSIDE | {"path": "/home/work"},
    ],
    ids=str,
)
async def test_reading_inside_the_workspace_is_allowed_without_asking(
    sup: Supervisor, fake_agent: FakeAgent, mode: Mode | None, question: dict[str, str | None]
) -> None:
    assert await answer_of(sup, fake_agent, mode, question) == "allow"


@pytest.mark.parametrize(
    "question",
    [
        INSIDE | {"kind": None},
        INSIDE | {"kind": "edit"},
        INSIDE | {"kind": "execute"},
        INSIDE | {"kind": "READ"},
        INSIDE | {"path": None},
        INSIDE | {"path": ""},
        INSIDE | {"path": "/etc/passwd"},
        INSIDE | {"path": "/home/workers/secret"},
        INSIDE | {"path": "/home/work/../secret"},
        INSIDE | {"path": "../secret"},
        INSIDE | {"path": "~/secret"},
        {},
    ],
    ids=str,
)
async def test_anything_else_asks_a_person(
    sup: Supervisor, fake_agent: FakeAgent, question: dict[str, str | None]
) -> None:
    assert await answer_of(sup, fake_agent, "approve_reads", question) == "ask"


async def test_without_a_workspace_reading_asks_too(
    sup: Supervisor, session: Session, run: AgentRun
) -> None:
    action = await ask(run, "cat", **INSIDE)

    assert not action.done.is_set()
    assert (await only_request(sup)).session_id == session.id


@pytest.mark.parametrize("question", [INSIDE, {"kind": "execute"}, {}], ids=str)
@pytest.mark.parametrize(("mode", "answer"), [("deny_all", "reject"), ("approve_all", "allow")])
async def test_the_other_modes_answer_everything_by_themselves(
    sup: Supervisor, fake_agent: FakeAgent, mode: Mode, answer: str, question: dict[str, str | None]
) -> None:
    assert await answer_of(sup, fake_agent, mode, question) == answer


async def test_a_mode_that_is_none_is_refused() -> None:
    with pytest.raises(ConfigError, match="mode") as refusal:
        Permissions(mode="allow_everything")  # type: ignore[arg-type]

    assert "approve_reads" in refusal.value.hint


async def test_a_rule_counts_more_than_the_mode(sup: Supervisor, fake_agent: FakeAgent) -> None:
    session = await sup.create("fake", workspace="/home/work")
    run = await begin(session, fake_agent)
    await make_rule(sup, run, "reject_always")

    action = await ask(await begin(session, fake_agent), "bash", **INSIDE)

    assert await action.wait() is False


# Rights ----------------------------------------------------------------------------------------


async def test_a_tool_that_the_session_may_not_use_is_rejected_without_asking(
    sup: Supervisor, fake_agent: FakeAgent
) -> None:
    permissions = Permissions(tools=frozenset({"cat"}), mode="approve_all")
    session = await sup.create("fake", permissions=permissions)
    run = await begin(session, fake_agent)

    assert await (await ask(run, "cat")).wait() is True
    assert await (await ask(run, "bash")).wait() is False

    assert await sup.permissions() == ()


async def test_a_tool_that_the_session_may_not_use_can_not_be_called(
    sup: Supervisor, fake_agent: FakeAgent
) -> None:
    session = await sup.create("fake", permissions=Permissions(tools=frozenset({"cat"})))
    run = await begin(session, fake_agent)

    with pytest.raises(PermissionDenied, match="bash") as refusal:
        run.turn.tool("bash")

    assert "permissions.tools" in refusal.value.hint
    await (await run.open_call("cat")).close()
    assert [r.body["name"] for r in await records(session, "tool_call")] == ["cat"]


async def test_no_tools_at_all_is_not_all_tools(sup: Supervisor, fake_agent: FakeAgent) -> None:
    session = await sup.create("fake", permissions=Permissions(tools=frozenset()))
    run = await begin(session, fake_agent)

    with pytest.raises(PermissionDenied):
        run.turn.tool("cat")
