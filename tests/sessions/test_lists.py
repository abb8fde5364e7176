"""Finding and listing sessions."""

from __future__ import annotations

import pytest
import trio
import trio.testing

from supervisor import (
    Phase,
    Session,
    SessionNotFound,
    Supervisor,
)
from tests.support.fake_agents import AgentRun


async def ids(sup: Supervisor, **filters: object) -> list[str]:
    return [info.id for info in (await sup.list(**filters)).items]  # type: ignore[arg-type]


# get, exists, session -------------------------------------------------------------------


async def test_a_session_is_found_by_its_id(sup: Supervisor, session: Session) -> None:
    assert await sup.get(session.id) == session
    assert sup.session(session.id) == session
    assert await sup.exists(session.id)
    assert {session, sup.session(session.id)} == {session}


async def test_a_missing_session_is_not_found(sup: Supervisor) -> None:
    assert not await sup.exists("s_unknown_1")
    with pytest.raises(SessionNotFound):
        await sup.get("s_unknown_1")
    with pytest.raises(SessionNotFound):
        await sup.session("s_unknown_1").info()


# list -----------------------------------------------------------------------------------


async def test_sessions_are_listed_in_the_order_of_creation(sup: Supervisor) -> None:
    made = [(await sup.create("echo")).id for _ in range(5)]

    page = await sup.list()

    assert [info.id for info in page.items] == made
    assert page.next is None


async def test_a_list_item_equals_the_info_of_its_session(
    sup: Supervisor, session: Session
) -> None:
    assert (await sup.list()).items == (await session.info(),)


async def test_a_session_is_listed_when_all_filters_match(sup: Supervisor) -> None:
    a = await sup.create("echo", key="echo:irc:ann", tags=["x", "y"], workspace="/srv/a")
    b = await sup.create("scripted", key="echo:irc:bob", tags=["x"])
    c = await sup.create("scripted", tags=["y"])
    await b.send("sleep 1000")
    await c.stop()
    await c.archive()

    assert await ids(sup, agent="scripted") == [b.id, c.id]
    assert await ids(sup, tag="x") == [a.id, b.id]
    assert await ids(sup, tag="x", agent="scripted") == [b.id]
    assert await ids(sup, channel="irc") == [a.id, b.id]
    assert await ids(sup, peer="bob") == [b.id]
    assert await ids(sup, workspace="/srv/a") == [a.id]
    assert await ids(sup, phase="running") == [b.id]
    assert await ids(sup, phase=Phase.STOPPED) == [c.id]
    assert await ids(sup, badge="idle") == [a.id]
    assert await ids(sup, archived=True) == [c.id]
    assert await ids(sup, archived=False) == [a.id, b.id]
    assert await ids(sup, tag="z") == []


async def all_pages(sup: Supervisor, limit: int, **filters: str) -> list[list[str]]:
    pages: list[list[str]] = []
    cursor: str | None = None
    while not pages or cursor is not None:
        page = await sup.list(limit=limit, cursor=cursor, **filters)  # type: ignore[arg-type]
        pages.append([info.id for info in page.items])
        cursor = page.next
    return pages


@pytest.mark.parametrize("limit", [1, 2, 3, 5, 7])
async def test_pages_contain_every_session_once_in_order(sup: Supervisor, limit: int) -> None:
    made = [(await sup.create("echo")).id for _ in range(6)]

    pages = await all_pages(sup, limit)

    assert [one for page in pages for one in page] == made
    assert max(map(len, pages)) <= limit


async def test_pages_of_a_filtered_list_are_full(sup: Supervisor) -> None:
    made = [(await sup.create("echo", tags=["x"] if n % 3 else [])).id for n in range(9)]

    pages = await all_pages(sup, 2, tag="x")

    wanted = [one for n, one in enumerate(made) if n % 3]
    assert pages == [wanted[:2], wanted[2:4], wanted[4:]]


async def test_sessions_created_or_deleted_between_pages_shift_nothing(sup: Supervisor) -> None:
    made = [(await sup.create("echo")).id for _ in range(6)]
    first = await sup.list(limit=3)

    await sup.delete(made[0])
    await sup.delete(made[2])
    await sup.delete(made[4])
    late = (await sup.create("echo")).id
    rest = await sup.list(limit=3, cursor=first.next)

    assert [info.id for info in rest.items] == [made[3], made[5], late]


async def test_a_cursor_at_the_end_returns_an_empty_page(sup: Supervisor) -> None:
    made = [(await sup.create("echo")).id for _ in range(3)]
    first = await sup.list(limit=2)
    await sup.delete(made[2])

    rest = await sup.list(limit=2, cursor=first.next)

    assert (rest.items, rest.next) == ((), None)


async def test_listing_during_changes_returns_each_session_at_most_once(
    sup: Supervisor,
) -> None:
    stay = [(await sup.create("echo")).id for _ in range(150)]
    go = [(await sup.create("echo")).id for _ in range(50)]
    seen: list[str] = []

    async def churn() -> None:
        for one in go:
            await sup.delete(one)
            await sup.create("echo")

    async def read() -> None:
        seen.extend(one for page in await all_pages(sup, 20) for one in page)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(churn)
        nursery.start_soon(read)

    assert len(seen) == len(set(seen))
    assert set(stay) <= set(seen)


async def test_a_running_session_is_listed_with_its_current_state(
    sup: Supervisor, session: Session, run: AgentRun
) -> None:
    [info] = (await sup.list()).items

    assert (info.phase, info.turn_id) == (Phase.RUNNING, run.turn.id)
