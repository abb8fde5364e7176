"""News of children: what a parent's records say, and what its agent reads."""

from __future__ import annotations

from functools import partial

import pytest
import trio

from actors.testing import settle
from supervisor import Limits, Session, Supervisor
from supervisor.drivers.port import News
from supervisor.drivers.python import AgentDied
from tests.support.fake_agents import AgentRun, FakeAgent, records
from tests.support.session_states import NEVER, phase_of
from tests.support.tree_queries import all_at_once, begin, ends

NEWS = ("child_started", "child_ended")


def told(news: list[News]) -> list[tuple[str, str]]:
    return [(one.kind, one.child) for one in news]


# Records ------------------------------------------------------------------------------------------


async def test_the_end_of_a_childs_first_turn_is_recorded_by_its_parent(
    session: Session, child: Session, child_run: AgentRun
) -> None:
    child_run.finish("all done")
    await settle()

    started, ended = await records(session, *NEWS)
    assert (started.kind, ended.kind) == ("child_started", "child_ended")
    assert (ended.body["child"], ended.body["outcome"]) == (child.id, "completed")
    assert (ended.body["text"], ended.body["reason"]) == ("all done", None)


@pytest.mark.parametrize(
    ("error", "outcome"), [(RuntimeError("oops"), "failed"), (AgentDied("oops"), "lost")]
)
async def test_a_failed_spawn_text_is_reported_as_failed(
    session: Session, child: Session, child_run: AgentRun, error: Exception, outcome: str
) -> None:
    child_run.fail(error)
    await settle()

    (ended,) = await records(session, "child_ended")
    assert ended.body["outcome"] == outcome


async def test_the_stop_of_a_child_is_reported_with_its_reason(
    session: Session, child: Session, child_run: AgentRun
) -> None:
    child_run.finish("all done")
    await settle()
    await child.stop()
    await settle()

    (ended,) = await ends(session)
    assert (ended.body["reason"], ended.body["outcome"]) == ("user_cancelled", "completed")
    assert ended.body["text"] == "all done"


async def test_a_child_that_exhausted_its_restarts_is_reported_with_details(
    session: Session, child_agent: FakeAgent
) -> None:
    await session.spawn("child-agent", "x", restart=NEVER, name="Tom", role="tester")
    (await child_agent.next_run()).fail(AgentDied("on purpose"))
    await settle()

    (ended,) = await ends(session)
    body = ended.body
    assert (body["name"], body["role"], body["reason"]) == ("Tom", "tester", "agent_crashed")
    assert (body["outcome"], body["detail"]) == ("lost", "on purpose")


async def test_the_reported_text_is_the_last_text_of_the_child(
    session: Session, child: Session, child_run: AgentRun, child_agent: FakeAgent
) -> None:
    child_run.finish("first")
    await settle()
    await child.send("more")
    (await child_agent.next_run()).finish("last")
    await settle()
    await child.stop()
    await settle()

    (ended,) = await ends(session)
    assert ended.body["text"] == "last"


async def test_a_later_turn_of_a_child_sends_no_notification(
    session: Session, child: Session, child_run: AgentRun, child_agent: FakeAgent
) -> None:
    child_run.finish()
    await settle()
    await child.send("more")
    (await child_agent.next_run()).finish()
    await settle()

    assert len(await records(session, "child_ended")) == 1


async def test_the_text_of_news_is_truncated(
    session: Session, child: Session, child_run: AgentRun
) -> None:
    child_run.finish("é" * 100_000)
    await settle()

    (ended,) = await records(session, "child_ended")
    assert 0 < len(ended.body["text"]) <= 4096
    assert (await child.wait()).text == "é" * 100_000


async def test_only_the_parent_is_notified(
    session: Session, child: Session, child_run: AgentRun
) -> None:
    await child.spawn("child-agent", "y")
    await settle()

    assert len(await records(session, "child_started")) == 1
    assert len(await records(child, "child_started")) == 1


