"""Children that wake their parents when they end: once, and beyond the cap of the queue."""

from __future__ import annotations

from typing import Any

import pytest
import trio

from actors.testing import settle
from supervisor import Limits, Session, Supervisor
from supervisor.drivers.port import News
from supervisor.drivers.python import AgentDied
from tests.support.fake_agents import AgentRun, FakeAgent, records, waiting_texts
from tests.support.session_states import NEVER, phase_of
from tests.support.tree_queries import all_infos, begin, ends


def told(news: list[News]) -> list[tuple[str, str]]:
    return [(one.kind, one.child) for one in news]


async def spawn_waking(
    parent: Session,
    child_agent: FakeAgent,
    **options: Any,  # noqa: ANN401 - options of `spawn`
) -> tuple[Session, AgentRun]:
    child = await parent.spawn("child-agent", "x", on_end="wake", **options)
    return child, await child_agent.next_run()


async def test_a_child_that_is_to_wake_its_parent_does(
    session: Session, fake_agent: FakeAgent, child_agent: FakeAgent
) -> None:
    child, at_work = await spawn_waking(session, child_agent, name="Tom")
    at_work.finish("the answer")
    woken = await fake_agent.next_run()

    assert child.id in woken.turn.text
    assert "Tom" in woken.turn.text
    assert "the answer" in woken.turn.text
    (turn,) = await records(session, "turn_started")
    (accepted,) = await records(session, "input_accepted")
    assert turn.body["source"] == accepted.body["source"] == "child"
    assert told(woken.turn.news())[-1] == ("child_ended", child.id)


async def test_a_child_with_on_end_tell_does_not_wake_its_parent(
    session: Session, child: Session, child_run: AgentRun
) -> None:
    child_run.finish()
    await settle()

    assert await phase_of(session) == "idle"
    assert await records(session, "input_accepted") == []


async def test_a_suspended_parent_is_woken(
    sup: Supervisor, fake_agent: FakeAgent, child_agent: FakeAgent
) -> None:
    parent = await sup.create("fake", suspend_after_seconds=10.0)
    child = await parent.spawn("child-agent", "x", on_end="wake", lifetime="detached")
    at_work = await child_agent.next_run()
    await trio.sleep(50.0)
    before = await phase_of(parent)
    at_work.finish()
    woken = await fake_agent.next_run()

    assert before == "suspended"
    assert child.id in woken.turn.text


async def test_children_that_end_while_their_parent_is_busy_wake_it_once(
    session: Session, fake_agent: FakeAgent, run: AgentRun, child_agent: FakeAgent
) -> None:
    family = [await spawn_waking(session, child_agent) for _ in range(4)]
    for _, at_work in family:
        at_work.finish()
    await settle()
    (waiting,) = await session.inputs()
    run.finish()
    woken = await fake_agent.next_run()

    assert woken.turn.text == waiting.text
    assert all(child.id in waiting.text for child, _ in family)
    woken.finish()
    await settle()
    assert await phase_of(session) == "idle"


async def test_children_that_end_together_lose_no_news(
    session: Session, fake_agent: FakeAgent, child_agent: FakeAgent
) -> None:
    family = [await spawn_waking(session, child_agent) for _ in range(5)]
    for _, at_work in family:
        at_work.finish()
    texts = await fake_agent.finish_all()

    assert all(any(child.id in text for text in texts) for child, _ in family)
    assert sum(text.count("ended") for text in texts) == 5
    assert len(texts) <= 2


async def test_waking_a_parent_does_not_count_towards_its_cap(
    sup: Supervisor, fake_agent: FakeAgent, child_agent: FakeAgent
) -> None:
    parent = await sup.create("fake", queue_cap=1)
    await begin(parent, fake_agent)
    await parent.send("waits")
    child, at_work = await spawn_waking(parent, child_agent)
    at_work.finish()
    await settle()

    waiting = await waiting_texts(parent)
    assert waiting[0] == "waits"
    assert len(waiting) == 2
    assert child.id in waiting[1]


async def test_the_wake_up_input_does_not_count_towards_the_queue_cap(
    sup: Supervisor, fake_agent: FakeAgent, child_agent: FakeAgent
) -> None:
    parent = await sup.create("fake", queue_cap=1)
    await begin(parent, fake_agent)
    _, at_work = await spawn_waking(parent, child_agent)
    at_work.finish()
    await settle()
    receipt = await parent.send("waits")

    assert (receipt.status, len(await parent.inputs())) == ("queued", 2)


