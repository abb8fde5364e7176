"""Blocking hooks before tool calls and permission requests."""

from __future__ import annotations

import pytest
import trio

import supervisor
from actors.testing import settle
from supervisor import (
    Change,
    Deny,
    PermissionDenied,
    Permissions,
    Session,
    Stop,
    Supervisor,
    TurnOver,
)
from supervisor.sessions.hooks import BlockingPoint
from tests.support.fake_agents import AgentRun, FakeAgent, Interrupted, records
from tests.support.fake_hooks import (
    RecordingHook,
    check_nothing_left,
    check_stopped_by_hook,
    fence_actor,
    hang,
    refused,
    slow_hook,
)

# Tools ----------------------------------------------------------------------------------


async def test_a_tool_is_used_with_the_consent_of_hooks(
    sup: Supervisor, session: Session, run: AgentRun
) -> None:
    ask = RecordingHook()
    sup.hooks.add("tool_before", ask)
    call = await run.open_call("bash", {"cmd": ["ls"]})

    assert (ask.only.session_id, ask.only.turn_id) == (session.id, run.turn.id)
    assert dict(ask.only.data) == {"call_id": call.id, "name": "bash", "input": {"cmd": ["ls"]}}


async def use(run: AgentRun, name: str = "bash") -> None:
    async with run.turn.tool(name):
        pass


async def test_an_agent_denied_a_tool_gets_an_error_and_continues(
    sup: Supervisor, session: Session, run: AgentRun
) -> None:
    sup.hooks.add("tool_before", RecordingHook(Deny("dangerous")))
    await refused(run.do(use(run)), PermissionDenied, "bash", "dangerous")
    run.finish("without it")
    await settle()

    assert await records(session, "tool_call", "tool_ended") == []
    (ended,) = await records(session, "turn_ended")
    assert ended.body["outcome"] == "completed"


async def test_a_hook_that_stops_at_a_tool_ends_the_session(
    sup: Supervisor, session: Session, run: AgentRun
) -> None:
    sup.hooks.add("tool_before", RecordingHook(Stop("enough")))
    await refused(run.do(use(run)), PermissionDenied, "enough")

    await check_stopped_by_hook(session, "enough")


async def test_a_hook_cannot_change_the_input_of_a_tool(
    sup: Supervisor, session: Session, run: AgentRun
) -> None:
    sup.hooks.add("tool_before", RecordingHook(Change(input={"cmd": "other"})), required=True)
    await refused(run.do(use(run)), PermissionDenied, "required")


async def test_a_forbidden_tool_reaches_no_hook(sup: Supervisor, fake_agent: FakeAgent) -> None:
    ask = RecordingHook()
    sup.hooks.add("tool_before", ask)
    session = await sup.create("fake", permissions=Permissions(tools=[]))
    await session.send("go")
    run = await fake_agent.next_run()
    await refused(run.do(use(run)), PermissionDenied)

    assert ask.events == []


async def test_an_interrupt_reaches_an_agent_with_a_tool_in_hooks(
    sup: Supervisor, session: Session, run: AgentRun
) -> None:
    sup.hooks.add("tool_before", hang)
    action = run.begin(use(run))
    await trio.sleep(1.0)
    report = await session.interrupt()

    assert (report.stopped, report.seconds) == (1, 0.0)
    with pytest.raises(Interrupted):
        await action.wait()
    assert await records(session, "tool_call") == []


async def test_a_call_that_waits_for_hooks_cannot_be_entered_twice(
    sup: Supervisor, session: Session, run: AgentRun
) -> None:
    sup.hooks.add("tool_before", slow_hook(1.0))
    call = run.turn.tool("bash")

    async def enter() -> None:
        async with call:
            await trio.sleep(1.0)

    first = run.begin(enter())
    await trio.sleep(0.5)
    second = run.begin(enter())
    await first.wait()

    await refused(second.wait(), supervisor.ConfigError)


async def test_time_in_a_hook_does_not_count_as_a_running_call(
    sup: Supervisor, session: Session, run: AgentRun
) -> None:
    sup.hooks.add("tool_before", slow_hook(3.0))
    action = run.begin(use(run))
    await trio.sleep(1.0)

    assert (await session.info()).tool_calls == 0
    await action.wait()
    await settle()
    assert (await session.info()).tool_calls == 1


# Permissions ----------------------------------------------------------------------------


async def test_a_permission_request_reaches_hooks_before_the_inbox(
    sup: Supervisor, session: Session, run: AgentRun
) -> None:
    ask = RecordingHook()
    sup.hooks.add("permission", ask)
    run.begin(run.turn.ask("may I?", tool="bash", input={"a": 1}, kind="edit"))
    await settle()
    (request,) = await sup.permissions()

    assert (ask.only.session_id, ask.only.turn_id) == (session.id, run.turn.id)
    assert dict(ask.only.data) == {
        "request_id": request.id,
        "tool": "bash",
        "question": "may I?",
        "kind": "edit",
        "input": {"a": 1},
        "options": tuple(request.options),
    }


