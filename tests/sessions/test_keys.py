"""Finding sessions: by key, which at most one unarchived session bears; by id; by listing."""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest
import trio
import trio.testing

from supervisor import (
    AgentUnknown,
    KeyTaken,
    Phase,
    Session,
    SessionKey,
    SessionNotFound,
    Supervisor,
    SupervisorError,
)
from supervisor.store.port import Write
from tests.support.fake_agents import AgentRun, FakeAgent, records

KEY = "echo:irc:ann"


async def ids(sup: Supervisor, **filters: object) -> list[str]:
    return [info.id for info in (await sup.list(**filters)).items]  # type: ignore[arg-type]


async def bearers(sup: Supervisor, key: str = KEY) -> list[str]:
    """The unarchived sessions that bear the key."""
    return [i.id for i in (await sup.list()).items if i.key == key and not i.archived]


# get_or_create -----------------------------------------------------------------------------------


async def test_get_or_create_creates_once_and_then_finds_the_session(sup: Supervisor) -> None:
    made = await sup.get_or_create(KEY)

    found = await sup.get_or_create(SessionKey("echo", "irc", "ann"))

    assert found == made
    assert (await made.info()).key == KEY


async def test_the_agent_is_the_keys_own_unless_another_is_named(sup: Supervisor) -> None:
    own = await sup.get_or_create("echo:irc:ann")
    other = await sup.get_or_create("anything:irc:bob", agent="scripted", tags=["t"])

    assert (await own.info()).agent == "echo"
    assert ((await other.info()).agent, (await other.info()).tags) == ("scripted", ("t",))


async def test_a_key_of_an_unknown_agent_makes_nothing(sup: Supervisor) -> None:
    with pytest.raises(AgentUnknown):
        await sup.get_or_create("nobody:irc:ann")

    assert (await sup.list()).items == ()
    found = await sup.get_or_create("nobody:irc:ann", agent="echo")
    assert (await found.info()).agent == "echo"


async def test_a_thousand_callers_at_once_make_one_session(sup: Supervisor) -> None:
    found: list[Session] = []

    async def ask() -> None:
        found.append(await sup.get_or_create(KEY))

    async with trio.open_nursery() as nursery:
        for _ in range(1000):
            nursery.start_soon(ask)

    assert len(found) == 1000
    assert len(set(found)) == 1
    assert len(await bearers(sup)) == 1


async def test_cancelled_callers_do_not_block_other_callers_of_a_key(
    sup: Supervisor,
) -> None:
    found: list[Session] = []

    async def ask(scope: trio.CancelScope) -> None:
        with scope:
            found.append(await sup.get_or_create(KEY))

    scopes = [trio.CancelScope() for _ in range(100)]
    async with trio.open_nursery() as nursery:
        for scope in scopes:
            nursery.start_soon(ask, scope)
        await trio.lowlevel.checkpoint()
        for scope in scopes[:90]:
            scope.cancel()

    assert len(found) >= 10
    assert len(set(found)) == 1
    assert await bearers(sup) == [found[0].id]


@pytest.mark.parametrize("state", ["running", "suspended", "stopped"])
async def test_get_or_create_returns_the_holder_in_any_phase(sup: Supervisor, state: str) -> None:
    session = await sup.get_or_create("scripted:irc:ann", suspend_after_seconds=60.0)
    match state:
        case "running":
            await session.send("sleep 1000")
        case "suspended":
            await trio.sleep(100.0)
        case "stopped":
            await session.stop()

    found = await sup.get_or_create("scripted:irc:ann")

    assert found == session
    assert (await found.info()).phase == state


async def test_create_and_get_or_create_at_once_agree(sup: Supervisor) -> None:
    keys = [f"echo:irc:{number}" for number in range(20)]
    found: dict[str, list[Session]] = {key: [] for key in keys}

    async def create(key: str) -> None:
        with contextlib.suppress(KeyTaken):
            found[key].append(await sup.create("echo", key=key))

    async def get(key: str) -> None:
        found[key].append(await sup.get_or_create(key))

    async with trio.open_nursery() as nursery:
        for key in keys:
            nursery.start_soon(get, key)
            nursery.start_soon(create, key)

    assert all(len(set(sessions)) == 1 for sessions in found.values())
    assert len((await sup.list()).items) == 20


