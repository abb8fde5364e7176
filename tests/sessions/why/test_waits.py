"""`why`: every kind of wait has its word, and chains lead to the session that must act."""

from __future__ import annotations

import pytest
import trio

import supervisor
from actors.testing import settle
from supervisor import (
    Limits,
    Restart,
    Session,
    SessionNotFound,
    Settings,
    Supervisor,
)
from tests.support.fake_agents import AgentRun, FakeAgent
from tests.support.session_states import SlowStartAgent, phase_of
from tests.support.waiting_agents import PromptChain, SlowExitAgent, ids, sole_wait

# One word for each way to wait ----------------------------------------------------------


async def test_an_idle_session_waits_for_input(sup: Supervisor, session: Session) -> None:
    await trio.sleep(7.0)

    assert await sole_wait(session) == ("input", None, 7.0)


async def test_a_suspended_session_waits_for_input(sup: Supervisor) -> None:
    session = await sup.create("fake", suspend_after_seconds=1.0)
    await trio.sleep(8.0)

    assert await phase_of(session) == "suspended"
    assert await sole_wait(session) == ("input", None, 7.0)


async def test_a_silent_turn_waits_for_its_model(session: Session, run: AgentRun) -> None:
    await trio.sleep(7.0)

    assert await sole_wait(session) == ("model", None, 7.0)


async def test_a_turn_waits_for_its_running_tool_call(session: Session, run: AgentRun) -> None:
    await run.open_call("grep")
    await run.open_call("bash")
    await trio.sleep(7.0)

    assert await sole_wait(session) == ("tool", "bash", 7.0)


async def test_a_turn_that_asks_waits_for_a_person(session: Session, run: AgentRun) -> None:
    await run.open_call("bash")
    run.begin(run.turn.ask("may I?", tool="bash"))
    await trio.sleep(7.0)

    assert await sole_wait(session) == ("person", "may I?", 7.0)


async def test_a_turn_waits_for_the_child_it_awaits(
    session: Session, run: AgentRun, fake_agent: FakeAgent
) -> None:
    child = await run.do(run.turn.spawn("fake", "errand"))
    run.begin(child.wait())
    await trio.sleep(7.0)
    why = await session.why()

    assert ids(why) == [session.id, child.id]
    assert [(one.waits_for, one.detail) for one in why.chain] == [
        ("child", child.id),
        ("model", None),
    ]
    assert why.waits_for == "model"


async def test_a_session_waits_for_a_turn_slot_while_other_sessions_run(
    fake_agent: FakeAgent,
) -> None:
    settings = Settings(max_running_turns=1)
    async with supervisor.open(agents=[fake_agent.agent], settings=settings) as sup:
        first, second = await sup.create("fake"), await sup.create("fake")
        await first.send("go")
        await settle()
        await second.send("go")
        await trio.sleep(7.0)

        assert await sole_wait(second) == ("turn_slot", None, 7.0)
        fake_agent.finish_open_runs()


async def test_a_child_waits_for_a_child_slot(sup: Supervisor) -> None:
    parent = await sup.create("fake", limits=Limits(max_children=1))
    child = await parent.spawn("echo", "errand", suspend_after_seconds=1.0)
    await trio.sleep(5.0)
    await parent.spawn("fake", "errand")
    await child.send("more")
    await trio.sleep(7.0)

    assert await sole_wait(child) == ("child_slot", parent.id, 7.0)


async def test_a_session_waits_for_its_zombie(
    shielded_session: Session, shielded_run: AgentRun
) -> None:
    await shielded_session.interrupt()
    await shielded_session.send("next")
    await trio.sleep(7.0)

    assert await sole_wait(shielded_session) == ("zombie", shielded_run.turn.id, 7.0)


async def test_a_session_waits_for_its_agent_to_come_up(
    sup: Supervisor, slow: SlowExitAgent, nursery: trio.Nursery
) -> None:
    slow.waits = True
    nursery.start_soon(sup.create, "slow")
    await trio.sleep(7.0)
    (info,) = (await sup.list()).items

    assert await sole_wait(sup.session(info.id)) == ("start", None, 7.0)
    slow.report_start()


