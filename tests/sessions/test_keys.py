"""Finding sessions: by key, which at most one unarchived session bears; by id; by listing."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

import pytest
import trio
import trio.testing

from supervisor import (
    AgentUnknown,
    KeyTaken,
    Phase,
    Session,
    SessionKey,
    Supervisor,
    SupervisorError,
)
from supervisor.store.port import Write
from tests.support.session_states import KEY, holders

# get_or_create --------------------------------------------------------------------------


async def test_get_or_create_creates_once_and_then_finds_the_session(sup: Supervisor) -> None:
    made = await sup.get_or_create(KEY)

    found = await sup.get_or_create(SessionKey("echo", "irc", "ann"))

    assert found == made
    assert (await made.info()).key == KEY


async def test_the_agent_is_taken_from_the_key_by_default(sup: Supervisor) -> None:
    own = await sup.get_or_create("echo:irc:ann")
    other = await sup.get_or_create("anything:irc:bob", agent="scripted", tags=["t"])

    assert (await own.info()).agent == "echo"
    assert ((await other.info()).agent, (await other.info()).tags) == ("scripted", ("t",))


async def test_a_key_of_an_unknown_agent_creates_no_session(sup: Supervisor) -> None:
    with pytest.raises(AgentUnknown):
        await sup.get_or_create("nobody:irc:ann")

    assert (await sup.list()).items == ()
    found = await sup.get_or_create("nobody:irc:ann", agent="echo")
    assert (await found.info()).agent == "echo"


async def test_a_thousand_concurrent_callers_create_one_session(sup: Supervisor) -> None:
    found: list[Session] = []

    async def ask() -> None:
        found.append(await sup.get_or_create(KEY))

    async with trio.open_nursery() as nursery:
        for _ in range(1000):
            nursery.start_soon(ask)

    assert len(found) == 1000
    assert len(set(found)) == 1
    assert len(await holders(sup)) == 1


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
    assert await holders(sup) == [found[0].id]


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


async def test_get_or_create_returns_when_the_session_is_started(
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


# KeyTaken -------------------------------------------------------------------------------


async def test_a_taken_key_is_refused_with_its_holder(sup: Supervisor) -> None:
    first = await sup.create("echo", key=KEY)

    with pytest.raises(KeyTaken, match=first.id) as taken:
        await sup.create("echo", key=KEY)

    assert taken.value.hint
    assert await holders(sup) == [first.id]


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
    assert len(await holders(sup)) == 1


async def test_a_stopped_session_keeps_its_key_and_an_archived_session_does_not(
    sup: Supervisor,
) -> None:
    first = await sup.create("echo", key=KEY)
    await first.stop()
    with pytest.raises(KeyTaken):
        await sup.create("echo", key=KEY)

    await first.archive()
    second = await sup.create("echo", key=KEY)

    assert await holders(sup) == [second.id]


async def test_deleting_frees_the_key(sup: Supervisor) -> None:
    first = await sup.create("echo", key=KEY)

    await sup.delete(first.id)
    second = await sup.get_or_create(KEY)

    assert second != first


async def test_unarchiving_a_session_with_a_taken_key_is_refused(sup: Supervisor) -> None:
    first = await sup.create("echo", key=KEY)
    second = await sup.new(KEY)

    with pytest.raises(KeyTaken, match=second.id):
        await first.unarchive()

    assert (await first.info()).archived
    assert await holders(sup) == [second.id]


async def test_resuming_a_session_with_a_taken_key_is_refused(sup: Supervisor) -> None:
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


async def test_a_refused_create_leaves_the_key_free(sup: Supervisor) -> None:
    with pytest.raises(SupervisorError):
        await sup.create("nobody", key=KEY)

    session = await sup.create("echo", key=KEY)
    assert await holders(sup) == [session.id]


async def test_a_fork_does_not_take_the_key(sup: Supervisor) -> None:
    session = await sup.create("echo", key=KEY)

    await session.fork()

    assert await holders(sup) == [session.id]
