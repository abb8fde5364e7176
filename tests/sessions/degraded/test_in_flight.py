"""What was on its way when the store failed, and may be written: acknowledged when it is."""

from __future__ import annotations

from typing import Any

import pytest
import trio

from actors.testing import settle
from supervisor import (
    IdempotencyConflict,
    Ladder,
    Receipt,
    Session,
    Settings,
    StoreDegraded,
    Supervisor,
    SupervisorError,
)
from supervisor.core.state import Decision
from tests.support.fake_agents import (
    AgentAction,
    AgentRun,
    FakeAgent,
    outcomes,
    records,
    waiting_texts,
)
from tests.support.fake_store import FailingStore, check_stored

Told = dict[str, Receipt | SupervisorError]


@pytest.fixture
def settings() -> Settings:
    return Settings(ladder=Ladder(ask_seconds=30.0))


async def send(session: Session, told: Told, name: str, text: str, **how: Any) -> None:  # noqa: ANN401
    try:
        told[name] = await session.send(text, **how)
    except SupervisorError as error:
        told[name] = error


def input_of(answer: object) -> str:
    assert isinstance(answer, Receipt)
    return answer.input_id


async def test_an_input_is_acknowledged_when_it_is_durable(
    store: FailingStore, session: Session, run: AgentRun, nursery: trio.Nursery
) -> None:
    told: Told = {}
    store.start_failing()
    nursery.start_soon(send, session, told, "one", "second")

    await trio.sleep(100)
    assert told == {}

    await store.recover()
    accepted = await records(session, "input_accepted")
    assert input_of(told["one"]) == accepted[-1].body["input_id"]
    assert await waiting_texts(session) == ["second"]
    await check_stored(store, session)


async def test_an_input_of_an_idle_session_runs_once_when_durable(
    store: FailingStore, session: Session, fake_agent: FakeAgent, nursery: trio.Nursery
) -> None:
    told: Told = {}
    store.start_failing()
    nursery.start_soon(send, session, told, "one", "hello")

    await trio.sleep(100)
    assert (told, fake_agent.runs) == ({}, [])

    await store.recover()
    assert [run.turn.text for run in fake_agent.runs] == ["hello"]
    assert told["one"].status == "started"  # type: ignore[union-attr] # a receipt
    await check_stored(store, session)


async def test_only_the_input_in_flight_at_the_fault_is_acknowledged(
    store: FailingStore, session: Session, fake_agent: FakeAgent, nursery: trio.Nursery
) -> None:
    told: Told = {}
    store.start_failing()
    for number in range(5):
        nursery.start_soon(send, session, told, str(number), str(number))
    await trio.sleep(10)
    assert [type(answer) for answer in told.values()] == [StoreDegraded] * 4

    await store.recover()

    accepted = [one.body["input_id"] for one in await records(session, "input_accepted")]
    received = [answer for answer in told.values() if isinstance(answer, Receipt)]
    assert [receipt.input_id for receipt in received] == accepted
    assert len(await fake_agent.finish_all()) == 1
    assert [*(await outcomes(session)).values()] == [["delivered"]]
    await check_stored(store, session)


async def test_two_sends_under_one_key_are_one_input(
    store: FailingStore, session: Session, run: AgentRun, nursery: trio.Nursery
) -> None:
    told: Told = {}
    store.start_failing()
    nursery.start_soon(lambda: send(session, told, "one", "again", idempotency_key="k"))
    nursery.start_soon(lambda: send(session, told, "two", "again", idempotency_key="k"))

    await settle()
    await store.recover()

    assert input_of(told["one"]) == input_of(told["two"])
    assert await waiting_texts(session) == ["again"]
    again = await session.send("again", idempotency_key="k")
    assert again.input_id == input_of(told["one"])


async def test_another_text_under_a_pending_key_is_a_conflict(
    store: FailingStore, session: Session, run: AgentRun, nursery: trio.Nursery
) -> None:
    told: Told = {}
    store.start_failing()
    nursery.start_soon(lambda: send(session, told, "one", "again", idempotency_key="k"))
    nursery.start_soon(lambda: send(session, told, "two", "other", idempotency_key="k"))

    await settle()
    await store.recover()

    assert {type(answer) for answer in told.values()} == {Receipt, IdempotencyConflict}
    assert len(await waiting_texts(session)) == 1


async def test_a_pending_key_repeated_while_degraded_is_refused_harmlessly(
    store: FailingStore, session: Session, run: AgentRun, nursery: trio.Nursery
) -> None:
    told: Told = {}
    store.start_failing()
    nursery.start_soon(lambda: send(session, told, "one", "again", idempotency_key="k"))
    await settle()

    with pytest.raises(StoreDegraded):
        await session.send("again", idempotency_key="k")

    await store.recover()
    assert (await session.send("again", idempotency_key="k")).input_id == input_of(told["one"])


async def test_an_input_of_a_cancelled_caller_is_accepted_at_most_once(
    store: FailingStore, session: Session, run: AgentRun
) -> None:
    store.start_failing()
    with trio.move_on_after(5):
        await session.send("again", idempotency_key="k")

    await store.recover()

    await session.send("again", idempotency_key="k")
    assert await waiting_texts(session) == ["again"]


async def test_a_session_being_created_appears_after_its_commit(
    store: FailingStore, sup: Supervisor, nursery: trio.Nursery
) -> None:
    made: list[Session] = []

    async def create() -> None:
        made.append(await sup.create("fake", key="fake:chat:ann", idempotency_key="k"))

    store.start_failing()
    nursery.start_soon(create)
    nursery.start_soon(create)
    await trio.sleep(100)
    assert made == []
    assert (await sup.list()).items == ()

    await store.recover()
    await trio.sleep(1)
    assert len(set(made)) == 1
    assert len(made) == 2
    assert (await made[0].info()).phase == "idle"
    await check_stored(store, made[0])


