"""Interrupts: exactly what was named, and a report of what came of it."""

from __future__ import annotations

import pytest
import trio

from actors.testing import settle
from supervisor import (
    Call,
    ConfigError,
    InputTooLarge,
    InterruptReport,
    QueueFull,
    Session,
    Supervisor,
    SupervisorError,
    ToolCall,
    TurnScope,
)
from tests.sessions.cast import (
    Interrupted,
    Player,
    Scene,
    outcomes,
    records,
    waiting_texts,
)

# A turn ----------------------------------------------------------------------------------------


async def test_an_interrupt_ends_the_turn(session: Session, scene: Scene) -> None:
    report = await session.interrupt("turn", reason="changed my mind")

    (ended,) = await records(session, "turn_ended")
    assert scene.over.is_set()
    assert (ended.body["outcome"], ended.body["stop_reason"]) == ("interrupted", "cancelled")
    assert report == InterruptReport("turn", matched=1, stopped=1, ladder_step="ask", seconds=0.0)
    assert (await session.info()).phase == "idle"


async def test_the_reason_is_on_record(session: Session, scene: Scene) -> None:
    await session.interrupt("turn", reason="changed my mind")

    (interrupted,) = await records(session, "interrupted")
    assert interrupted.turn_id == scene.turn.id
    assert interrupted.body["reason"] == "changed my mind"
    assert interrupted.body["step"] == "ask"


@pytest.mark.parametrize("scope", ["turn", "session", "named"])
async def test_a_turn_is_interrupted_by_its_id_as_the_current_one_or_with_its_session(
    session: Session, scene: Scene, scope: str
) -> None:
    match scope:
        case "turn":
            report = await session.interrupt("turn")
        case "session":
            report = await session.interrupt("session")
        case _:
            report = await session.interrupt(TurnScope(scene.turn.id))

    assert scene.over.is_set()
    assert (report.matched, report.stopped) == (1, 1)
    assert report.scope == ("session" if scope == "session" else "turn")


async def test_what_was_said_before_the_interrupt_is_kept(session: Session, scene: Scene) -> None:
    await scene.do(scene.turn.say("so far"))

    await session.interrupt()

    (said,) = await records(session, "agent_text")
    assert said.body["text"] == "so far"


async def test_the_tool_calls_of_a_turn_are_interrupted_with_it(
    session: Session, scene: Scene
) -> None:
    one = await scene.open_call("bash")
    two = await scene.open_call("grep")

    await session.interrupt()

    ended = {r.body["call_id"]: r.body["outcome"] for r in await records(session, "tool_ended")}
    assert ended == {one.id: "interrupted", two.id: "interrupted"}


async def test_the_report_comes_when_the_turn_is_over_and_says_how_long_it_took(
    sup: Supervisor, deaf_session: Session, deaf_scene: Scene, nursery: trio.Nursery
) -> None:
    async def finish_later() -> None:
        await trio.sleep(3)
        deaf_scene.finish("cleaned up")

    nursery.start_soon(finish_later)
    report = await deaf_session.interrupt()

    assert deaf_scene.over.is_set()
    assert report == InterruptReport("turn", matched=1, stopped=1, ladder_step="ask", seconds=3.0)
    assert (await sup.list()).items[0].waiting_for is None


async def test_an_agent_that_fails_while_it_is_interrupted_was_interrupted(
    session: Session, player: Player, scene: Scene
) -> None:
    async def clean_up_badly() -> None:
        try:
            await trio.sleep_forever()
        finally:
            scene.fail(RuntimeError("no luck"))

    scene.begin(clean_up_badly())
    await settle()
    await session.interrupt()

    (ended,) = await records(session, "turn_ended")
    assert ended.body["outcome"] == "interrupted"
    assert await player.play_all() == []


async def test_giving_up_the_wait_does_not_undo_the_interrupt(
    deaf_session: Session, deaf_scene: Scene
) -> None:
    with trio.move_on_after(1) as patience:
        await deaf_session.interrupt()
    assert patience.cancelled_caught

    deaf_scene.finish()
    await settle()

    assert (await deaf_session.info()).phase == "idle"
    assert len(await records(deaf_session, "interrupted")) == 1


