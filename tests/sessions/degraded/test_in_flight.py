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
from supervisor.core.session import Decision
from tests.sessions.cast import Deed, Player, Scene, outcomes, records, waiting_texts
from tests.sessions.degraded.frail import FrailStore, check_kept

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
    store: FrailStore, session: Session, scene: Scene, nursery: trio.Nursery
) -> None:
    told: Told = {}
    store.fall_ill()
    nursery.start_soon(send, session, told, "one", "second")

    await trio.sleep(100)
    assert told == {}

    await store.get_well()
    accepted = await records(session, "input_accepted")
    assert input_of(told["one"]) == accepted[-1].body["input_id"]
    assert await waiting_texts(session) == ["second"]
    await check_kept(store, session)


async def test_an_input_of_an_idle_session_runs_when_it_is_durable_and_once(
    store: FrailStore, session: Session, player: Player, nursery: trio.Nursery
) -> None:
    told: Told = {}
    store.fall_ill()
    nursery.start_soon(send, session, told, "one", "hello")

    await trio.sleep(100)
    assert (told, player.scenes) == ({}, [])

    await store.get_well()
    assert [scene.turn.text for scene in player.scenes] == ["hello"]
    assert told["one"].status == "started"  # type: ignore[union-attr] # a receipt
    await check_kept(store, session)


async def test_of_many_inputs_that_met_the_fault_is_acknowledged_and_the_others_are_refused(
    store: FrailStore, session: Session, player: Player, nursery: trio.Nursery
) -> None:
    told: Told = {}
    store.fall_ill()
    for number in range(5):
        nursery.start_soon(send, session, told, str(number), str(number))
    await trio.sleep(10)
    assert [type(answer) for answer in told.values()] == [StoreDegraded] * 4

    await store.get_well()

    accepted = [one.body["input_id"] for one in await records(session, "input_accepted")]
    received = [answer for answer in told.values() if isinstance(answer, Receipt)]
    assert [receipt.input_id for receipt in received] == accepted
    assert len(await player.play_all()) == 1
    assert [*(await outcomes(session)).values()] == [["delivered"]]
    await check_kept(store, session)


async def test_two_who_send_the_same_under_one_key_have_sent_it_once(
    store: FrailStore, session: Session, scene: Scene, nursery: trio.Nursery
) -> None:
    told: Told = {}
    store.fall_ill()
    nursery.start_soon(lambda: send(session, told, "one", "again", idempotency_key="k"))
    nursery.start_soon(lambda: send(session, told, "two", "again", idempotency_key="k"))

    await settle()
    await store.get_well()

    assert input_of(told["one"]) == input_of(told["two"])
    assert await waiting_texts(session) == ["again"]
    again = await session.send("again", idempotency_key="k")
    assert again.input_id == input_of(told["one"])


async def test_another_text_under_that_key_is_a_conflict_though_it_is_not_written_yet(
    store: FrailStore, session: Session, scene: Scene, nursery: trio.Nursery
) -> None:
    told: Told = {}
    store.fall_ill()
    nursery.start_soon(lambda: send(session, told, "one", "again", idempotency_key="k"))
    nursery.start_soon(lambda: send(session, told, "two", "other", idempotency_key="k"))

    await settle()
    await store.get_well()

    assert {type(answer) for answer in told.values()} == {Receipt, IdempotencyConflict}
    assert len(await waiting_texts(session)) == 1


async def test_the_same_key_after_the_store_is_known_to_be_ill_is_refused_and_harmless(
    store: FrailStore, session: Session, scene: Scene, nursery: trio.Nursery
) -> None:
    told: Told = {}
    store.fall_ill()
    nursery.start_soon(lambda: send(session, told, "one", "again", idempotency_key="k"))
    await settle()

    with pytest.raises(StoreDegraded):
        await session.send("again", idempotency_key="k")

    await store.get_well()
    assert (await session.send("again", idempotency_key="k")).input_id == input_of(told["one"])


async def test_whoever_gives_up_while_it_waits_may_find_it_accepted_once(
    store: FrailStore, session: Session, scene: Scene
) -> None:
    store.fall_ill()
    with trio.move_on_after(5):
        await session.send("again", idempotency_key="k")

    await store.get_well()

    await session.send("again", idempotency_key="k")
    assert await waiting_texts(session) == ["again"]


async def test_a_session_in_the_making_is_there_when_it_is_durable(
    store: FrailStore, sup: Supervisor, nursery: trio.Nursery
) -> None:
    made: list[Session] = []

    async def create() -> None:
        made.append(await sup.create("player", key="player:chat:ann", idempotency_key="k"))

    store.fall_ill()
    nursery.start_soon(create)
    nursery.start_soon(create)
    await trio.sleep(100)
    assert made == []
    assert (await sup.list()).items == ()

    await store.get_well()
    await trio.sleep(1)
    assert len(set(made)) == 1
    assert len(made) == 2
    assert (await made[0].info()).phase == "idle"
    await check_kept(store, made[0])


