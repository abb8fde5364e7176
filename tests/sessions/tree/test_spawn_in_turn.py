"""Children as an agent has them: spawned, waited for, steered and stopped from inside a turn."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
import trio

import supervisor
from actors.testing import settle
from supervisor import (
    AgentUnknown,
    InputRefused,
    Limits,
    NameTaken,
    PermissionDenied,
    PythonAgent,
    Session,
    SessionNotFound,
    SpawnRefused,
    Supervisor,
    Turn,
    TurnOver,
)
from tests.support.fake_agents import AgentRun, FakeAgent, records, texts
from tests.support.session_states import SlowStartAgent, phase_of
from tests.support.tree_queries import check_tree_counts, refusal, tree_of


async def test_an_agent_waits_for_the_result_of_its_child(
    run: AgentRun, child_agent: FakeAgent
) -> None:
    child = await run.do(run.turn.spawn("child-agent", "errand"))
    waiting = run.begin(child.wait())
    (await child_agent.next_run()).finish("the answer")

    result = await waiting.wait()
    assert (result.text, result.outcome) == ("the answer", "completed")


async def test_every_refusal_of_a_child_of_an_agent_needs_attention(
    session: Session, run: AgentRun, child_agent: FakeAgent
) -> None:
    await run.do(run.turn.spawn("child-agent", "x", name="taken"))
    spawns: tuple[tuple[str, dict[str, Any], type[Exception]], ...] = (
        ("nobody", {}, AgentUnknown),
        ("nobody", {}, AgentUnknown),
        ("child-agent", {"name": "taken"}, NameTaken),
        ("child-agent", {"answers_for_children": True}, SpawnRefused),
    )
    for agent, options, kind in spawns:
        with pytest.raises(kind):
            await run.do(run.turn.spawn(agent, "x", **options))

    refused = [record.body["limit"] for record in await records(session, "spawn_refused")]
    assert refused == ["agent", "name", "permissions"]
    assert [one.kind for one in (await session.info()).attention] == ["refused_spawn"]


async def test_a_user_gets_the_error_of_an_unknown_agent_without_a_record(session: Session) -> None:
    with pytest.raises(AgentUnknown):
        await session.spawn("nobody", "x")

    assert await records(session, "spawn_refused") == []


async def test_a_result_can_be_waited_for_twice_and_late(
    child: Session, child_run: AgentRun
) -> None:
    child_run.finish("the answer")
    first = await child.wait()
    await child.stop()

    assert await child.wait() == first


async def test_a_child_is_idle_after_its_first_turn(child: Session, child_run: AgentRun) -> None:
    child_run.finish()
    await child.wait()
    await settle()

    assert await phase_of(child) == "idle"


async def test_wait_of_a_root_session_is_refused(session: Session) -> None:
    with pytest.raises(InputRefused, match="was not spawned"):
        await session.wait()


async def test_an_agent_steers_its_child(run: AgentRun, child_agent: FakeAgent) -> None:
    child = await run.do(run.turn.spawn("child-agent", "errand"))
    at_work = await child_agent.next_run()
    await run.do(child.steer("shorter"))

    assert at_work.turn.steering() == ["shorter"]


async def test_an_agent_interrupts_its_child_and_prompts_it_again(
    run: AgentRun, child_agent: FakeAgent
) -> None:
    child = await run.do(run.turn.spawn("child-agent", "errand"))
    await child_agent.next_run()
    report = await run.do(child.interrupt())
    again = run.begin(child.prompt("once more"))
    (await child_agent.next_run()).finish("here")

    assert report.stopped == 1
    assert (await child.wait()).outcome == "interrupted"
    assert (await again.wait()).text == "here"


async def test_an_agent_stops_its_child(
    sup: Supervisor, run: AgentRun, child_agent: FakeAgent
) -> None:
    child = await run.do(run.turn.spawn("child-agent", "errand"))
    await run.do(child.stop())

    assert (await child.info()).stop_reason == "user_cancelled"
    await check_tree_counts(sup)


async def test_an_agent_reaches_all_its_descendants(
    sup: Supervisor, run: AgentRun, child: Session
) -> None:
    below = await child.spawn("child-agent", "deeper")

    assert (await run.do(run.turn.descendant(child.id))).id == child.id
    assert (await run.do(run.turn.descendant(below.id))).id == below.id


async def test_an_agent_reaches_only_its_descendants(
    sup: Supervisor, session: Session, run: AgentRun, fake_agent: FakeAgent
) -> None:
    stranger = await sup.create("fake")
    strangers_child = await stranger.spawn("child-agent", "errand")
    odd: list[object] = [stranger.id, strangers_child.id, session.id, "s_none", "", None, 7, ["x"]]

    for other in odd:
        with pytest.raises(PermissionDenied):
            await run.do(run.turn.descendant(other))  # type: ignore[arg-type]


async def test_a_child_reaches_neither_its_parent_nor_its_siblings(
    session: Session, child: Session, child_run: AgentRun
) -> None:
    sibling = await session.spawn("child-agent", "other")

    for other in (session.id, sibling.id):
        with pytest.raises(PermissionDenied):
            await child_run.do(child_run.turn.descendant(other))


async def test_a_turn_that_is_over_has_no_children(session: Session, run: AgentRun) -> None:
    run.finish()
    await settle()

    for late in (run.turn.spawn("child-agent", "late"), run.turn.descendant(session.id)):
        with pytest.raises(TurnOver):
            await late
    with pytest.raises(TurnOver):
        run.turn.news()
    assert await records(session, "child_started") == []


async def test_a_refusal_is_the_agents_to_handle(sup: Supervisor, fake_agent: FakeAgent) -> None:
    parent = await sup.create("fake", limits=Limits(max_depth=0))
    await parent.send("go")
    run = await fake_agent.next_run()

    refused = await refusal(run.do(run.turn.spawn("child-agent", "errand")))
    run.finish("never mind")

    assert (refused.limit, refused.used, refused.allowed) == ("max_depth", 0, 0)


async def test_a_script_can_spawn(sup: Supervisor) -> None:
    session = await sup.create("scripted")
    result = await session.prompt("spawn echo hello there")
    (child,) = (await session.info()).children

    assert result.text == f"spawned {child}\n"
    assert (await sup.session(child).wait()).text == "hello there"


async def test_a_script_above_the_spawn_limit_fails_only_its_turn(sup: Supervisor) -> None:
    session = await sup.create("scripted", limits=Limits(max_children=1))
    result = await session.prompt("spawn echo one\nspawn echo two")

    assert result.outcome == "failed"
    assert "max_children" in str(result.error) or "live children" in str(result.error)
    assert await phase_of(session) == "idle"


async def test_the_spawn_text_is_user_text_of_the_child_only(
    session: Session, child: Session, child_run: AgentRun
) -> None:
    assert texts(await records(child, "user_text")) == ["errand"]
    assert await records(session, "user_text") == []


async def test_spawns_of_an_archived_parent_are_refused(session: Session) -> None:
    await session.stop()
    await session.archive()

    assert (await refusal(session.spawn("child-agent", "errand"))).limit == "parent"


async def test_a_spawn_below_a_missing_session_is_not_found(sup: Supervisor) -> None:
    with pytest.raises(SessionNotFound):
        await sup.session("s_none").spawn("child-agent", "errand")
    assert tree_of(sup).live == set()


async def test_a_suspended_parent_wakes_up_for_its_child(sup: Supervisor) -> None:
    parent = await sup.create("fake", suspend_after_seconds=10.0)
    await trio.sleep(20.0)
    assert await phase_of(parent) == "suspended"

    await parent.spawn("child-agent", "errand")

    assert await phase_of(parent) == "idle"


def test_a_refusal_inside_a_turn_is_a_supervisor_error() -> None:
    assert SpawnRefused.code == "spawn_refused"


# Every wait ends ----------------------------------------------------------------------------------


async def test_waiting_for_a_stopped_child_returns_the_result_of_its_spawn_text(
    run: AgentRun, child_agent: FakeAgent
) -> None:
    child = await run.do(run.turn.spawn("child-agent", "errand"))
    waiting = run.begin(child.wait())
    await child_agent.next_run()
    await run.do(child.stop())

    assert (await waiting.wait()).outcome == "interrupted"


async def test_waiting_for_a_child_that_is_deleted_ends(
    sup: Supervisor, run: AgentRun, child_agent: FakeAgent
) -> None:
    child = await run.do(run.turn.spawn("child-agent", "errand"))
    waiting = run.begin(child.wait())
    await child_agent.next_run()
    await sup.delete(child.id)
    await settle()

    assert waiting.done.is_set()


async def test_waiting_for_a_spawn_text_that_never_ran_raises(
    run: AgentRun, slow: SlowStartAgent
) -> None:
    async def spawn_and_wait() -> object:
        return await (await run.turn.spawn("slow", "errand", ttl_seconds=5.0)).wait()

    with pytest.raises(InputRefused, match="cancelled"):
        await run.do(spawn_and_wait())


async def test_an_agent_does_not_wait_for_itself() -> None:
    refused: list[str] = []

    async def selfish(turn: Turn) -> None:
        await settle()  # until the test holds the session
        own = held[0]
        for wait in (partial(own.prompt, "x"), own.wait, own.wait_stopped):
            with pytest.raises(InputRefused):
                await wait()
            refused.append(turn.text)

    held: list[Session] = []
    async with supervisor.open(":memory:", agents=[PythonAgent("selfish", selfish)]) as sup:
        parent = await sup.create("echo")
        held.append(await parent.spawn("selfish", "errand", ttl_seconds=0.5))
        await held[0].wait_stopped()
        held[0] = await parent.spawn("selfish", "again")
        await held[0].wait()

    assert refused.count("again") == 3
