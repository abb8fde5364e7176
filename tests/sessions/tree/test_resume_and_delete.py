"""After the end: who comes back, what a copy of a child is, and what deleting leaves."""

from __future__ import annotations

from functools import partial

import supervisor
from actors.testing import explore, settle
from supervisor import (
    Session,
    Supervisor,
)
from tests.support.fake_agents import AgentRun, FakeAgent, records
from tests.support.session_states import phase_of
from tests.support.tree_queries import (
    WIDE,
    all_at_once,
    all_infos,
    check_tree_counts,
    ends,
    reason_of,
    refusal,
    tree_of,
)

# Coming back --------------------------------------------------------------------------------------


async def test_a_child_does_not_come_back_without_its_parent(
    session: Session, child: Session
) -> None:
    await session.stop()

    for way in (child.resume(), child.send("come back")):
        assert (await refusal(way)).limit == "parent"


async def test_resuming_a_parent_does_not_resume_its_children(
    session: Session, child: Session
) -> None:
    await session.stop()
    await session.resume()
    await settle()
    alone = (await session.info()).children
    await child.resume()

    assert alone == ()
    assert (await session.info()).children == (child.id,)


async def test_a_resumed_child_ignores_an_earlier_stop_order_of_its_parent(
    sup: Supervisor, session: Session, child: Session
) -> None:
    await session.stop()
    await session.resume()
    await child.resume()
    await sup._parts.router.order_stop_with_retry(
        child.id, "parent_stopped"
    )  # on its way since the stop
    await settle()

    assert await phase_of(child) == "idle"


async def test_resuming_a_child_is_recorded_by_its_parent(session: Session, child: Session) -> None:
    await child.stop()
    await child.resume()
    await settle()

    kinds = [one.kind for one in await records(session, "child_started", "child_ended")]
    assert kinds == ["child_started", "child_ended", "child_started"]


# Copies and deletions -----------------------------------------------------------------------------


async def test_a_copy_of_a_child_is_a_root(
    sup: Supervisor, child: Session, child_run: AgentRun
) -> None:
    await child_run.do(child_run.turn.say("so far"))
    child_run.finish()
    await settle()
    copy = await child.fork()
    info = await copy.info()

    assert (info.kind, info.parent, info.root, info.depth) == ("user", None, copy.id, 0)
    assert (info.role, info.expires_at) == (None, None)
    assert [message.text for message in await copy.transcript()] == ["errand", "so far"]
    await check_tree_counts(sup)


async def test_a_copy_of_a_child_outlives_its_parent(session: Session, child: Session) -> None:
    copy = await child.fork()
    await session.stop()

    assert await phase_of(copy) == "idle"


async def test_deleting_a_child_leaves_nothing_and_frees_its_slot(
    sup: Supervisor, session: Session, child: Session
) -> None:
    below = await child.spawn("child-agent", "y")
    await sup.delete(child.id)

    assert not await sup.exists(child.id)
    assert (await session.info()).children == ()
    assert await reason_of(below) == "parent_stopped"
    assert [one.body["child"] for one in await ends(session)] == [child.id]


async def test_deleting_a_parent_stops_its_children(
    sup: Supervisor, session: Session, child: Session
) -> None:
    await sup.delete(session.id)

    assert await reason_of(child) == "parent_stopped"
    assert (await refusal(child.resume())).limit == "parent"


async def test_a_child_can_be_deleted_after_its_parent(
    sup: Supervisor, session: Session, child: Session
) -> None:
    below = await child.spawn("child-agent", "y")
    await sup.delete(session.id)
    await sup.delete(below.id)
    await sup.delete(child.id)

    assert await all_infos(sup) == []
    assert tree_of(sup).live == set()


def test_concurrent_deletes_of_a_tree_remove_it() -> None:
    async def main() -> None:
        child_agent = FakeAgent("child-agent")
        async with supervisor.open(":memory:", agents=[child_agent.agent]) as sup:
            family = [await sup.create("child-agent", limits=WIDE)]
            for number in range(6):
                family.append(await family[number // 2].spawn("child-agent", "x"))
            results = await all_at_once(*(partial(sup.delete, one.id) for one in family))

            assert results == [None] * 7
            assert await all_infos(sup) == []
            assert tree_of(sup).live == set()

    assert explore(main, seeds=range(20)) == []


async def test_a_detached_child_of_a_deleted_parent_continues(
    sup: Supervisor, session: Session, child_agent: FakeAgent
) -> None:
    child = await session.spawn("child-agent", "x", lifetime="detached", on_end="wake")
    at_work = await child_agent.next_run()
    await sup.delete(session.id)
    at_work.finish("done")
    result = await child.wait()
    again = await all_at_once(partial(child.prompt, "more"), child_agent.finish_all)

    assert result.text == "done"
    assert not isinstance(again[0], Exception)


async def test_a_stopped_child_can_be_deleted_in_any_phase_of_its_parent(
    sup: Supervisor, session: Session, run: AgentRun
) -> None:
    children = [await session.spawn("child-agent", "x") for _ in range(3)]
    await children[0].stop()
    await sup.delete(children[0].id)
    run.finish()
    await settle()
    await children[1].stop()
    await sup.delete(children[1].id)
    await session.stop()
    await sup.delete(children[2].id)

    assert [one.id for one in await all_infos(sup)] == [session.id]


async def test_the_child_of_an_archived_parent_can_be_deleted(
    sup: Supervisor, session: Session, child: Session
) -> None:
    await session.stop()
    await session.archive()
    await sup.delete(child.id)

    assert not await sup.exists(child.id)