async def test_a_session_waits_for_its_agent_to_be_started_again(sup: Supervisor) -> None:
    session = await sup.create("scripted", restart=Restart(backoff_seconds=100.0))
    await session.prompt("crash")
    await trio.sleep(7.0)

    assert await sole_wait(session) == ("restart", "the script says crash", 7.0)


async def test_a_session_that_stops_waits_for_the_end_of_its_agent(
    sup: Supervisor, slow: SlowExitAgent, nursery: trio.Nursery
) -> None:
    session = await sup.create("slow")
    nursery.start_soon(session.stop)
    await trio.sleep(7.0)

    assert await phase_of(session) == "stopping"
    assert await sole_wait(session) == ("end", None, 7.0)
    SlowStartAgent.close(slow)


async def test_a_stopping_session_waits_for_its_turn_to_end(
    shielded_session: Session, shielded_run: AgentRun, nursery: trio.Nursery
) -> None:
    nursery.start_soon(shielded_session.stop)
    await trio.sleep(1.0)

    assert (await sole_wait(shielded_session))[0] == "end"


async def test_a_session_that_stops_waits_for_its_children_first(
    sup: Supervisor, session: Session, shielded_agent: FakeAgent, nursery: trio.Nursery
) -> None:
    child = await session.spawn("shielded", "errand")
    await shielded_agent.next_run()
    nursery.start_soon(session.stop)
    await trio.sleep(1.0)
    why = await session.why()

    assert ids(why) == [session.id, child.id]
    assert why.chain[0].waits_for == "child"


async def test_a_stopped_session_waits_for_nothing(sup: Supervisor, session: Session) -> None:
    await session.stop()
    await trio.sleep(7.0)

    assert await sole_wait(session) == ("nothing", "user_cancelled", 7.0)


async def test_why_of_an_unknown_session_raises_session_not_found(sup: Supervisor) -> None:
    with pytest.raises(SessionNotFound):
        await sup.session("s_nobody").why()


async def test_a_turn_waits_for_its_hooks(sup: Supervisor, session: Session) -> None:
    async def hang(_: object) -> None:
        await trio.sleep_forever()

    sup.hooks.add("turn_start", hang)
    await session.send("go")
    await trio.sleep(1.0)
    why = await session.why()

    assert why.waits_for != "model"


# Since when -----------------------------------------------------------------------------


async def test_a_wait_counts_from_the_last_progress(session: Session, run: AgentRun) -> None:
    await trio.sleep(50.0)
    await run.do(run.turn.say("."))
    await trio.sleep(7.0)
    (waits,) = (await session.why()).chain
    info = await session.info()

    assert waits.seconds == pytest.approx(7.0, abs=0.3)
    assert waits.since == pytest.approx(info.created_at + 50.0, abs=0.3)


async def test_a_change_of_title_does_not_restart_the_wait(
    sup: Supervisor, session: Session
) -> None:
    await trio.sleep(50.0)
    await session.set(title="another")
    await trio.sleep(7.0)

    assert (await sole_wait(session))[2] == 57.0


# For people -----------------------------------------------------------------------------


async def test_a_chain_reads_as_lines(
    sup: Supervisor, session: Session, run: AgentRun, fake_agent: FakeAgent
) -> None:
    child = await run.do(run.turn.spawn("fake", "errand"))
    run.begin(child.wait())
    await (await fake_agent.next_run()).open_call("bash")
    await trio.sleep(90.0)

    assert str(await session.why()).splitlines() == [
        f"{session.id} (fake, running) waits for child ({child.id}), for 90 s",
        f"{child.id} (fake, running) waits for tool (bash), for 90 s",
    ]


async def test_a_cycle_is_reported_as_a_cycle(sup: Supervisor, prompt_chain: PromptChain) -> None:
    one, two, three = await prompt_chain.create_sessions(sup)
    await one.send("round")
    await settle()
    last = str(await one.why()).splitlines()[-1]

    assert last == f"they wait for each other: {one.id} -> {two.id} -> {three.id} -> {one.id}"
    await one.stop()