async def test_a_child_stopped_after_its_spawn_text_does_not_wake_again(
    session: Session, fake_agent: FakeAgent, child_agent: FakeAgent
) -> None:
    child, at_work = await spawn_waking(session, child_agent)
    at_work.finish()
    (await fake_agent.next_run()).finish()
    await settle()
    await child.stop()
    await settle()

    assert await phase_of(session) == "idle"
    assert len(await ends(session)) == 1
    assert len(await records(session, "turn_started")) == 1


@pytest.mark.parametrize("way", ["stop", "ttl", "crash"])
async def test_a_child_that_stops_before_its_turn_ends_wakes_its_parent_once(
    session: Session, fake_agent: FakeAgent, child_agent: FakeAgent, way: str
) -> None:
    options: dict[str, Any] = {"restart": NEVER}
    if way == "ttl":
        options["ttl_seconds"] = 5.0
    child, at_work = await spawn_waking(session, child_agent, **options)
    if way == "stop":
        await child.stop()
    elif way == "crash":
        at_work.fail(AgentDied("on purpose"))
    await child.wait_stopped()
    texts = await fake_agent.finish_all()

    assert texts
    assert all(child.id in text for text in texts)
    assert len(texts) == 1, texts


async def test_a_child_that_fails_after_its_spawn_text_wakes_its_parent(
    session: Session, fake_agent: FakeAgent, child_agent: FakeAgent
) -> None:
    child, at_work = await spawn_waking(session, child_agent, restart=NEVER)
    at_work.finish()
    await fake_agent.finish_all()
    await child.send("more")
    (await child_agent.next_run()).fail(AgentDied("on purpose"))
    (text,) = await fake_agent.finish_all()

    assert child.id in text
    assert "agent_crashed" in text


async def test_a_notification_above_the_input_limit_is_truncated_and_wakes(
    sup: Supervisor, fake_agent: FakeAgent, child_agent: FakeAgent
) -> None:
    parent = await sup.create("fake", max_text_bytes=100)
    _, at_work = await spawn_waking(parent, child_agent)
    at_work.finish("ü" * 1000)
    woken = await fake_agent.next_run()

    assert 0 < len(woken.turn.text.encode()) <= 100


async def test_a_parent_with_a_spent_budget_is_not_woken(
    sup: Supervisor, child_agent: FakeAgent
) -> None:
    parent = await sup.create("fake", limits=Limits(turns=1))
    _, at_work = await spawn_waking(parent, child_agent)
    at_work.finish()
    await settle()

    assert await records(parent, "input_accepted") == []
    assert [one.body["reason"] for one in await ends(parent)] == ["max_turns"]


async def test_a_spawn_text_cancelled_before_it_runs_is_reported_as_interrupted(
    sup: Supervisor, session: Session
) -> None:
    child = await session.spawn("child-agent", "x")
    await child.stop()
    await settle()

    outcomes = {one.body["outcome"] for one in await records(session, "child_ended")}
    assert outcomes == {"interrupted"}


async def test_no_parent_is_woken_while_the_supervisor_leaves(
    sup: Supervisor, session: Session, child_agent: FakeAgent, fake_agent: FakeAgent
) -> None:
    await spawn_waking(session, child_agent)
    await sup.drain()
    await settle()

    assert fake_agent.runs == []
    assert {one.phase for one in await all_infos(sup)} == {"suspended"}


async def test_a_woken_parent_without_a_child_slot_waits(
    sup: Supervisor, child_agent: FakeAgent
) -> None:
    root = await sup.create("fake", limits=Limits(max_children=1))
    middle = await root.spawn("child-agent", "x", suspend_after_seconds=1.0)
    first = await child_agent.next_run()
    _, at_work = await spawn_waking(middle, child_agent, lifetime="detached")
    first.finish()
    await trio.sleep(5.0)
    other = await root.spawn("child-agent", "other")
    at_work.finish("news")
    await settle()
    before = await phase_of(middle)
    await other.stop()
    await settle()

    assert (before, await phase_of(middle)) == ("suspended", "running")
