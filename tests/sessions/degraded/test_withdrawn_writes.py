"""What met the store's trouble and is certainly not written: refused, and as if never asked."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest
import trio

from actors.testing import settle
from supervisor import Limits, Session, StoreDegraded, Supervisor
from tests.support.fake_agents import AgentRun, FakeAgent, outcomes, records, texts, waiting_texts
from tests.support.fake_store import FailingStore, check_stored

Ask = Callable[[Supervisor, Session], Awaitable[object]]


@pytest.fixture
def store(store: FailingStore) -> FailingStore:
    store.is_surely_unwritten = True
    return store


ASKED: dict[str, Ask] = {
    "send": lambda _, session: session.send("second"),
    "steer": lambda _, session: session.steer("softer"),
    "interrupt for another": lambda _, session: session.send("second", when_busy="interrupt"),
    "replace": lambda _, session: session.interrupt("turn", replace_with="second"),
    "spawn": lambda _, session: session.spawn("fake", "errand"),
    "set": lambda _, session: session.set(title="another"),
    "clear": lambda _, session: session.clear(),
    "create": lambda sup, _: sup.create("fake", key="fake:a:b"),
}


@pytest.mark.parametrize("ask", ASKED.values(), ids=ASKED)
async def test_a_withdrawn_write_is_refused_at_once_and_leaves_nothing(
    store: FailingStore, sup: Supervisor, session: Session, run: AgentRun, ask: Ask
) -> None:
    before = await session.info()
    store.start_failing()

    with pytest.raises(StoreDegraded, match="the disk is full"), trio.fail_after(1):
        await ask(sup, session)

    assert await session.info() == before
    assert [info.id for info in await sup.list()] == [session.id]
    await store.recover()
    assert (await session.info()).last_seq == before.last_seq
    assert await outcomes(session) == {run.turn.input_id: ["delivered"]}
    await check_stored(store, session)


async def test_a_request_repeated_after_withdrawal_is_treated_as_new(
    store: FailingStore, session: Session, run: AgentRun
) -> None:
    store.start_failing()
    with pytest.raises(StoreDegraded):
        await session.send("second", idempotency_key="k")
    await store.recover()

    receipt = await session.send("another text", idempotency_key="k")

    assert receipt.status == "queued"
    assert await waiting_texts(session) == ["another text"]
    await check_stored(store, session)


async def test_output_before_and_after_a_withdrawn_write_is_stored(
    store: FailingStore, session: Session, run: AgentRun
) -> None:
    await run.do(run.turn.say("before "))
    store.start_failing()
    with pytest.raises(StoreDegraded):
        await session.send("second")
    await run.do(run.turn.say("after"))
    await store.recover()
    await trio.sleep(1.0)

    assert "".join(texts(await records(session, "agent_text"))) == "before after"
    assert await waiting_texts(session) == []
    await check_stored(store, session)


async def test_a_write_followed_by_numbered_output_waits_instead_of_withdrawing(
    store: FailingStore, session: Session, run: AgentRun, nursery: trio.Nursery
) -> None:
    store.start_failing()
    store.fails_after_seconds = 1.0
    nursery.start_soon(session.send, "second")
    await settle()
    await run.do(run.turn.plan(["one"]))  # numbered while the commit is under way
    await trio.sleep(2.0)
    await store.recover()

    assert await waiting_texts(session) == ["second"]
    await check_stored(store, session)


async def test_the_slot_reserved_for_a_withdrawn_write_is_released(
    store: FailingStore, sup: Supervisor, fake_agent: FakeAgent
) -> None:
    session = await sup.create("fake", limits=Limits(max_children=1))
    store.start_failing()
    with pytest.raises(StoreDegraded):
        await session.spawn("fake", "errand")
    await store.recover()

    await session.spawn("fake", "errand")

    assert len((await session.info()).children) == 1


async def test_brakes_are_not_refused(store: FailingStore, session: Session, run: AgentRun) -> None:
    store.start_failing()

    assert (await session.interrupt()).stopped == 1
    await session.stop()

    assert (await session.info()).phase == "stopped"
    await store.recover()
    await check_stored(store, session)