async def test_get_or_create_answers_when_the_session_is_there(
    sup: Supervisor, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk_is_free, commit = trio.Event(), sup._services.store.commit
    phases: list[Phase] = []

    async def commit_later(writes: Sequence[Write]) -> list[SupervisorError | None]:
        await disk_is_free.wait()
        return await commit(writes)

    async def look() -> None:
        session = await sup.get_or_create(KEY)
        phases.append((await session.info()).phase)

    monkeypatch.setattr(sup._services.store, "commit", commit_later)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(lambda: sup.create("echo", key=KEY))
        await trio.testing.wait_all_tasks_blocked()
        nursery.start_soon(look)
        await trio.testing.wait_all_tasks_blocked()
        disk_is_free.set()

    assert phases == [Phase.IDLE]


# KeyTaken ----------------------------------------------------------------------------------------


async def test_a_taken_key_is_refused_with_its_holder(sup: Supervisor) -> None:
    first = await sup.create("echo", key=KEY)

    with pytest.raises(KeyTaken, match=first.id) as taken:
        await sup.create("echo", key=KEY)

    assert taken.value.hint
    assert await bearers(sup) == [first.id]


async def test_one_of_many_concurrent_creates_gets_the_key(sup: Supervisor) -> None:
    heard: list[str] = []

    async def create() -> None:
        try:
            await sup.create("echo", key=KEY)
            heard.append("made")
        except KeyTaken:
            heard.append("taken")

    async with trio.open_nursery() as nursery:
        for _ in range(20):
            nursery.start_soon(create)

    assert sorted(heard) == ["made"] + ["taken"] * 19
    assert len(await bearers(sup)) == 1


async def test_a_stopped_session_keeps_its_key_and_an_archived_session_does_not(
    sup: Supervisor,
) -> None:
    first = await sup.create("echo", key=KEY)
    await first.stop()
    with pytest.raises(KeyTaken):
        await sup.create("echo", key=KEY)

    await first.archive()
    second = await sup.create("echo", key=KEY)

    assert await bearers(sup) == [second.id]


async def test_deleting_frees_the_key(sup: Supervisor) -> None:
    first = await sup.create("echo", key=KEY)

    await sup.delete(first.id)
    second = await sup.get_or_create(KEY)

    assert second != first


async def test_unarchiving_a_session_whose_key_is_taken_is_refused(sup: Supervisor) -> None:
    first = await sup.create("echo", key=KEY)
    second = await sup.new(KEY)

    with pytest.raises(KeyTaken, match=second.id):
        await first.unarchive()

    assert (await first.info()).archived
    assert await bearers(sup) == [second.id]


async def test_resuming_a_session_whose_key_is_taken_is_refused(sup: Supervisor) -> None:
    first = await sup.create("echo", key=KEY)
    second = await sup.new(KEY)

    with pytest.raises(KeyTaken, match=second.id):
        await first.resume()

    assert (await first.info()).phase is Phase.STOPPED


async def test_unarchiving_takes_a_free_key_back(sup: Supervisor) -> None:
    first = await sup.create("echo", key=KEY)
    await first.stop()
    await first.archive()

    await first.unarchive()

    assert await sup.get_or_create(KEY) == first
    with pytest.raises(KeyTaken):
        await sup.create("echo", key=KEY)


async def test_a_create_that_is_refused_leaves_the_key_free(sup: Supervisor) -> None:
    with pytest.raises(SupervisorError):
        await sup.create("nobody", key=KEY)

    session = await sup.create("echo", key=KEY)
    assert await bearers(sup) == [session.id]


async def test_a_fork_does_not_take_the_key(sup: Supervisor) -> None:
    session = await sup.create("echo", key=KEY)

    await session.fork()

    assert await bearers(sup) == [session.id]


# new and reset -----------------------------------------------------------------------------------


async def test_new_archives_the_bearer_and_begins_another(sup: Supervisor) -> None:
    old = await sup.create("echo", key=KEY)
    await old.prompt("hello")

    fresh = await sup.new(KEY)

    before, after = await old.info(), await fresh.info()
    assert (before.archived, before.stop_reason, before.stop_detail) == (
        True,
        "user_cancelled",
        "replaced",
    )
    assert (after.phase, after.key, after.turns) == (Phase.IDLE, KEY, 0)
    assert await sup.get_or_create(KEY) == fresh


async def test_new_archives_and_creates_in_one_commit(
    sup: Supervisor, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = await sup.create("echo", key=KEY)
    seen: set[tuple[int, int]] = set()
    store, commit = sup._services.store, sup._services.store.commit

    async def look(writes: object) -> object:
        answers = await commit(writes)  # type: ignore[arg-type]
        rows = [stored.row async for stored in store.rows() if str(stored.row.key) == KEY]
        seen.add((len(rows), sum(not row.archived for row in rows)))
        return answers

    monkeypatch.setattr(store, "commit", look)
    await sup.new(KEY)

    assert seen == {(1, 1), (2, 1)}
    assert (await old.info()).archived


async def test_new_without_a_holder_creates_a_session(sup: Supervisor) -> None:
    session = await sup.new(KEY, tags=["t"])

    assert (await session.info()).tags == ("t",)
    assert await sup.get_or_create(KEY) == session


async def test_new_keeps_the_agent_of_the_bearer_unless_another_is_named(sup: Supervisor) -> None:
    await sup.create("scripted", key=KEY)

    same = await sup.new(KEY)
    other = await sup.new(KEY, agent="echo")

    assert ((await same.info()).agent, (await other.info()).agent) == ("scripted", "echo")


async def test_new_with_an_unknown_agent_leaves_the_holder_unchanged(sup: Supervisor) -> None:
    old = await sup.create("echo", key=KEY)
    before = await old.info()

    with pytest.raises(AgentUnknown):
        await sup.new(KEY, agent="nobody")

    assert await old.info() == before


async def test_new_interrupts_the_holder_and_cancels_its_queue(
    sup: Supervisor, fake_agent: FakeAgent
) -> None:
    old = await sup.create("fake", key=KEY)
    await old.send("first")
    run = await fake_agent.next_run()
    await old.send("second")

    await sup.new(KEY)

    assert run.over.is_set()
    assert (await old.info()).queued == 0


async def test_many_concurrent_calls_of_new_leave_one_holder(sup: Supervisor) -> None:
    await sup.create("echo", key=KEY)
    made: list[Session] = []

    async def begin() -> None:
        made.append(await sup.new(KEY))

    async with trio.open_nursery() as nursery:
        for _ in range(10):
            nursery.start_soon(begin)

    assert len(set(made)) == 10
    assert len(await bearers(sup)) == 1
    assert [(await sup.get_or_create(KEY)).id] == await bearers(sup)


def when_the_holder_has_stopped(
    sup: Supervisor, monkeypatch: pytest.MonkeyPatch, action: Callable[[], Awaitable[object]]
) -> None:
    """Run a competing call before the next step of `new`, as far as locks allow."""
    stop = sup._parts.router.stop

    async def do() -> None:
        with contextlib.suppress(SupervisorError):
            await action()

    async def stop_and_be_overtaken(*args: Any, **words: Any) -> None:  # noqa: ANN401
        monkeypatch.setattr(sup._parts.router, "stop", stop)  # once is enough
        await stop(*args, **words)
        sup._services.tasks.start_soon(do)
        await trio.testing.wait_all_tasks_blocked()

    monkeypatch.setattr(sup._parts.router, "stop", stop_and_be_overtaken)


async def test_a_send_to_the_bearer_does_not_keep_new_from_its_end(
    sup: Supervisor, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = await sup.create("echo", key=KEY)
    when_the_holder_has_stopped(sup, monkeypatch, lambda: old.send("and another thing"))

    fresh = await sup.new(KEY)

    assert (await old.info()).archived
    assert await bearers(sup) == [fresh.id]


async def test_archiving_and_taking_the_key_during_new_makes_no_second_holder(
    sup: Supervisor, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = await sup.create("echo", key=KEY)

    async def snatch() -> None:
        await old.archive()
        await sup.create("echo", key=KEY)

    when_the_holder_has_stopped(sup, monkeypatch, snatch)
    with contextlib.suppress(SupervisorError):
        await sup.new(KEY)

    assert len(await bearers(sup)) == 1
    assert [(await sup.get_or_create(KEY)).id] == await bearers(sup)


async def test_deleting_the_holder_during_new_leaves_one_holder(
    sup: Supervisor, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = await sup.create("echo", key=KEY)
    when_the_holder_has_stopped(sup, monkeypatch, lambda: sup.delete(old.id))

    with contextlib.suppress(SupervisorError):
        await sup.new(KEY)
    found = await sup.get_or_create(KEY)

    assert await bearers(sup) == [found.id]


async def test_cancelling_new_does_not_undo_it(sup: Supervisor, shielded_agent: FakeAgent) -> None:
    old = await sup.create("shielded", key=KEY)
    await old.send("first")
    run = await shielded_agent.next_run()

    with trio.move_on_after(1.0) as patience:
        await sup.new(KEY)
    await trio.sleep(10.0)
    run.finish()
    [bearer] = await bearers(sup)

    assert patience.cancelled_caught
    assert bearer != old.id
    assert (await old.info()).archived
    assert (await sup.get_or_create(KEY)).id == bearer


async def test_get_or_create_during_new_returns_the_new_session(
    sup: Supervisor, shielded_agent: FakeAgent, nursery: trio.Nursery
) -> None:
    old = await sup.create("shielded", key=KEY)
    await old.send("first")
    run = await shielded_agent.next_run()
    nursery.start_soon(sup.new, KEY)
    await trio.testing.wait_all_tasks_blocked()

    found = await sup.get_or_create(KEY)
    run.finish()

    assert found != old
    assert await bearers(sup) == [found.id]


async def test_reset_clears_the_bearer(sup: Supervisor) -> None:
    session = await sup.create("echo", key=KEY)
    await session.prompt("hello")

    same = await sup.reset(KEY)

    assert same == session
    assert await session.transcript() == []
    assert len(await records(session, "session_cleared")) == 1


async def test_reset_without_a_bearer_finds_no_session(sup: Supervisor) -> None:
    with pytest.raises(SessionNotFound) as missing:
        await sup.reset(KEY)

    assert missing.value.hint
    assert (await sup.list()).items == ()


# get, exists, session ----------------------------------------------------------------------------


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


# list --------------------------------------------------------------------------------------------


async def test_sessions_are_listed_in_the_order_of_their_making(sup: Supervisor) -> None:
    made = [(await sup.create("echo")).id for _ in range(5)]

    page = await sup.list()

    assert [info.id for info in page.items] == made
    assert page.next is None


async def test_a_list_shows_what_info_shows(sup: Supervisor, session: Session) -> None:
    assert (await sup.list()).items == (await session.info(),)


async def test_filters_are_all_to_be_met(sup: Supervisor) -> None:
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
async def test_pages_give_everything_once_and_in_order(sup: Supervisor, limit: int) -> None:
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
