"""Permission rules, modes and rights."""

from __future__ import annotations

import pytest
import trio

from actors.testing import settle
from supervisor import (
    ConfigError,
    InputRefused,
    PermissionDenied,
    Permissions,
    Session,
    Supervisor,
)
from supervisor.core.permissions import Mode
from supervisor.core.state import Decision
from tests.support.fake_agents import AgentRun, FakeAgent, records
from tests.support.permission_requests import ask, begin_turn, only_request

ALWAYS: tuple[Decision, ...] = ("allow_always", "reject_always")


async def make_rule(sup: Supervisor, run: AgentRun, decision: Decision = "allow_always") -> str:
    """Have a question about bash answered for always, and let the turn end."""
    action = await ask(run)
    request = await only_request(sup)
    await sup.answer(request.id, decision)
    await action.wait()
    run.finish()
    await settle()
    return request.id


# Rules ----------------------------------------------------------------------------------


@pytest.mark.parametrize("decision", ALWAYS)
async def test_an_always_answer_makes_a_rule(
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

    action = await ask(await begin_turn(other, fake_agent))

    assert not action.done.is_set()
    assert await other.rules() == []


async def test_a_rule_can_be_removed(
    sup: Supervisor, session: Session, run: AgentRun, fake_agent: FakeAgent
) -> None:
    await make_rule(sup, run)
    (rule,) = await session.rules()

    await session.remove_rule(rule.id)

    assert await session.rules() == []
    action = await ask(await begin_turn(session, fake_agent))
    assert not action.done.is_set()


async def test_removing_an_unknown_rule_is_refused(
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
async def test_rules_survive_a_resume_and_a_suspension(
    sup: Supervisor, fake_agent: FakeAgent, way: str
) -> None:
    session = await sup.create("fake", suspend_after_seconds=60)
    await make_rule(sup, await begin_turn(session, fake_agent))
    if way == "sleep":
        await trio.sleep(61)
    else:
        await session.stop()
    if way == "resume":
        await session.resume()

    action = await ask(await begin_turn(session, fake_agent))

    assert await action.wait() is True
    assert len(await session.rules()) == 1


async def test_rules_do_not_survive_a_clear(
    sup: Supervisor, session: Session, run: AgentRun, fake_agent: FakeAgent
) -> None:
    await make_rule(sup, run)

    await session.clear()

    assert await session.rules() == []
    action = await ask(await begin_turn(session, fake_agent))
    assert not action.done.is_set()


async def test_rules_are_not_forked(
    sup: Supervisor, session: Session, run: AgentRun, fake_agent: FakeAgent
) -> None:
    await make_rule(sup, run)

    fork = await session.fork()

    assert await fork.rules() == []
    assert len(await session.rules()) == 1
    action = await ask(await begin_turn(fork, fake_agent))
    assert not action.done.is_set()


# Modes ----------------------------------------------------------------------------------


INSIDE = {"kind": "read", "path": "/home/work/src/main.py"}


async def answer_of(
    sup: Supervisor, fake_agent: FakeAgent, mode: Mode | None, question: dict[str, str | None]
) -> str:
    """How a question is answered in that mode: allow, reject, or ask (a person)."""
    session = await sup.create("fake", workspace="/home/work", permissions=Permissions(mode=mode))
    action = await ask(await begin_turn(session, fake_agent), "cat", **question)
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
async def test_other_requests_ask_a_person(
    sup: Supervisor, fake_agent: FakeAgent, question: dict[str, str | None]
) -> None:
    assert await answer_of(sup, fake_agent, "approve_reads", question) == "ask"


async def test_reading_without_a_workspace_asks_a_person(
    sup: Supervisor, session: Session, run: AgentRun
) -> None:
    action = await ask(run, "cat", **INSIDE)

    assert not action.done.is_set()
    assert (await only_request(sup)).session_id == session.id


@pytest.mark.parametrize("question", [INSIDE, {"kind": "execute"}, {}], ids=str)
@pytest.mark.parametrize(("mode", "answer"), [("deny_all", "reject"), ("approve_all", "allow")])
async def test_the_other_modes_answer_every_request(
    sup: Supervisor, fake_agent: FakeAgent, mode: Mode, answer: str, question: dict[str, str | None]
) -> None:
    assert await answer_of(sup, fake_agent, mode, question) == answer


async def test_an_unknown_mode_is_refused() -> None:
    with pytest.raises(ConfigError, match="mode") as refusal:
        Permissions(mode="allow_everything")  # type: ignore[arg-type]

    assert "approve_reads" in refusal.value.hint


async def test_a_rule_counts_more_than_the_mode(sup: Supervisor, fake_agent: FakeAgent) -> None:
    session = await sup.create("fake", workspace="/home/work")
    run = await begin_turn(session, fake_agent)
    await make_rule(sup, run, "reject_always")

    action = await ask(await begin_turn(session, fake_agent), "bash", **INSIDE)

    assert await action.wait() is False


# Rights ---------------------------------------------------------------------------------


async def test_a_tool_that_the_session_may_not_use_is_rejected_without_asking(
    sup: Supervisor, fake_agent: FakeAgent
) -> None:
    permissions = Permissions(tools=frozenset({"cat"}), mode="approve_all")
    session = await sup.create("fake", permissions=permissions)
    run = await begin_turn(session, fake_agent)

    assert await (await ask(run, "cat")).wait() is True
    assert await (await ask(run, "bash")).wait() is False

    assert await sup.permissions() == ()


async def test_a_tool_that_the_session_may_not_use_can_not_be_called(
    sup: Supervisor, fake_agent: FakeAgent
) -> None:
    session = await sup.create("fake", permissions=Permissions(tools=frozenset({"cat"})))
    run = await begin_turn(session, fake_agent)

    with pytest.raises(PermissionDenied, match="bash") as refusal:
        run.turn.tool("bash")

    assert "permissions.tools" in refusal.value.hint
    await (await run.open_call("cat")).close()
    assert [r.body["name"] for r in await records(session, "tool_call")] == ["cat"]


async def test_an_empty_tool_list_forbids_every_tool(
    sup: Supervisor, fake_agent: FakeAgent
) -> None:
    session = await sup.create("fake", permissions=Permissions(tools=frozenset()))
    run = await begin_turn(session, fake_agent)

    with pytest.raises(PermissionDenied):
        run.turn.tool("cat")