async def test_two_interrupts_of_one_turn_are_one(
    deaf_session: Session, deaf_scene: Scene, nursery: trio.Nursery
) -> None:
    reports: list[InterruptReport] = []

    async def interrupt() -> None:
        reports.append(await deaf_session.interrupt())

    nursery.start_soon(interrupt)
    nursery.start_soon(interrupt)
    await settle()
    deaf_scene.finish()
    await settle()

    assert [(report.matched, report.stopped) for report in reports] == [(1, 1), (1, 1)]
    assert len(await records(deaf_session, "interrupted")) == 1
    assert len(await records(deaf_session, "turn_ended")) == 1


async def test_the_rest_of_the_queue_runs_after_an_interrupt(
    session: Session, scene: Scene, player: Player
) -> None:
    await session.send("second")
    await session.send("third")

    await session.interrupt()

    assert scene.over.is_set()
    assert await player.play_all() == ["second", "third"]


# Nothing to hit --------------------------------------------------------------------------------


async def test_an_interrupt_of_an_idle_session_changes_nothing_and_says_so(
    session: Session,
) -> None:
    before = await records(session)

    report = await session.interrupt("turn", replace_with="instead", queued="cancel")

    assert report == InterruptReport("turn")
    assert await records(session) == before


async def test_an_interrupt_that_names_an_old_turn_never_hits_the_next(
    session: Session, scene: Scene, player: Player
) -> None:
    await session.send("second")
    scene.finish()
    second = await player.next_scene()
    before = await records(session)

    report = await session.interrupt(
        TurnScope(scene.turn.id), replace_with="instead", queued="cancel"
    )

    assert report == InterruptReport("turn", already_over=1, stale=1)
    assert await records(session) == before
    assert not second.over.is_set()


async def test_an_interrupt_that_names_an_old_turn_when_none_runs_says_that_it_is_over(
    session: Session, scene: Scene
) -> None:
    scene.finish()
    await settle()
    before = await records(session)

    report = await session.interrupt(TurnScope(scene.turn.id), replace_with="instead")

    assert report == InterruptReport("turn", already_over=1)
    assert await records(session) == before


async def test_an_interrupt_that_names_a_turn_of_another_session_hits_neither(
    sup: Supervisor, session: Session, scene: Scene, player: Player
) -> None:
    other = await sup.create("player")
    await other.send("other")
    others = await player.next_scene()

    report = await session.interrupt(TurnScope(others.turn.id))

    assert (report.matched, report.stopped) == (0, 0)
    assert not scene.over.is_set()
    assert not others.over.is_set()


async def test_a_scope_that_means_nothing_hits_nothing(session: Session, scene: Scene) -> None:
    with pytest.raises(ConfigError, match="everything") as refusal:
        await session.interrupt("everything")  # type: ignore[arg-type]

    await settle()
    assert "ToolCall(id)" in refusal.value.hint
    assert not scene.over.is_set()


@pytest.mark.parametrize("phase", ["suspended", "stopped"])
async def test_an_interrupt_wakes_nobody(sup: Supervisor, phase: str) -> None:
    session = await sup.create("player", suspend_after_seconds=60)
    if phase == "stopped":
        await session.stop()
    await trio.sleep(61)
    before = await records(session)

    assert await session.interrupt() == InterruptReport("turn")

    assert (await session.info()).phase == phase
    assert await records(session) == before


async def test_an_interrupt_reaches_no_other_session(
    sup: Supervisor, session: Session, scene: Scene, player: Player
) -> None:
    other = await sup.create("player")
    await other.send("other")
    others = await player.next_scene()

    await session.interrupt("session")
    await settle()

    assert scene.over.is_set()
    assert not others.over.is_set()
    assert (await other.info()).turn_id == others.turn.id


# Replacing -------------------------------------------------------------------------------------


async def test_a_replacement_runs_next_and_the_queue_is_kept(
    session: Session, scene: Scene, player: Player
) -> None:
    await session.send("second")

    report = await session.interrupt(replace_with="instead")

    assert (report.matched, report.stopped) == (1, 1)
    assert scene.over.is_set()
    assert await player.play_all() == ["instead", "second"]


