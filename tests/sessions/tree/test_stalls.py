"""Silence is detected in time, once, with evidence, and never for a session that waits."""

from __future__ import annotations

import pytest
import trio

import supervisor
from actors.testing import settle
from supervisor import Phase, PythonAgent, Session, Supervisor, Turn
from supervisor.sessions.liveness import Liveness
from tests.support.fake_agents import AgentRun, FakeAgent
from tests.support.session_states import SlowStartAgent
from tests.support.tree_queries import QUIET, STALLED, TOOL, all_infos, only, silence_records

# Noticed ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("kind", "limit"), [("quiet", QUIET), ("stalled", STALLED)])
async def test_silence_is_noticed_in_time(
    session: Session, run: AgentRun, kind: str, limit: float
) -> None:
    began = trio.current_time()
    started = await only(session, "turn_started")
    await trio.sleep(limit - 1.0)
    assert kind not in await silence_records(session)
    await trio.sleep(2.0)
    found = await only(session, kind)

    assert limit <= found.at - started.at <= max(1.1 * limit, limit + 1.0)
    assert found.body["waits_for"] == "model"
    assert found.body["seconds"] == pytest.approx(limit, abs=1.0)
    assert found.body["since"] == pytest.approx(started.at, abs=0.001)
    assert began == 0.0


async def test_a_stalled_session_is_only_marked_hung_by_default(
    session: Session, run: AgentRun
) -> None:
    await trio.sleep(10_000.0)
    info = await session.info()

    assert await silence_records(session) == ["quiet", "stalled"]
    assert (info.badge, info.phase) == ("hung", Phase.RUNNING)
    assert not run.over.is_set()


@pytest.mark.parametrize("sign", ["say", "think", "usage", "tool", "update", "plan"])
async def test_every_kind_of_output_counts_as_progress(
    session: Session, run: AgentRun, sign: str
) -> None:
    call = await run.open_call("bash") if sign == "update" else None
    for _ in range(10):
        await trio.sleep(QUIET - 1.0)
        match sign:
            case "say":
                await run.do(run.turn.say("."))
            case "think":
                await run.do(run.turn.think("."))
            case "usage":
                run.turn.usage(output_tokens=1)
            case "tool":
                await (await run.open_call("bash")).close()
            case "update":
                assert call is not None
                call.call.update("going on")
            case "plan":
                await run.do(run.turn.plan(["go on"]))

    assert await silence_records(session) == []


async def test_progress_re_arms_stall_detection(session: Session, run: AgentRun) -> None:
    for _ in range(3):
        await trio.sleep(STALLED + 5.0)
        assert (await session.info()).badge == "hung"
        await run.do(run.turn.say("."))
        await settle()
        assert (await session.info()).badge == "running"

    assert await silence_records(session) == ["quiet", "stalled", "progress_resumed"] * 3


async def test_a_second_stall_is_measured_from_the_last_progress(
    session: Session, run: AgentRun
) -> None:
    await trio.sleep(STALLED + 50.0)
    await run.do(run.turn.say("."))
    said = trio.current_time()
    await trio.sleep(STALLED - 1.0)
    assert (await silence_records(session))[-1] == "quiet"
    await trio.sleep(2.0)

    assert (await silence_records(session))[-1] == "stalled"
    assert trio.current_time() - said == STALLED + 1.0


async def test_a_tool_may_take_longer_than_a_thought(session: Session, run: AgentRun) -> None:
    await run.open_call("bash")
    await trio.sleep(TOOL - 1.0)
    assert await silence_records(session) == ["quiet"]
    await trio.sleep(2.0)
    stalled = await only(session, "stalled")

    assert (stalled.body["waits_for"], stalled.body["detail"]) == ("tool", "bash")


async def test_the_limit_of_a_thought_holds_again_after_a_tool(
    session: Session, run: AgentRun
) -> None:
    call = await run.open_call("bash")
    await trio.sleep(TOOL - 10.0)
    await call.close()
    await trio.sleep(STALLED - 1.0)
    assert "stalled" not in await silence_records(session)
    await trio.sleep(2.0)

    assert (await only(session, "stalled")).body["waits_for"] == "model"


