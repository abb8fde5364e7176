"""`new` and `reset` of the session that holds a key."""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import trio
import trio.testing

from supervisor import (
    AgentUnknown,
    Phase,
    Session,
    SessionNotFound,
    Supervisor,
    SupervisorError,
)
from tests.support.fake_agents import FakeAgent, records
from tests.support.session_states import KEY, holders


async def test_new_archives_the_holder_and_creates_a_session(sup: Supervisor) -> None:
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


async def test_new_keeps_the_agent_of_the_holder_by_default(sup: Supervisor) -> None:
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
    assert len(await holders(sup)) == 1
    assert [(await sup.get_or_create(KEY)).id] == await holders(sup)


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


async def test_a_send_to_the_holder_does_not_delay_new(
    sup: Supervisor, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = await sup.create("echo", key=KEY)
    when_the_holder_has_stopped(sup, monkeypatch, lambda: old.send("and another thing"))

    fresh = await sup.new(KEY)

    assert (await old.info()).archived
    assert await holders(sup) == [fresh.id]


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

    assert len(await holders(sup)) == 1
    assert [(await sup.get_or_create(KEY)).id] == await holders(sup)


async def test_deleting_the_holder_during_new_leaves_one_holder(
    sup: Supervisor, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = await sup.create("echo", key=KEY)
    when_the_holder_has_stopped(sup, monkeypatch, lambda: sup.delete(old.id))

    with contextlib.suppress(SupervisorError):
        await sup.new(KEY)
    found = await sup.get_or_create(KEY)

    assert await holders(sup) == [found.id]


async def test_cancelling_new_does_not_undo_it(sup: Supervisor, shielded_agent: FakeAgent) -> None:
    old = await sup.create("shielded", key=KEY)
    await old.send("first")
    run = await shielded_agent.next_run()

    with trio.move_on_after(1.0) as patience:
        await sup.new(KEY)
    await trio.sleep(10.0)
    run.finish()
    [bearer] = await holders(sup)

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
    assert await holders(sup) == [found.id]


async def test_reset_clears_the_holder(sup: Supervisor) -> None:
    session = await sup.create("echo", key=KEY)
    await session.prompt("hello")

    same = await sup.reset(KEY)

    assert same == session
    assert await session.transcript() == []
    assert len(await records(session, "session_cleared")) == 1


async def test_reset_without_a_holder_raises_session_not_found(sup: Supervisor) -> None:
    with pytest.raises(SessionNotFound) as missing:
        await sup.reset(KEY)

    assert missing.value.hint
    assert (await sup.list()).items == ()