async def test_sending_with_interrupt_is_interrupting_with_a_replacement(
    session: Session, scene: Scene, player: Player
) -> None:
    await session.send("second")

    await session.send("instead", when_busy="interrupt")

    assert await player.play_all() == ["instead", "second"]
    assert scene.over.is_set()


@pytest.mark.parametrize("way", ["send", "interrupt"])
async def test_the_new_text_is_durable_before_the_turn_is_interrupted(
    session: Session, scene: Scene, way: str
) -> None:
    if way == "send":
        await session.send("instead", when_busy="interrupt")
    else:
        await session.interrupt(replace_with="instead")
    await settle()

    kinds = [r.kind for r in await records(session, "input_accepted", "interrupted", "turn_ended")]
    assert scene.over.is_set()
    assert kinds == ["input_accepted", "input_accepted", "interrupted", "turn_ended"]


async def test_cancelling_the_queue_raises_the_generation_and_spares_the_replacement(
    session: Session, scene: Scene, player: Player
) -> None:
    second = await session.send("second")
    steered = await session.steer("shorter")

    await session.interrupt(replace_with="instead", queued="cancel")

    replacement = (await player.next_scene()).turn
    assert replacement.text == "instead"
    assert await outcomes(session) == {
        scene.turn.input_id: ["delivered"],
        second.input_id: ["cancelled"],
        steered.input_id: ["cancelled"],
        replacement.input_id: ["delivered"],
    }
    accepted = {r.body["input_id"]: r for r in await records(session, "input_accepted")}
    assert accepted[second.input_id].body["generation"] == 0
    assert accepted[replacement.input_id].body["generation"] == 1
    assert (await session.info()).generation == 1
    assert await player.play_all() == []


async def test_later_inputs_are_of_the_new_generation(
    session: Session, scene: Scene, player: Player
) -> None:
    assert (await session.send("second")).generation == 0
    await session.interrupt(queued="cancel")

    receipt = await session.send("third")

    assert receipt.generation == 1
    assert scene.over.is_set()
    assert await player.play_all() == ["third"]


async def test_the_queue_is_cancelled_in_the_commit_that_accepts_the_replacement(
    deaf_session: Session, deaf_scene: Scene, nursery: trio.Nursery
) -> None:
    await deaf_session.send("second")
    seen = (await deaf_session.info()).last_seq
    nursery.start_soon(lambda: deaf_session.interrupt(replace_with="instead", queued="cancel"))
    await settle()

    assert [record.kind for record in await records(deaf_session) if record.seq > seen] == [
        "generation_raised",
        "input_settled",
        "input_accepted",
        "interrupted",
    ]
    assert not deaf_scene.over.is_set()


async def test_a_replacement_can_itself_be_replaced_before_it_runs(
    deaf_session: Session, deaf_scene: Scene, deaf_player: Player, nursery: trio.Nursery
) -> None:
    nursery.start_soon(lambda: deaf_session.interrupt(replace_with="one"))
    await settle()
    nursery.start_soon(lambda: deaf_session.interrupt(replace_with="two", queued="cancel"))
    await settle()
    deaf_scene.finish()

    assert await deaf_player.play_all() == ["two"]


@pytest.mark.parametrize("way", ["too large", "queue full"])
async def test_a_replacement_that_is_refused_leaves_the_turn_alone(
    sup: Supervisor, player: Player, way: str
) -> None:
    session = await sup.create("player", max_text_bytes=10, queue_cap=1)
    await session.send("first")
    scene = await player.next_scene()
    await session.send("second")
    before = await records(session)

    with pytest.raises(InputTooLarge if way == "too large" else QueueFull):
        await session.interrupt(replace_with="instead" * (2 if way == "too large" else 1))

    await settle()
    assert not scene.over.is_set()
    assert await records(session) == before


async def test_a_replacement_that_cancels_a_full_queue_has_room(
    sup: Supervisor, player: Player
) -> None:
    session = await sup.create("player", queue_cap=1)
    await session.send("first")
    await player.next_scene()
    await session.send("second")

    await session.interrupt(replace_with="instead", queued="cancel")

    assert await player.play_all() == ["instead"]


# A tool call -----------------------------------------------------------------------------------