async def test_limits_are_the_sessions_own(
    sup: Supervisor, child_agent: FakeAgent, session: Session
) -> None:
    child = await session.spawn(
        "child-agent", "x", quiet_after_seconds=1.0, stalled_after_seconds=5.0, on_stall="interrupt"
    )
    await child_agent.next_run()
    result = await child.wait()

    assert result.outcome == "interrupted"
    assert "no progress" in str(result.error)
    assert 5.0 <= trio.current_time() <= 6.0


async def test_an_idle_session_is_not_silent(session: Session) -> None:
    await trio.sleep(800.0)

    assert await silence_records(session) == []


async def test_each_silence_above_the_quiet_limit_is_recorded(
    session: Session, run: AgentRun
) -> None:
    for _ in range(5):
        await trio.sleep(QUIET + 10.0)
        await run.do(run.turn.say("."))
    await settle()

    assert await silence_records(session) == ["quiet", "progress_resumed"] * 5


# Waiting for others -------------------------------------------------------------------------------


async def test_waiting_for_a_person_is_not_a_stall(sup: Supervisor, fake_agent: FakeAgent) -> None:
    session = await sup.create("fake", permission_timeout_seconds=100_000.0, on_stall="stop")
    await session.send("x")
    run = await fake_agent.next_run()
    action = run.begin(run.turn.ask("may I?", tool="bash"))
    await trio.sleep(50_000.0)
    info = await session.info()
    (request,) = await sup.permissions()
    await sup.answer(request.id, "allow_once")

    assert await action.wait() is True
    assert (info.badge, await silence_records(session)) == ("waiting-for-you", [])


async def test_silence_is_measured_from_the_answer(sup: Supervisor, fake_agent: FakeAgent) -> None:
    session = await sup.create("fake", permission_timeout_seconds=100_000.0)
    await session.send("x")
    run = await fake_agent.next_run()
    action = run.begin(run.turn.ask("may I?", tool="bash"))
    await trio.sleep(5_000.0)
    await sup.answer((await sup.permissions())[0].id, "allow_once")
    await action.wait()
    await trio.sleep(QUIET - 1.0)
    before = await silence_records(session)
    await trio.sleep(STALLED)

    assert (before, await silence_records(session)) == ([], ["quiet", "stalled"])


async def test_waiting_for_a_child_with_progress_is_not_a_stall(
    session: Session, run: AgentRun, child_agent: FakeAgent
) -> None:
    child = await run.do(run.turn.spawn("child-agent", "x"))
    run.begin(child.wait())
    at_work = await child_agent.next_run()
    for _ in range(20):
        await trio.sleep(QUIET - 20.0)
        await at_work.do(at_work.turn.say("."))

    assert await silence_records(session) == []


async def test_waiting_for_a_grandchild_with_progress_is_not_a_stall(
    sup: Supervisor, session: Session, run: AgentRun, child_agent: FakeAgent
) -> None:
    child = await run.do(run.turn.spawn("child-agent", "x"))
    run.begin(child.wait())
    middle = await child_agent.next_run()
    below = await middle.do(middle.turn.spawn("child-agent", "y"))
    middle.begin(below.wait())
    at_work = await child_agent.next_run()
    for _ in range(20):
        await trio.sleep(QUIET - 20.0)
        await at_work.do(at_work.turn.say("."))

    assert await silence_records(session) == []
    assert await silence_records(sup.session(child.id)) == []


async def test_waiting_for_a_child_with_a_permission_request_is_not_a_stall(
    sup: Supervisor, session: Session, run: AgentRun, child_agent: FakeAgent
) -> None:
    made = await session.spawn("child-agent", "x", permission_timeout_seconds=100_000.0)
    child = await run.do(run.turn.descendant(made.id))
    run.begin(child.wait())
    at_work = await child_agent.next_run()
    at_work.begin(at_work.turn.ask("may I?", tool="bash"))
    await trio.sleep(50_000.0)

    assert await silence_records(session) == []


