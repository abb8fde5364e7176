"""While the store is degraded reads go on, and show nothing that is not durable."""

from __future__ import annotations

from supervisor import Record, Session, Supervisor
from tests.sessions.cast import Follow, Scene, numbers, records
from tests.sessions.degraded.frail import FrailStore, make_known


async def test_everything_can_be_read(
    store: FrailStore, sup: Supervisor, session: Session, scene: Scene
) -> None:
    await scene.do(scene.turn.say("so far"))
    before = await session.info()
    await make_known(store, sup)

    assert await session.info() == before
    assert [info.id for info in (await sup.list()).items] == [session.id]
    assert [node.id for node in await sup.tree()] == [session.id]
    assert (await sup.stats()).sessions == 1
    assert await sup.permissions() == ()
    assert [message.text for message in await session.transcript()][:1] == ["first"]
    assert [group.turn_id for group in await session.history()][-1] == scene.turn.id
    assert await sup.exists(session.id)
    assert await session.inputs() == []
    assert await session.rules() == []
    assert str(await session.why())


async def test_whoever_begins_to_watch_sees_what_is_durable(
    store: FrailStore, sup: Supervisor, session: Session, scene: Scene, follow: Follow
) -> None:
    durable = [record.seq for record in await records(session)]
    await make_known(store, sup)
    await scene.do(scene.turn.plan(["one"]))

    seen = await follow(session)

    assert numbers(seen) == durable


async def test_whoever_watches_everything_sees_what_is_durable(
    store: FrailStore, sup: Supervisor, session: Session
) -> None:
    durable = await records(session)
    await make_known(store, sup)

    seen: list[Record] = []
    async with sup.watch() as everything:
        async for item in everything:
            seen.append(item)
            if len(seen) == len(durable):
                break

    assert seen == durable


async def test_a_watcher_sees_all_of_it_once_and_in_order_in_the_end(
    store: FrailStore, sup: Supervisor, session: Session, scene: Scene, follow: Follow
) -> None:
    seen = await follow(session)
    await make_known(store, sup)
    await scene.do(scene.turn.plan(["one"]))
    await session.interrupt()
    before = numbers(seen)

    await store.get_well()

    assert before == numbers(seen)[: len(before)]
    assert numbers(seen) == [record.seq for record in await records(session)]
    assert len(numbers(seen)) > len(before) + 2
