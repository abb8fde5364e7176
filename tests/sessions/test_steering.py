"""Steering: guidance for the turn that is running."""

from __future__ import annotations

import pytest
import trio

from actors.testing import settle
from supervisor import (
    InputTooLarge,
    NotRunning,
    QueueFull,
    Record,
    Session,
    Supervisor,
    TurnOver,
)
from tests.sessions.cast import Player, Scene, outcomes, records, waiting_texts


def shape(record: Record) -> tuple[str, object]:
    """A record's kind, and the one word of it that these tests look at."""
    word = {"input_settled": "outcome", "steered": "how", "user_text": "text"}[record.kind]
    return record.kind, record.body[word]


async def test_steering_is_staged_until_the_agent_takes_it(session: Session, scene: Scene) -> None:
    receipt = await session.steer("shorter")

    (waiting,) = await session.inputs()
    assert (receipt.status, receipt.turn_id) == ("staged", scene.turn.id)
    assert (waiting.id, waiting.text, waiting.status) == (receipt.input_id, "shorter", "staged")
    assert await outcomes(session) == {scene.turn.input_id: ["delivered"], receipt.input_id: []}


async def test_send_may_steer_too(session: Session, scene: Scene) -> None:
    receipt = await session.send("shorter", when_busy="steer")

    assert (receipt.status, receipt.turn_id) == ("staged", scene.turn.id)
    assert scene.turn.steering() == ["shorter"]


async def test_steering_is_steered_when_it_is_handed_out(session: Session, scene: Scene) -> None:
    receipt = await session.steer("shorter")

    assert scene.turn.steering() == ["shorter"]

    await settle()
    assert await session.inputs() == []
    assert (await outcomes(session))[receipt.input_id] == ["steered"]


async def test_feed_and_transcript_say_that_it_was_steered(session: Session, scene: Scene) -> None:
    seen = (await session.info()).last_seq
    await session.steer("shorter")
    scene.turn.steering()
    await settle()

    news = [r for r in await records(session) if r.seq > seen + 2]
    assert [shape(record) for record in news] == [
        ("input_settled", "steered"),
        ("steered", "boundary"),
        ("user_text", "shorter"),
    ]
    assert {record.turn_id for record in news} == {scene.turn.id}
    assert [(m.role, m.text, m.steered) for m in await session.transcript()] == [
        ("user", "first", False),
        ("user", "shorter", True),
    ]


async def test_several_are_handed_over_together_and_in_order(
    session: Session, scene: Scene
) -> None:
    for text in "abc":
        await session.steer(text)

    assert scene.turn.steering() == ["a", "b", "c"]

    await settle()
    assert list((await outcomes(session)).values())[1:] == [["steered"]] * 3
    said = [record.body["text"] for record in await records(session, "user_text")]
    assert said == ["first", "a", "b", "c"]


async def test_each_is_handed_out_once(session: Session, scene: Scene) -> None:
    await session.steer("a")
    assert scene.turn.steering() == ["a"]
    await session.steer("b")

    assert scene.turn.steering() == ["b"]
    assert scene.turn.steering() == []


async def test_a_turn_that_was_not_steered_has_nothing_to_take(scene: Scene) -> None:
    assert scene.turn.steering() == []


async def test_it_can_be_taken_at_the_end_of_a_tool_call(session: Session, scene: Scene) -> None:
    call = await scene.open_call("bash")
    await session.steer("shorter")

    await call.close()

    assert scene.turn.steering() == ["shorter"]
    (ended,) = await records(session, "tool_ended")
    assert ended.body["outcome"] == "completed"


async def test_it_reaches_no_other_session(sup: Supervisor, player: Player, scene: Scene) -> None:
    other = await sup.create("player")
    await other.send("other")
    others = await player.next_scene()

    await other.steer("shorter")

    assert scene.turn.steering() == []
    assert others.turn.steering() == ["shorter"]


# What is never taken ---------------------------------------------------------------------------


async def test_what_the_turn_never_took_becomes_a_turn_of_its_own(
    session: Session, scene: Scene, player: Player
) -> None:
    receipt = await session.steer("shorter")
    scene.finish()

    second = await player.next_scene()
    assert second.turn.text == "shorter"
    assert second.turn.input_id == receipt.input_id
    assert (await outcomes(session))[receipt.input_id] == ["delivered"]


async def test_what_was_never_taken_is_queued_at_its_own_place(
    session: Session, scene: Scene, player: Player
) -> None:
    await session.send("a")
    await session.steer("b")
    await session.send("c")
    await session.steer("d")
    scene.finish()

    assert await player.play_all() == ["a", "b", "c", "d"]


async def test_what_was_never_taken_keeps_its_place_after_an_interrupt_too(
    session: Session, scene: Scene, player: Player
) -> None:
    await session.steer("a")
    await session.send("b")

    await session.interrupt()

    assert scene.over.is_set()
    assert await player.play_all() == ["a", "b"]