async def test_awaiting_several_children_is_not_a_stall_while_one_progresses(
    sup: Supervisor, session: Session, run: AgentRun, child_agent: FakeAgent
) -> None:
    children = [await run.do(run.turn.spawn("child-agent", str(one))) for one in range(3)]
    for child in children:
        run.begin(child.wait())
    runs = [await child_agent.next_run() for _ in children]
    for _ in range(10):
        await trio.sleep(QUIET - 20.0)
        await runs[1].do(runs[1].turn.say("."))

    assert await silence_records(session) == []
    assert await silence_records(sup.session(children[0].id)) == ["quiet", "stalled"]


async def test_awaiting_a_hanging_child_is_a_stall_that_names_it(
    session: Session, run: AgentRun, child_agent: FakeAgent
) -> None:
    child = await run.do(run.turn.spawn("child-agent", "x"))
    run.begin(child.wait())
    await child_agent.next_run()
    await trio.sleep(STALLED + 5.0)
    stalled = await only(session, "stalled")

    assert (stalled.body["waits_for"], stalled.body["detail"]) == ("child", child.id)


async def test_progress_of_a_child_not_awaited_does_not_prevent_a_stall(
    session: Session, run: AgentRun, child_agent: FakeAgent
) -> None:
    await run.do(run.turn.spawn("child-agent", "x"))
    at_work = await child_agent.next_run()
    for _ in range(5):
        await trio.sleep(QUIET - 20.0)
        await at_work.do(at_work.turn.say("."))

    assert await silence_records(session) == ["quiet", "stalled"]


async def test_silence_is_measured_from_the_end_of_the_wait(
    session: Session, run: AgentRun, child_agent: FakeAgent
) -> None:
    child = await run.do(run.turn.spawn("child-agent", "x"))
    action = run.begin(child.wait())
    at_work = await child_agent.next_run()
    for _ in range(10):
        await trio.sleep(100.0)
        await at_work.do(at_work.turn.say("."))
    at_work.finish()
    await action.wait()
    await trio.sleep(QUIET - 1.0)

    assert await silence_records(session) == []


async def test_the_end_of_a_childs_turn_counts_as_progress_of_the_waiter(
    sup: Supervisor, session: Session, run: AgentRun, child_agent: FakeAgent
) -> None:
    child = await run.do(run.turn.spawn("child-agent", "x"))
    run.begin(child.wait())
    await child_agent.next_run()
    await trio.sleep(QUIET - 1.0)
    registry = sup._parts.registry
    liveness = Liveness(sup._services, registry.find_slot)
    registry.slot(child.id).progress.mark_turn_ended()

    assert liveness.silent_seconds(registry.slot(session.id)) == 0.0


async def test_sessions_awaiting_each_other_are_stalled() -> None:
    """The child calls back its parent, which waits for the child: nothing will ever come of it."""
    held: list[Session] = []

    async def call_back(_: Turn) -> None:
        await held[0].prompt("are you there?")

    async def wait_for_child(turn: Turn) -> None:
        await (await turn.spawn("child", "go")).wait()

    agents = [PythonAgent("parent", wait_for_child), PythonAgent("child", call_back)]
    async with supervisor.open(":memory:", agents=agents) as sup:
        held.append(await sup.create("parent"))
        await held[0].send("go")
        await trio.sleep(STALLED + 5.0)
        family = [sup.session(one.id) for one in await all_infos(sup)]
        found = [(await only(one, "stalled")).body["detail"] for one in family]
        await held[0].stop()

    assert found == [family[1].id, family[0].id]


async def test_waiting_for_a_childs_agent_to_start_is_waiting_for_the_child(
    session: Session, run: AgentRun, slow: SlowStartAgent
) -> None:
    slow.runs_process = True  # an agent without a process has less time for its start
    run.begin(run.turn.spawn("slow", "x"))
    await trio.sleep(STALLED + 5.0)

    assert (await only(session, "stalled")).body["waits_for"] == "child"
