"""Agents that will not be interrupted: their turn ends without them, and they can do no more."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest
import trio

import supervisor
from actors.testing import settle
from supervisor import (
    InputRefused,
    InterruptReport,
    Ladder,
    Session,
    Settings,
    Supervisor,
    Turn,
    TurnOver,
)
from tests.sessions.cast import (
    Player,
    Scene,
    records,
    waiting_texts,
)


async def test_a_deaf_agent_has_five_seconds_and_then_its_turn_is_over_without_it(
    deaf_session: Session, deaf_scene: Scene
) -> None:
    report = await deaf_session.interrupt()

    (ended,) = await records(deaf_session, "turn_ended")
    assert ended.body["outcome"] == "interrupted"
    assert not deaf_scene.over.is_set()
    assert report == InterruptReport(
        "turn", matched=1, unreachable=1, ladder_step="ask", seconds=5.0
    )


async def test_a_session_may_have_another_ladder(sup: Supervisor, deaf_player: Player) -> None:
    session = await sup.create("deaf", ladder=Ladder(ask_seconds=0.5))
    await session.send("first")
    await deaf_player.next_scene()

    assert (await session.interrupt()).seconds == 0.5


async def test_a_zombie_is_shown(deaf_session: Session, deaf_scene: Scene) -> None:
    await deaf_session.interrupt()

    info = await deaf_session.info()
    assert info.badge == "unhealthy"
    assert info.waiting_for == "a task that will not end"

    deaf_scene.finish()
    await settle()
    assert (await deaf_session.info()).badge == "idle"


LATE: dict[str, Callable[[Turn], Awaitable[object]]] = {
    "say": lambda turn: turn.say("late"),
    "think": lambda turn: turn.think("late"),
    "plan": lambda turn: turn.plan(["late"]),
    "ask": lambda turn: turn.ask("may I?", tool="bash"),
    "steering": lambda turn: _soon(turn.steering),
    "usage": lambda turn: _soon(lambda: turn.usage(output_tokens=1)),
    "tool": lambda turn: _soon(lambda: turn.tool("bash")),
}


async def _soon(deed: Callable[[], object]) -> object:
    await trio.lowlevel.checkpoint()
    return deed()


@pytest.mark.parametrize("deed", LATE)
async def test_everything_a_zombie_tries_raises_turn_over(
    deaf_session: Session, deaf_scene: Scene, deed: str
) -> None:
    await deaf_session.interrupt()
    before = await records(deaf_session)

    with pytest.raises(TurnOver) as refusal:
        await LATE[deed](deaf_scene.turn)

    await trio.sleep(1)
    assert "return" in refusal.value.hint
    assert await records(deaf_session) == before


@pytest.mark.parametrize("deed", LATE)
async def test_the_turn_of_an_agent_that_has_returned_is_over_too(
    session: Session, scene: Scene, deed: str
) -> None:
    scene.finish()
    await settle()
    before = await records(session)

    with pytest.raises(TurnOver):
        await LATE[deed](scene.turn)

    await trio.sleep(1)
    assert await records(session) == before


async def test_a_tool_call_that_outlives_its_turn_can_say_nothing_more(
    deaf_session: Session, deaf_scene: Scene
) -> None:
    unused = deaf_scene.turn.tool("grep")
    held = await deaf_scene.open_call("bash")
    await deaf_session.interrupt()
    before = await records(deaf_session)

    with pytest.raises(TurnOver):
        held.call.update("late")
    with pytest.raises(TurnOver):
        held.call.result("late")
    with pytest.raises(TurnOver):
        await unused.__aenter__()

    await held.close()
    assert await records(deaf_session) == before


async def test_no_new_turn_begins_while_a_zombie_lives(
    deaf_session: Session, deaf_scene: Scene, deaf_player: Player
) -> None:
    await deaf_session.send("second")
    await deaf_session.interrupt(replace_with="instead")

    receipt = await deaf_session.send("third")
    await trio.sleep(600)

    assert receipt.status == "queued"
    assert deaf_player.scenes == [deaf_scene]
    assert await waiting_texts(deaf_session) == ["instead", "second", "third"]


async def test_a_session_with_a_zombie_is_busy_for_who_will_not_wait(
    deaf_session: Session, deaf_scene: Scene
) -> None:
    await deaf_session.interrupt()

    with pytest.raises(InputRefused):
        await deaf_session.send("now or never", when_busy="reject")

    assert await deaf_session.inputs() == []
    assert not deaf_scene.over.is_set()


async def test_the_queue_goes_on_when_the_zombie_ends(
    deaf_session: Session, deaf_scene: Scene, deaf_player: Player
) -> None:
    await deaf_session.send("second")
    await deaf_session.interrupt(replace_with="instead")
    await deaf_session.send("third")

    deaf_scene.finish()

    assert await deaf_player.play_all() == ["instead", "second", "third"]


async def test_what_a_zombie_returns_changes_nothing(
    deaf_session: Session, deaf_scene: Scene
) -> None:
    await deaf_session.interrupt()

    deaf_scene.finish("too late")
    await settle()

    (ended,) = await records(deaf_session, "turn_ended")
    assert ended.body["outcome"] == "interrupted"
    assert "too late" not in str(await records(deaf_session))


async def test_what_a_zombie_raises_changes_nothing(
    deaf_session: Session, deaf_scene: Scene, deaf_player: Player
) -> None:
    await deaf_session.interrupt()

    deaf_scene.fail(RuntimeError("too late"))
    await deaf_session.send("second")

    assert (await deaf_player.next_scene()).turn.text == "second"
    assert (await deaf_session.info()).last_failure is None
    assert "too late" not in str(await records(deaf_session))


async def test_a_session_with_a_zombie_can_be_stopped(
    deaf_session: Session, deaf_scene: Scene
) -> None:
    await deaf_session.interrupt()

    await deaf_session.stop()

    assert (await deaf_session.info()).phase == "stopped"
    assert not deaf_scene.over.is_set()


async def test_a_zombie_holds_up_turns_after_a_stop_and_a_resume_too(
    deaf_session: Session, deaf_scene: Scene, deaf_player: Player
) -> None:
    await deaf_session.interrupt()
    await deaf_session.stop()
    await deaf_session.resume()

    await deaf_session.send("second")
    await trio.sleep(60)
    assert deaf_player.scenes == [deaf_scene]

    deaf_scene.finish()
    assert await deaf_player.play_all() == ["second"]


async def test_a_session_with_a_zombie_leaves_the_others_alone(
    deaf_session: Session, deaf_scene: Scene, session: Session, player: Player
) -> None:
    await deaf_session.interrupt()

    await session.send("hello")

    assert await player.play_all() == ["hello"]
    assert not deaf_scene.over.is_set()


async def test_leaving_says_which_agents_hold_it(caplog: pytest.LogCaptureFixture) -> None:
    player = Player("stubborn", deaf=True)

    async def end_it_later() -> None:
        await trio.sleep(100)
        said.extend(record.getMessage() for record in caplog.records)
        player.dismiss()

    said: list[str] = []
    settings = Settings(exit_seconds=10.0)
    async with (
        trio.open_nursery() as nursery,
        supervisor.open(agents=[player.agent], settings=settings) as sup,
    ):
        session = await sup.create("stubborn")
        await session.send("first")
        await player.next_scene()
        nursery.start_soon(end_it_later)

    assert trio.current_time() == pytest.approx(100)
    assert any("stubborn" in line and session.id in line for line in said)
