"""Lists: in pages that nothing shifts, by anything that a session is known by."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio

import supervisor
from supervisor import Info, Phase, Session, Supervisor
from supervisor.core.ids import SessionId
from supervisor.store.port import Write
from tests.support.fake_agents import FakeAgent
from tests.support.store_samples import row


async def ids(sup: Supervisor, **filters: object) -> list[str]:
    return [info.id for info in (await sup.list(**filters)).items]  # type: ignore[arg-type]


async def every(sup: Supervisor, *, limit: int) -> list[Info]:
    """All pages."""
    found: list[Info] = []
    page = await sup.list(limit=limit)
    found += page.items
    while page.next is not None:
        page = await sup.list(limit=limit, cursor=page.next)
        found += page.items
    return found


@pytest.fixture
async def three(sup: Supervisor) -> list[Session]:
    """A keyed one, one that is over, and one with a name, a second apart."""
    keyed = await sup.create("echo", key="echo:irc:ann", tags=["red", "blue"])
    await trio.sleep(1.0)
    over = await sup.create("fake", workspace="/srv", title="An OLD plan")
    await over.stop()
    await trio.sleep(1.0)
    return [keyed, over, await sup.create("echo", name="release", tags=["red"])]


FILTERS: dict[str, tuple[dict[str, object], list[int]]] = {
    "agent": ({"agent": "echo"}, [0, 2]),
    "channel": ({"channel": "irc"}, [0]),
    "peer": ({"peer": "ann"}, [0]),
    "phase": ({"phase": "stopped"}, [1]),
    "phase as it is": ({"phase": Phase.IDLE}, [0, 2]),
    "badge": ({"badge": "idle"}, [0, 2]),
    "badge of what is over": ({"badge": "stopped"}, [1]),
    "tag": ({"tag": "red"}, [0, 2]),
    "two": ({"tag": "red", "channel": "irc"}, [0]),
    "none": ({"tag": "red", "phase": "stopped"}, []),
    "workspace": ({"workspace": "/srv"}, [1]),
    "workspace written otherwise": ({"workspace": "/srv/./x/../"}, [1]),
    "archived": ({"archived": True}, []),
    "title": ({"text": "old PLAN"}, [1]),
    "name": ({"text": "Release"}, [2]),
    "key": ({"text": "irc:ann"}, [0]),
    "created after": ({"created_after": 1_000_000_000.5}, [1, 2]),
    "created before": ({"created_before": 1_000_000_000.5}, [0]),
    "created between": ({"created_after": 1e9 + 0.5, "created_before": 1e9 + 1.5}, [1]),
    "updated after": ({"updated_after": 1_000_000_001.5}, [2]),
    "updated before": ({"updated_before": 1_000_000_001.5}, [0, 1]),
}


@pytest.mark.parametrize(("filters", "places"), FILTERS.values(), ids=FILTERS.keys())
async def test_a_list_returns_the_matching_sessions(
    sup: Supervisor, three: list[Session], filters: dict[str, object], places: list[int]
) -> None:
    assert await ids(sup, **filters) == [three[place].id for place in places]


async def test_children_are_listed_by_parent_and_root(
    sup: Supervisor, fake_agent: FakeAgent, child_agent: FakeAgent
) -> None:
    root = await sup.create("fake")
    child = await root.spawn("child-agent", "help")
    grandchild = await child.spawn("child-agent", "help")

    assert await ids(sup, parent=root.id) == [child.id]
    assert await ids(sup, root=root.id) == [root.id, child.id, grandchild.id]
    assert fake_agent.runs == []
    await child_agent.next_run()


# Pages -----------------------------------------------------------------------------------


@pytest.mark.parametrize("limit", [1, 2, 3, 7, 100])
async def test_pages_have_every_session_once_and_in_order(sup: Supervisor, limit: int) -> None:
    made = [(await sup.create("echo")).id for _ in range(7)]

    assert [info.id for info in await every(sup, limit=limit)] == made


async def test_changes_between_pages_shift_no_session(sup: Supervisor) -> None:
    made = [(await sup.create("echo")).id for _ in range(6)]
    first = await sup.list(limit=2)

    for gone in (made[0], made[1], made[2]):
        await sup.delete(gone)
    new = (await sup.create("echo")).id
    second = await sup.list(limit=2, cursor=first.next)
    third = await sup.list(limit=2, cursor=second.next)

    assert [info.id for info in second.items] == made[3:5]
    assert [info.id for info in third.items] == [made[5], new]
    assert third.next is None


async def test_a_page_that_is_just_full_has_no_next(sup: Supervisor) -> None:
    await sup.create("echo")

    assert (await sup.list(limit=1)).next is None


async def test_pages_of_a_filter_are_as_long_as_asked(sup: Supervisor) -> None:
    made = [(await sup.create("echo", tags=["x"] if at % 3 == 0 else [])).id for at in range(12)]

    first = await sup.list(tag="x", limit=3)
    rest = await sup.list(tag="x", limit=3, cursor=first.next)

    assert [info.id for info in (*first.items, *rest.items)] == made[::3]


async def test_ten_thousand_are_listed(sup: Supervisor) -> None:
    rows = [row(SessionId(f"s_{at:05}"), phase=Phase.STOPPED) for at in range(10_000)]
    await sup._services.store.commit([Write(one.id, 0, (), one) for one in rows])

    found = await sup.list(limit=20_000)
    page = await sup.list(limit=50, text="matches no session")

    assert len(found.items) == 10_000
    assert (page.items, page.next) == ((), None)


# Where it is the same --------------------------------------------------------------------


async def test_listed_infos_equal_info(sup: Supervisor, three: list[Session]) -> None:
    listed = (await sup.list()).items

    assert list(listed) == [await session.info() for session in three]


async def test_a_cursor_is_good_when_the_file_is_opened_again(path: Path) -> None:
    async with supervisor.open(path) as sup:
        made = [(await sup.create("echo")).id for _ in range(4)]
        page = await sup.list(limit=1)
        await sup.delete(made[0])
        await sup.delete(made[3])

    async with supervisor.open(path) as sup:
        new = (await sup.create("echo")).id
        rest = await sup.list(cursor=page.next)

    assert [info.id for info in rest.items] == [made[1], made[2], new]