async def test_a_spawn_in_flight_makes_one_working_child_after_its_commit(
    store: FailingStore,
    sup: Supervisor,
    session: Session,
    fake_agent: FakeAgent,
    nursery: trio.Nursery,
) -> None:
    store.start_failing()
    nursery.start_soon(lambda: session.spawn("fake", "errand", idempotency_key="k"))
    await trio.sleep(100)
    assert fake_agent.runs == []

    await store.recover()
    await trio.sleep(1)

    child = await session.spawn("fake", "errand", idempotency_key="k")
    assert [run.turn.text for run in fake_agent.runs] == ["errand"]
    await check_stored(store, session, child)


async def test_a_request_in_flight_at_a_foreign_claim_takes_effect_once(
    store: FailingStore, session: Session, run: AgentRun, nursery: trio.Nursery
) -> None:
    told: Told = {}
    store.start_failing()
    nursery.start_soon(send, session, told, "one", "second")
    await settle()
    store._claim(session.id)  # as another supervisor would, on a disk of its own

    await store.recover()
    await trio.sleep(10)

    accepted = [one.body["input_id"] for one in await records(session, "input_accepted")]
    assert accepted.count(input_of(told["one"])) == 1
    await check_stored(store, session)


# What an agent is given -----------------------------------------------------------------------


async def test_steering_reaches_the_agent_after_its_commit(
    store: FailingStore, session: Session, run: AgentRun, nursery: trio.Nursery
) -> None:
    told: Told = {}
    store.start_failing()
    nursery.start_soon(lambda: send(session, told, "one", "left", when_busy="steer"))
    await trio.sleep(10)
    assert run.turn.steering() == []

    await store.recover()

    assert run.turn.steering() == ["left"]
    await settle()
    assert (await outcomes(session))[input_of(told["one"])] == ["steered"]
    await check_stored(store, session)


async def test_steering_withdrawn_before_its_commit_never_reaches_the_agent(
    store: FailingStore, shielded_session: Session, shielded_run: AgentRun, nursery: trio.Nursery
) -> None:
    told: Told = {}
    store.start_failing()
    nursery.start_soon(lambda: send(shielded_session, told, "one", "left", when_busy="steer"))
    await settle()
    nursery.start_soon(lambda: shielded_session.interrupt(queued="cancel"))
    await settle()

    await store.recover()

    assert shielded_run.turn.steering() == []
    assert (await outcomes(shielded_session))[input_of(told["one"])] == ["cancelled"]
    shielded_run.finish()


async def test_steering_for_a_turn_that_ended_meanwhile_becomes_the_next(
    store: FailingStore,
    session: Session,
    run: AgentRun,
    fake_agent: FakeAgent,
    nursery: trio.Nursery,
) -> None:
    told: Told = {}
    store.start_failing()
    nursery.start_soon(lambda: send(session, told, "one", "left", when_busy="steer"))
    await settle()
    run.finish()
    await trio.sleep(10)
    assert len(fake_agent.runs) == 1

    await store.recover()

    assert [one.turn.text for one in fake_agent.runs] == ["first", "left"]
    assert (await outcomes(session))[input_of(told["one"])] == ["delivered"]
    await check_stored(store, session)


async def asking(run: AgentRun, **how: Any) -> AgentAction[bool]:  # noqa: ANN401
    action = run.begin(run.turn.ask("may I?", tool="bash", **how))
    await settle()
    return action


@pytest.mark.parametrize("decision", ["allow_once", "allow_always"])
async def test_a_permission_reaches_the_agent_after_its_commit(
    store: FailingStore, sup: Supervisor, session: Session, run: AgentRun, decision: Decision
) -> None:
    action = await asking(run)
    (request,) = await sup.permissions()
    store.start_failing()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(sup.answer, request.id, decision)
        await trio.sleep(10)
        assert not action.done.is_set()
        await store.recover()

    assert await action.wait()
    assert len(await records(session, "permission_answered")) == 1
    await check_stored(store, session)


async def test_a_permission_for_an_interrupted_turn_is_not_granted(
    store: FailingStore,
    sup: Supervisor,
    shielded_session: Session,
    shielded_run: AgentRun,
    nursery: trio.Nursery,
) -> None:
    action = await asking(shielded_run)
    (request,) = await sup.permissions()
    store.start_failing()
    nursery.start_soon(sup.answer, request.id, "allow_once")
    await settle()
    nursery.start_soon(shielded_session.interrupt)
    await settle()

    await store.recover()

    allowed = action.done.is_set() and await action.wait()
    kinds = [record.kind for record in await records(shielded_session)]
    assert not (allowed and kinds.index("interrupted") < kinds.index("permission_answered"))
    await check_stored(store, shielded_session)
    shielded_run.finish()


async def test_a_call_allowed_by_the_mode_waits_for_its_commit(
    store: FailingStore, sup: Supervisor, fake_agent: FakeAgent
) -> None:
    session = await sup.create("fake", workspace="/tmp")  # noqa: S108 - only a name here
    await session.send("first")
    run = await fake_agent.next_run()
    store.start_failing()
    action = await asking(run, kind="read", path="/tmp/a")  # noqa: S108
    await trio.sleep(10)
    assert not action.done.is_set()

    await store.recover()

    assert await action.wait()