async def test_a_spawn_in_flight_makes_one_child_that_works_when_it_is_durable(
    store: FrailStore, sup: Supervisor, session: Session, player: Player, nursery: trio.Nursery
) -> None:
    store.fall_ill()
    nursery.start_soon(lambda: session.spawn("player", "errand", idempotency_key="k"))
    await trio.sleep(100)
    assert player.scenes == []

    await store.get_well()
    await trio.sleep(1)

    child = await session.spawn("player", "errand", idempotency_key="k")
    assert [scene.turn.text for scene in player.scenes] == ["errand"]
    await check_kept(store, session, child)


async def test_what_was_in_flight_when_somebody_else_took_the_session_is_done_once(
    store: FrailStore, session: Session, scene: Scene, nursery: trio.Nursery
) -> None:
    told: Told = {}
    store.fall_ill()
    nursery.start_soon(send, session, told, "one", "second")
    await settle()
    store._claim(session.id)  # as another supervisor would, on a disk of its own

    await store.get_well()
    await trio.sleep(10)

    accepted = [one.body["input_id"] for one in await records(session, "input_accepted")]
    assert accepted.count(input_of(told["one"])) == 1
    await check_kept(store, session)


# What an agent is given -----------------------------------------------------------------------


async def test_steering_is_given_to_the_agent_when_it_is_durable(
    store: FrailStore, session: Session, scene: Scene, nursery: trio.Nursery
) -> None:
    told: Told = {}
    store.fall_ill()
    nursery.start_soon(lambda: send(session, told, "one", "left", when_busy="steer"))
    await trio.sleep(10)
    assert scene.turn.steering() == []

    await store.get_well()

    assert scene.turn.steering() == ["left"]
    await settle()
    assert (await outcomes(session))[input_of(told["one"])] == ["steered"]
    await check_kept(store, session)


async def test_steering_that_was_taken_back_meanwhile_is_never_given(
    store: FrailStore, deaf_session: Session, deaf_scene: Scene, nursery: trio.Nursery
) -> None:
    told: Told = {}
    store.fall_ill()
    nursery.start_soon(lambda: send(deaf_session, told, "one", "left", when_busy="steer"))
    await settle()
    nursery.start_soon(lambda: deaf_session.interrupt(queued="cancel"))
    await settle()

    await store.get_well()

    assert deaf_scene.turn.steering() == []
    assert (await outcomes(deaf_session))[input_of(told["one"])] == ["cancelled"]
    deaf_scene.finish()


async def test_steering_for_a_turn_that_ended_meanwhile_becomes_the_next(
    store: FrailStore, session: Session, scene: Scene, player: Player, nursery: trio.Nursery
) -> None:
    told: Told = {}
    store.fall_ill()
    nursery.start_soon(lambda: send(session, told, "one", "left", when_busy="steer"))
    await settle()
    scene.finish()
    await trio.sleep(10)
    assert len(player.scenes) == 1

    await store.get_well()

    assert [one.turn.text for one in player.scenes] == ["first", "left"]
    assert (await outcomes(session))[input_of(told["one"])] == ["delivered"]
    await check_kept(store, session)


async def asking(scene: Scene, **how: Any) -> Deed[bool]:  # noqa: ANN401
    deed = scene.begin(scene.turn.ask("may I?", tool="bash", **how))
    await settle()
    return deed


@pytest.mark.parametrize("decision", ["allow_once", "allow_always"])
async def test_a_right_is_given_to_the_agent_when_it_is_durable(
    store: FrailStore, sup: Supervisor, session: Session, scene: Scene, decision: Decision
) -> None:
    deed = await asking(scene)
    (request,) = await sup.permissions()
    store.fall_ill()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(sup.answer, request.id, decision)
        await trio.sleep(10)
        assert not deed.done.is_set()
        await store.get_well()

    assert await deed.wait()
    assert len(await records(session, "permission_answered")) == 1
    await check_kept(store, session)


async def test_a_right_for_a_turn_that_was_interrupted_meanwhile_is_not_given(
    store: FrailStore,
    sup: Supervisor,
    deaf_session: Session,
    deaf_scene: Scene,
    nursery: trio.Nursery,
) -> None:
    deed = await asking(deaf_scene)
    (request,) = await sup.permissions()
    store.fall_ill()
    nursery.start_soon(sup.answer, request.id, "allow_once")
    await settle()
    nursery.start_soon(deaf_session.interrupt)
    await settle()

    await store.get_well()

    allowed = deed.done.is_set() and await deed.wait()
    kinds = [record.kind for record in await records(deaf_session)]
    assert not (allowed and kinds.index("interrupted") < kinds.index("permission_answered"))
    await check_kept(store, deaf_session)
    deaf_scene.finish()


async def test_an_allowed_call_of_the_mode_itself_waits_too(
    store: FrailStore, sup: Supervisor, player: Player
) -> None:
    session = await sup.create("player", workspace="/tmp")  # noqa: S108 - only a name here
    await session.send("first")
    scene = await player.next_scene()
    store.fall_ill()
    deed = await asking(scene, kind="read", path="/tmp/a")  # noqa: S108
    await trio.sleep(10)
    assert not deed.done.is_set()

    await store.get_well()

    assert await deed.wait()