async def test_a_tool_call_is_interrupted_alone(session: Session, scene: Scene) -> None:
    one = await scene.open_call("bash")
    two = await scene.open_call("grep")

    report = await session.interrupt(ToolCall(one.id), reason="too slow")

    assert one.left.is_set()
    assert one.call.interrupted
    assert not two.left.is_set()
    assert not scene.over.is_set()
    assert report == InterruptReport("tool_call", matched=1, stopped=1)


async def test_the_turn_goes_on_after_its_tool_call_was_interrupted(
    session: Session, scene: Scene
) -> None:
    one = await scene.open_call("bash")
    two = await scene.open_call("grep")
    await session.interrupt(ToolCall(one.id))
    await two.close()
    scene.finish("done")
    await settle()

    ended = {r.body["call_id"]: r.body["outcome"] for r in await records(session, "tool_ended")}
    (turn,) = await records(session, "turn_ended")
    assert ended == {one.id: "interrupted", two.id: "completed"}
    assert (turn.body["outcome"], turn.body["text"]) == ("completed", "done")


async def test_the_queue_is_left_alone_by_the_interrupt_of_a_tool_call(
    session: Session, scene: Scene
) -> None:
    call = await scene.open_call("bash")
    await session.send("second")

    await session.interrupt(ToolCall(call.id))

    assert await waiting_texts(session) == ["second"]
    assert (await session.info()).turn_id == scene.turn.id


async def test_text_that_is_to_replace_a_tool_call_is_not_dropped_in_silence(
    session: Session, scene: Scene
) -> None:
    call = await scene.open_call("bash")

    with pytest.raises(SupervisorError):
        await session.interrupt(ToolCall(call.id), replace_with="instead")

    assert not call.left.is_set()


async def test_interrupting_a_tool_call_that_is_over_changes_nothing_and_says_so(
    session: Session, scene: Scene
) -> None:
    call = await scene.open_call("bash")
    await call.close()
    before = await records(session)

    report = await session.interrupt(ToolCall(call.id))

    assert report == InterruptReport("tool_call", already_over=1)
    assert await records(session) == before
    assert not call.call.interrupted


async def test_interrupting_a_tool_call_of_an_old_turn_does_not_hit_the_next(
    session: Session, scene: Scene, player: Player
) -> None:
    old = await scene.open_call("bash")
    scene.finish()
    await session.send("second")
    second = await player.next_scene()
    call = await second.open_call("bash")

    report = await session.interrupt(ToolCall(old.id))

    assert report == InterruptReport("tool_call", already_over=1)
    assert not call.left.is_set()


async def test_a_tool_call_that_will_not_be_cancelled_is_unreachable_and_the_turn_goes_on(
    deaf_session: Session, deaf_scene: Scene
) -> None:
    opened: list[Call] = []

    async def shielded_call() -> None:
        async with deaf_scene.turn.tool("bash") as call:
            opened.append(call)
            with trio.CancelScope(shield=True):
                await trio.sleep(60)

    deed = deaf_scene.begin(shielded_call())
    await settle()
    report = await deaf_session.interrupt(ToolCall(opened[0].id))

    assert report == InterruptReport("tool_call", matched=1, unreachable=1, seconds=5.0)
    assert not deaf_scene.over.is_set()
    assert not deed.done.is_set()


async def test_nested_tool_calls_inside_the_interrupted_one_are_closed_with_it(
    session: Session, scene: Scene
) -> None:
    calls: list[Call] = []

    async def nested() -> None:
        async with scene.turn.tool("outer") as outer, scene.turn.tool("inner") as inner:
            calls.extend((outer, inner))
            await trio.sleep_forever()

    deed = scene.begin(nested())
    await settle()
    await session.interrupt(ToolCall(calls[0].id))
    await deed.wait()
    await settle()

    ended = [(r.body["name"], r.body["outcome"]) for r in await records(session, "tool_ended")]
    assert ended == [("inner", "interrupted"), ("outer", "interrupted")]
    assert not scene.over.is_set()


async def test_a_tool_call_is_part_of_the_turn_that_is_interrupted(
    session: Session, scene: Scene
) -> None:
    async def in_a_call() -> None:
        async with scene.turn.tool("bash"):
            await trio.sleep_forever()

    deed = scene.begin(in_a_call())
    await settle()
    await session.interrupt()

    with pytest.raises(Interrupted):
        await deed.wait()