async def test_the_feed_says_that_it_went_back_into_the_queue(
    sup: Supervisor, deaf_player: Player
) -> None:
    session = await sup.create("deaf")
    await session.send("first")
    await deaf_player.next_scene()
    receipt = await session.steer("shorter")

    await session.interrupt()

    (waiting,) = await session.inputs()
    last = (await records(session, "input_changed"))[-1]
    assert (waiting.id, waiting.status) == (receipt.input_id, "queued")
    assert last.body["inputs"] == {receipt.input_id: {"status": "queued"}}


async def test_what_was_taken_is_not_sent_again_when_the_turn_fails(
    session: Session, scene: Scene, player: Player
) -> None:
    receipt = await session.steer("shorter")
    scene.turn.steering()
    scene.fail(RuntimeError("no luck"))

    assert await player.play_all() == []
    assert (await outcomes(session))[receipt.input_id] == ["steered"]


async def test_what_expires_while_it_is_staged_never_becomes_a_turn(
    session: Session, scene: Scene, player: Player
) -> None:
    receipt = await session.steer("shorter", ttl_seconds=10)
    await trio.sleep(20)
    scene.finish()

    assert await player.play_all() == []
    assert (await outcomes(session))[receipt.input_id] == ["expired"]


async def test_what_was_cancelled_with_the_queue_is_not_handed_out(
    sup: Supervisor, deaf_player: Player, nursery: trio.Nursery
) -> None:
    session = await sup.create("deaf")
    await session.send("first")
    scene = await deaf_player.next_scene()
    receipt = await session.steer("shorter")
    nursery.start_soon(lambda: session.interrupt(queued="cancel"))
    await settle()
    assert (await outcomes(session))[receipt.input_id] == ["cancelled"]

    assert scene.turn.steering() == []


# When there is nothing to steer ----------------------------------------------------------------


async def test_steering_an_idle_session_is_an_error(session: Session) -> None:
    before = await records(session)

    with pytest.raises(NotRunning) as refusal:
        await session.steer("shorter")

    assert "send it" in refusal.value.hint
    assert await records(session) == before


@pytest.mark.parametrize("phase", ["suspended", "stopped"])
async def test_steering_wakes_nobody(sup: Supervisor, phase: str) -> None:
    session = await sup.create("player", suspend_after_seconds=60)
    if phase == "stopped":
        await session.stop()
    await trio.sleep(61)

    with pytest.raises(NotRunning):
        await session.steer("shorter")

    assert (await session.info()).phase == phase


async def test_sending_guidance_to_an_idle_session_starts_a_turn(
    session: Session, player: Player
) -> None:
    receipt = await session.send("shorter", when_busy="steer")

    scene = await player.next_scene()
    assert receipt.status == "started"
    assert scene.turn.text == "shorter"
    assert scene.turn.steering() == []


async def test_steering_is_refused_while_the_turn_is_being_interrupted(
    sup: Supervisor, deaf_player: Player, nursery: trio.Nursery
) -> None:
    session = await sup.create("deaf")
    await session.send("first")
    scene = await deaf_player.next_scene()
    nursery.start_soon(session.interrupt)
    await settle()
    assert (await session.info()).phase == "interrupting"

    with pytest.raises(NotRunning):
        await session.steer("shorter")

    assert scene.turn.steering() == []


async def test_sent_guidance_is_queued_while_the_turn_is_being_interrupted(
    sup: Supervisor, deaf_player: Player, nursery: trio.Nursery
) -> None:
    session = await sup.create("deaf")
    await session.send("first")
    scene = await deaf_player.next_scene()
    nursery.start_soon(session.interrupt)
    await settle()

    receipt = await session.send("shorter", when_busy="steer")

    assert (receipt.status, receipt.position, receipt.turn_id) == ("queued", 0, None)
    assert scene.turn.steering() == []
    scene.finish()
    assert await deaf_player.play_all() == ["shorter"]


async def test_a_turn_that_is_over_hands_out_nothing(
    session: Session, scene: Scene, player: Player
) -> None:
    scene.finish()
    await session.send("second")
    await player.next_scene()
    await session.steer("shorter")

    with pytest.raises(TurnOver):
        scene.turn.steering()

    assert await waiting_texts(session) == ["shorter"]


# Bounds and keys -------------------------------------------------------------------------------


async def test_steering_with_the_same_key_is_handed_out_once(
    session: Session, scene: Scene
) -> None:
    first = await session.steer("shorter", idempotency_key="k")
    again = await session.steer("shorter", idempotency_key="k")

    assert again == first
    assert scene.turn.steering() == ["shorter"]


async def test_what_could_not_wait_is_not_taken_for_steering(
    sup: Supervisor, player: Player
) -> None:
    session = await sup.create("player", queue_cap=1, max_text_bytes=5)
    await session.send("first")
    await player.next_scene()

    with pytest.raises(InputTooLarge):
        await session.steer("too long")
    await session.steer("short")
    with pytest.raises(QueueFull):
        await session.steer("more")

    assert await waiting_texts(session) == ["short"]
