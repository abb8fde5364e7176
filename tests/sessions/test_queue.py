"""The queue: what can be done to what waits, its bounds, and what expires or is held in it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import attrs
import pytest
import trio

from actors.testing import settle
from supervisor import (
    InputRefused,
    InputTooLarge,
    NotRunning,
    QueueFull,
    Restart,
    Session,
    SessionNotActive,
    Supervisor,
    SupervisorError,
)
from tests.sessions.cast import Player, Scene, outcomes, records, waiting_texts

# What waits ------------------------------------------------------------------------------------


async def test_what_waits_is_listed_with_all_that_is_known_of_it(
    session: Session, scene: Scene
) -> None:
    await trio.sleep(5)
    receipt = await session.send("second", ttl_seconds=60)
    await trio.sleep(5)

    (waiting,) = await session.inputs()
    (accepted,) = (await records(session, "input_accepted"))[1:]
    assert attrs.asdict(waiting) == {
        "id": receipt.input_id,
        "text": "second",
        "status": "queued",
        "position": 0,
        "accepted_at": accepted.at,
        "expires_at": accepted.at + 60,
    }
    assert (await session.info()).queued == 1
    assert not scene.over.is_set()


async def test_what_waits_can_be_edited(session: Session, scene: Scene, player: Player) -> None:
    receipt = await session.send("secnod")
    await session.send("third")

    await session.edit_input(receipt.input_id, "second")

    assert await waiting_texts(session) == ["second", "third"]
    scene.finish()
    assert await player.play_all() == ["second", "third"]
    assert [r.body["text"] for r in await records(session, "user_text")][1] == "second"


@pytest.mark.parametrize(
    ("text", "error"), [("  ", InputRefused), ("x" * 65_537, InputTooLarge)], ids=["blank", "large"]
)
async def test_an_edit_is_checked_as_new_text_is(
    session: Session, scene: Scene, text: str, error: type[SupervisorError]
) -> None:
    receipt = await session.send("second")

    with pytest.raises(error):
        await session.edit_input(receipt.input_id, text)

    assert await waiting_texts(session) == ["second"]
    assert not scene.over.is_set()


@pytest.mark.parametrize(
    ("moved", "position", "order"),
    [("c", 0, "cabd"), ("a", 2, "bcad"), ("b", 1, "abcd"), ("a", 99, "bcda")],
)
async def test_what_waits_can_be_moved(  # noqa: PLR0917 - three fixtures and a row
    session: Session, scene: Scene, player: Player, moved: str, position: int, order: str
) -> None:
    ids = {text: (await session.send(text)).input_id for text in "abcd"}

    await session.move_input(ids[moved], position)

    assert await waiting_texts(session) == list(order)
    scene.finish()
    assert await player.play_all() == list(order)


async def test_nothing_can_be_moved_before_a_replacement(
    sup: Supervisor, deaf_player: Player
) -> None:
    session = await sup.create("deaf")
    await session.send("first")
    await deaf_player.next_scene()
    await session.send("a")
    last = await session.send("b")
    await session.send("instead", when_busy="interrupt")

    await session.move_input(last.input_id, 0)

    assert await waiting_texts(session) == ["instead", "b", "a"]


async def test_what_waits_can_be_cancelled(session: Session, scene: Scene, player: Player) -> None:
    second = await session.send("second")
    await session.send("third")

    await session.cancel_input(second.input_id)

    assert await waiting_texts(session) == ["third"]
    assert (await outcomes(session))[second.input_id] == ["cancelled"]
    scene.finish()
    assert await player.play_all() == ["third"]


async def test_what_waits_can_be_promoted_to_steer_the_turn(
    session: Session, scene: Scene, player: Player
) -> None:
    await session.send("second")
    third = await session.send("third")

    receipt = await session.promote_input(third.input_id)

    assert (receipt.status, receipt.turn_id) == ("staged", scene.turn.id)
    assert scene.turn.steering() == ["third"]
    scene.finish()
    assert await player.play_all() == ["second"]
    assert (await outcomes(session))[third.input_id] == ["steered"]


async def test_a_promoted_input_that_is_never_taken_keeps_its_place(
    session: Session, scene: Scene, player: Player
) -> None:
    second = await session.send("second")
    await session.send("third")
    await session.promote_input(second.input_id)

    scene.finish()

    assert await player.play_all() == ["second", "third"]


async def test_nothing_can_be_promoted_when_no_turn_is_there_to_take_it(
    sup: Supervisor, deaf_player: Player
) -> None:
    session = await sup.create("deaf")
    await session.send("first")
    await deaf_player.next_scene()
    waiting = await session.send("second")
    await session.interrupt()

    with pytest.raises(NotRunning):
        await session.promote_input(waiting.input_id)

    assert await waiting_texts(session) == ["second"]


CHANGES: dict[str, Callable[[Session, str], Awaitable[object]]] = {
    "edit": lambda session, target: session.edit_input(target, "other"),
    "move": lambda session, target: session.move_input(target, 0),
    "promote": lambda session, target: session.promote_input(target),
    "cancel": lambda session, target: session.cancel_input(target),
}


@pytest.mark.parametrize("deed", CHANGES)
@pytest.mark.parametrize("which", ["unknown", "delivered", "staged", "cancelled"])
async def test_only_what_waits_in_the_queue_can_be_changed(
    session: Session, scene: Scene, deed: str, which: str
) -> None:
    cancelled = (await session.send("second")).input_id
    await session.cancel_input(cancelled)
    staged = (await session.steer("shorter")).input_id
    names = {"unknown": "in_nobody", "delivered": scene.turn.input_id}
    target = (names | {"staged": staged, "cancelled": cancelled})[which]
    before = await records(session)

    with pytest.raises(InputRefused):
        await CHANGES[deed](session, target)

    assert await records(session) == before


# Bounds ----------------------------------------------------------------------------------------


async def test_the_queue_holds_ten_and_refuses_the_eleventh(
    session: Session, scene: Scene, player: Player
) -> None:
    for number in range(10):
        await session.send(str(number))
    before = await records(session)

    with pytest.raises(QueueFull, match="10 of 10") as refusal:
        await session.send("one too many")

    assert "queue_cap" in refusal.value.hint
    assert await records(session) == before
    scene.finish()
    assert await player.play_all() == [str(number) for number in range(10)]


async def test_a_session_may_have_another_cap(sup: Supervisor, player: Player) -> None:
    session = await sup.create("player", queue_cap=1)
    await session.send("first")
    await player.next_scene()
    await session.send("second")

    with pytest.raises(QueueFull):
        await session.send("third")


async def test_a_place_in_the_queue_is_free_again_when_a_turn_begins(
    sup: Supervisor, player: Player
) -> None:
    session = await sup.create("player", queue_cap=1)
    await session.send("first")
    scene = await player.next_scene()
    await session.send("second")
    scene.finish()
    await player.next_scene()

    assert (await session.send("third")).status == "queued"


async def test_text_is_measured_in_bytes(session: Session, player: Player) -> None:
    snowmen = "\N{SNOWMAN}" * (65_536 // 3)

    with pytest.raises(InputTooLarge, match="65538 bytes of 65536"):
        await session.send(snowmen + "\N{SNOWMAN}")
    await session.send(snowmen + "x")

    assert (await player.next_scene()).turn.text == snowmen + "x"


# Expiry ----------------------------------------------------------------------------------------


async def test_an_input_expires_when_its_time_is_over(
    session: Session, scene: Scene, player: Player
) -> None:
    receipt = await session.send("second", ttl_seconds=10)
    await trio.sleep(9)
    assert await waiting_texts(session) == ["second"]

    await trio.sleep(2)

    assert await session.inputs() == []
    assert (await outcomes(session))[receipt.input_id] == ["expired"]
    scene.finish()
    assert await player.play_all() == []


async def test_each_input_expires_at_its_own_time(session: Session, scene: Scene) -> None:
    await session.send("soon", ttl_seconds=10)
    await session.send("late", ttl_seconds=100)
    await session.send("sooner", ttl_seconds=5)

    await trio.sleep(6)
    assert await waiting_texts(session) == ["soon", "late"]
    await trio.sleep(5)
    assert await waiting_texts(session) == ["late"]
    await trio.sleep(90)
    assert await waiting_texts(session) == []
    assert not scene.over.is_set()


async def test_an_input_that_began_in_time_does_not_expire(
    session: Session, player: Player
) -> None:
    receipt = await session.send("hello", ttl_seconds=10)
    scene = await player.next_scene()
    await trio.sleep(20)

    assert not scene.over.is_set()
    assert (await outcomes(session))[receipt.input_id] == ["delivered"]


async def test_a_prompt_whose_input_expires_says_so(session: Session, scene: Scene) -> None:
    with pytest.raises(InputRefused, match="expired"):
        await session.prompt("second", ttl_seconds=10)

    assert not scene.over.is_set()


async def test_what_a_failed_session_holds_expires_all_the_same(
    sup: Supervisor,
) -> None:
    session = await sup.create("scripted", restart=Restart(policy="never"))
    await session.send("sleep 1\ncrash")
    held = await session.send("say late", ttl_seconds=10)
    await session.wait_stopped()
    await trio.sleep(60)

    await session.resume()
    await settle()

    assert (await outcomes(session))[held.input_id] == ["expired"]


# A queue that is held --------------------------------------------------------------------------


async def test_a_held_queue_runs_first_and_in_order(sup: Supervisor) -> None:
    session = await sup.create("scripted", restart=Restart(policy="never"))
    await session.send("sleep 1\ncrash")
    await session.send("say one")
    await session.send("say two")
    await session.wait_stopped()

    await session.prompt("say three")

    said = [record.body["text"] for record in await records(session, "agent_text")]
    assert said == ["one", "two", "three"]


async def test_a_message_to_a_stopped_session_may_ask_not_to_resume_it(session: Session) -> None:
    await session.stop()
    before = await records(session)

    with pytest.raises(SessionNotActive, match="stopped"):
        await session.send("hello", if_stopped="reject")

    assert await records(session) == before