async def test_a_hook_may_reject_a_permission_request(
    sup: Supervisor, session: Session, run: AgentRun
) -> None:
    sup.hooks.add("permission", RecordingHook(Deny("never")))

    assert await run.do(run.turn.ask("may I?", tool="bash")) is False
    assert await sup.permissions() == ()
    (answered,) = await records(session, "permission_answered")
    assert answered.body["by"] == "hook"
    assert answered.body["decision"].startswith("reject")


async def test_a_denial_by_a_hook_outweighs_an_approving_mode(
    sup: Supervisor, fake_agent: FakeAgent
) -> None:
    session = await sup.create("fake", permissions=Permissions(mode="approve_all"))
    sup.hooks.add("permission", RecordingHook(Deny("never")))
    await session.send("go")
    run = await fake_agent.next_run()

    assert await run.do(run.turn.ask("may I?", tool="bash")) is False


async def test_a_denial_by_a_hook_outweighs_a_rule_and_makes_no_rule(
    sup: Supervisor, session: Session, run: AgentRun
) -> None:
    action = run.begin(run.turn.ask("may I?", tool="bash"))
    await settle()
    (request,) = await sup.permissions()
    await sup.answer(request.id, "allow_always")
    assert await action.wait()
    rules = await session.rules()
    sup.hooks.add("permission", RecordingHook(Deny("never")))

    assert await run.do(run.turn.ask("may I?", tool="bash")) is False
    assert await session.rules() == rules


@pytest.mark.parametrize(
    "yes", [True, "allow_once", Change(), Change(options=()), Change(tool="x")]
)
async def test_a_hook_cannot_allow_a_permission_request(
    sup: Supervisor, session: Session, run: AgentRun, yes: object
) -> None:
    sup.hooks.add("permission", RecordingHook(yes))
    action = run.begin(run.turn.ask("may I?", tool="bash"))
    await settle()
    (request,) = await sup.permissions()

    assert not action.done.is_set()
    await sup.answer(request.id, "reject_once")
    assert await action.wait() is False


async def test_a_stop_by_a_hook_at_a_permission_request_ends_the_session(
    sup: Supervisor, session: Session, run: AgentRun
) -> None:
    sup.hooks.add("permission", RecordingHook(Stop("enough")))
    run.begin(run.turn.ask("may I?", tool="bash"))
    await check_stopped_by_hook(session, "enough")

    assert await sup.permissions() == ()


async def test_a_failing_required_hook_rejects_a_permission_request(
    sup: Supervisor, session: Session, run: AgentRun
) -> None:
    sup.hooks.add("permission", hang, required=True)

    assert await run.do(run.turn.ask("may I?", tool="bash")) is False


async def test_an_interrupt_reaches_an_agent_with_a_request_in_hooks(
    sup: Supervisor, session: Session, run: AgentRun
) -> None:
    sup.hooks.add("permission", hang)
    action = run.begin(run.turn.ask("may I?", tool="bash"))
    await trio.sleep(1.0)
    report = await session.interrupt()

    assert (report.stopped, report.seconds) == (1, 0.0)
    with pytest.raises(Interrupted):
        await action.wait()
    assert await records(session, "permission_asked") == []


@pytest.mark.parametrize("point", ["tool_before", "permission"])
async def test_an_agents_request_is_void_when_its_actor_crashes_during_hooks(
    sup: Supervisor, session: Session, run: AgentRun, point: BlockingPoint
) -> None:
    sup.hooks.add(point, slow_hook(2.0))
    asks = point == "permission"
    action = run.begin(run.turn.ask("may I?", tool="bash")) if asks else run.begin(use(run))
    await trio.sleep(1.0)
    await fence_actor(sup, session)
    await trio.sleep(10.0)

    assert action.done.is_set()
    assert await sup.permissions() == ()
    assert await records(session, "tool_call", "permission_asked") == []
    await check_nothing_left(sup, session)


@pytest.mark.parametrize("point", ["tool_before", "permission"])
async def test_a_zombie_cannot_call_tools_through_hooks(
    sup: Supervisor, shielded_session: Session, shielded_run: AgentRun, point: BlockingPoint
) -> None:
    sup.hooks.add(point, slow_hook(20.0), deadline_seconds=30.0)
    run = shielded_run
    asks = point == "permission"
    action = run.begin(run.turn.ask("may I?", tool="bash")) if asks else run.begin(use(run))
    await trio.sleep(1.0)
    report = await shielded_session.interrupt()

    assert report.unreachable == 1
    with pytest.raises(TurnOver):
        await action.wait()
    assert await records(shielded_session, "tool_call", "permission_asked") == []
