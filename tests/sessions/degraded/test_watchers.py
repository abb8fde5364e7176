"""While the store is degraded reads go on, and show nothing that is not durable."""

from __future__ import annotations

from supervisor import Record, Session, Supervisor
from tests.support.fake_agents import AgentRun, Follow, numbers, records
from tests.support.fake_store import FailingStore, degrade


async def test_everything_can_be_read(
    store: FailingStore, sup: Supervisor, session: Session, run: AgentRun
) -> None:
    await run.do(run.turn.say("so far"))
    before = await session.info()
    await degrade(store, sup)

    assert await session.info() == before
    assert [info.id for info in (await sup.list()).items] == [session.id]
    assert [node.id for node in await sup.tree()] == [session.id]
    assert (await sup.stats()).sessions == 1
    assert await sup.permissions() == ()
    assert [message.text for message in await session.transcript()][:1] == ["first"]
    assert [group.turn_id for group in await session.history()][-1] == run.turn.id
    assert await sup.exists(session.id)
    assert await session.inputs() == []
    assert await session.rules() == []
    assert str(await session.why())


async def test_a_new_watcher_sees_only_durable_records(
    store: FailingStore, sup: Supervisor, session: Session, run: AgentRun, follow: Follow
) -> None:
    durable = [record.seq for record in await records(session)]
    await degrade(store, sup)
    await run.do(run.turn.plan(["one"]))

    seen = await follow(session)

    assert numbers(seen) == durable


async def test_a_global_feed_sees_only_durable_records(
    store: FailingStore, sup: Supervisor, session: Session
) -> None:
    durable = await records(session)
    await degrade(store, sup)

    seen: list[Record] = []
    async with sup.watch() as everything:
        async for item in everything:
            seen.append(item)
            if len(seen) == len(durable):
                break

    assert seen == durable


async def test_a_watcher_sees_every_record_once_and_in_order_after_recovery(
    store: FailingStore, sup: Supervisor, session: Session, run: AgentRun, follow: Follow
) -> None:
    seen = await follow(session)
    await degrade(store, sup)
    await run.do(run.turn.plan(["one"]))
    await session.interrupt()
    before = numbers(seen)

    await store.recover()

    assert before == numbers(seen)[: len(before)]
    assert numbers(seen) == [record.seq for record in await records(session)]
    assert len(numbers(seen)) > len(before) + 2