async def test_a_suspended_parent_is_notified_without_waking(
    sup: Supervisor, child_agent: FakeAgent
) -> None:
    parent = await sup.create("fake", suspend_after_seconds=10.0)
    child = await parent.spawn("child-agent", "x", suspend_after_seconds=1.0, ttl_seconds=100.0)
    (await child_agent.next_run()).finish()
    await trio.sleep(50.0)
    before = await phase_of(parent)
    await child.wait_stopped()
    await settle()

    assert (before, await phase_of(parent)) == ("suspended", "suspended")
    assert [one.body["reason"] for one in await ends(parent)] == ["ttl_expired"]


async def test_a_stopped_parent_is_notified_of_a_detached_child(
    session: Session, child_agent: FakeAgent
) -> None:
    await session.spawn("child-agent", "x", lifetime="detached", on_end="wake")
    at_work = await child_agent.next_run()
    await session.stop()
    at_work.finish("done")
    await settle()

    (ended,) = await records(session, "child_ended")
    assert ended.body["text"] == "done"
    assert await phase_of(session) == "stopped"


async def test_a_hundred_children_are_reported_once_each(
    sup: Supervisor, child_agent: FakeAgent
) -> None:
    limits = Limits(max_children=100, max_descendants=100)
    parent = await sup.create("fake", limits=limits)
    await all_at_once(*[partial(parent.spawn, "child-agent", "x")] * 100)
    await child_agent.finish_all()
    await settle()

    for kind in NEWS:
        children = [one.body["child"] for one in await records(parent, kind)]
        assert len(children) == len(set(children)) == 100


# What the agent reads -----------------------------------------------------------------------------


async def test_an_agent_reads_each_piece_of_news_once(
    run: AgentRun, child_agent: FakeAgent
) -> None:
    child = await run.do(run.turn.spawn("child-agent", "x"))
    first = run.turn.news()
    (await child_agent.next_run()).finish("done")
    await settle()
    second = run.turn.news()

    assert told(first) == [("child_started", child.id)]
    assert told(second) == [("child_ended", child.id)]
    assert (second[0].outcome, second[0].text, second[0].reason) == ("completed", "done", None)
    assert run.turn.news() == []


async def test_news_are_delivered_in_order(
    run: AgentRun, session: Session, child_agent: FakeAgent
) -> None:
    children = [await session.spawn("child-agent", "x") for _ in range(3)]
    runs = [await child_agent.next_run() for _ in range(3)]
    for at_work in reversed(runs):
        at_work.finish()
        await settle()

    expected = [("child_started", one.id) for one in children]
    expected += [("child_ended", one.id) for one in reversed(children)]
    assert told(run.turn.news()) == expected


async def test_news_are_delivered_at_the_next_turn(
    session: Session, child: Session, child_run: AgentRun, fake_agent: FakeAgent
) -> None:
    child_run.finish("done")
    await settle()
    run = await begin(session, fake_agent)
    news = run.turn.news()
    run.finish()
    again = await begin(session, fake_agent)

    assert told(news) == [("child_started", child.id), ("child_ended", child.id)]
    assert again.turn.news() == []


async def test_notifications_not_read_in_a_turn_are_read_in_the_next(
    session: Session, child: Session, fake_agent: FakeAgent
) -> None:
    (await begin(session, fake_agent)).finish()
    run = await begin(session, fake_agent)

    assert told(run.turn.news()) == [("child_started", child.id)]


async def test_news_are_kept_over_a_suspension(
    sup: Supervisor, fake_agent: FakeAgent, child_agent: FakeAgent
) -> None:
    parent = await sup.create("fake", suspend_after_seconds=10.0)
    child = await parent.spawn("child-agent", "x")
    run = await begin(parent, fake_agent)
    first = run.turn.news()
    run.finish()
    await child.stop()
    await trio.sleep(50.0)
    asleep = await phase_of(parent)
    run = await begin(parent, fake_agent)

    assert asleep == "suspended"
    assert told(first) == [("child_started", child.id)]
    assert told(run.turn.news()) == [("child_ended", child.id)]
    assert run.turn.news() == []


async def test_news_are_kept_over_a_stop(
    session: Session, child: Session, fake_agent: FakeAgent
) -> None:
    await session.stop()
    await session.resume()
    run = await begin(session, fake_agent)

    kinds = [one.kind for one in run.turn.news()]
    assert kinds == ["child_started", "child_ended"]


async def test_an_agent_without_children_has_no_news(run: AgentRun) -> None:
    assert run.turn.news() == []
