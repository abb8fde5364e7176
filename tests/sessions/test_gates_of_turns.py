"""Hooks in front of turns, tools and questions: heeded, bounded, and never in the way."""

from __future__ import annotations

from typing import Any

import pytest
import trio

import supervisor
from actors.testing import settle
from supervisor import (
    Change,
    Deny,
    HookEvent,
    InputRefused,
    PermissionDenied,
    Permissions,
    Session,
    Settings,
    Stop,
    Supervisor,
    TurnOver,
)
from supervisor.core.session import Failure
from supervisor.sessions.hooks import BlockingPoint
from tests.sessions.cast import Deed, Interrupted, Player, Scene, records
from tests.sessions.lives import Understudies
from tests.sessions.watchmen import (
    DEADLINE,
    Watchman,
    hang,
    lose_the_actor,
    nothing_is_left,
    refuse_unless_stopped_by_hook,
    refused,
    taking,
)

# A turn begins ------------------------------------------------------------------------------------


async def test_a_turn_begins_with_the_consent_of_hooks(
    sup: Supervisor, session: Session, player: Player
) -> None:
    start, prompt = Watchman(), Watchman()
    sup.hooks.add("turn_start", start)
    sup.hooks.add("prompt_assembled", prompt)
    receipt = await session.send("hello", attachments=[{"a": 1}])
    scene = await player.next_scene()

    for event in (start.only, prompt.only):
        assert (event.session_id, event.turn_id) == (session.id, scene.turn.id)
    said = {"input_id": receipt.input_id, "text": "hello"}
    assert dict(start.only.data) == {**said, "source": "user"}
    assert dict(prompt.only.data) == {**said, "attachments": ({"a": 1},)}


async def test_the_agent_gets_what_hooks_make_of_a_text_and_the_user_reads_his_own(
    sup: Supervisor, session: Session, player: Player
) -> None:
    sup.hooks.add("prompt_assembled", lambda e: Change(text=e.data["text"] + "!"))
    sup.hooks.add("prompt_assembled", lambda e: Change(text=e.data["text"] + "?", attachments=[{}]))
    await session.send("hello")
    scene = await player.next_scene()
    scene.finish("done")
    await settle()

    assert (scene.turn.text, scene.turn.attachments) == ("hello!?", ({},))
    assert [message.text for message in await session.transcript()] == ["hello", "done"]
    stored = str([record.body for record in await records(session)])
    assert "hello!" not in stored


async def test_the_next_turn_remembers_the_users_own_words(
    sup: Supervisor, session: Session, player: Player
) -> None:
    sup.hooks.add("prompt_assembled", Watchman(Change(text="changed")), once=True)
    await session.send("hello")
    (await player.next_scene()).finish("done")
    await settle()
    await session.send("again")
    scene = await player.next_scene()

    assert [message.text for message in scene.turn.history] == ["hello", "done"]
    assert scene.turn.text == "again"


@pytest.mark.parametrize("point", ["turn_start", "prompt_assembled"])
async def test_a_denied_turn_has_failed_and_the_next_one_runs(
    sup: Supervisor, session: Session, player: Player, point: BlockingPoint
) -> None:
    sup.hooks.add(point, Watchman(Deny("rude")), once=True)
    result = await session.prompt("hello")
    await session.send("again")
    scene = await player.next_scene()

    assert result.outcome == "failed"
    assert "Watchman" in str(result.error)
    assert "rude" in str(result.error)
    assert scene.turn.text == "again"


@pytest.mark.parametrize("point", ["turn_start", "prompt_assembled"])
async def test_a_hook_that_stops_at_a_turn_ends_the_session(
    sup: Supervisor, session: Session, player: Player, point: BlockingPoint
) -> None:
    sup.hooks.add(point, Watchman(Stop("enough")))
    await session.send("hello")
    await refuse_unless_stopped_by_hook(session, "enough")

    assert player.scenes == []
    (ended,) = await records(session, "turn_ended")
    assert ended.body["outcome"] in ("failed", "interrupted")


async def test_nothing_that_waits_runs_after_a_hook_has_said_stop(
    sup: Supervisor, session: Session, player: Player
) -> None:
    async def stop_the_first(event: HookEvent) -> Stop | None:
        await trio.sleep(1.0)
        return Stop("enough") if event.data["text"] == "first" else None

    sup.hooks.add("turn_start", stop_the_first)
    await session.send("first")
    await session.send("second")
    await refuse_unless_stopped_by_hook(session, "enough")

    assert player.scenes == []
    assert len(await records(session, "turn_started")) == 1


async def test_hooks_added_in_the_middle_of_a_turn_are_asked_at_the_next(
    sup: Supervisor, session: Session, scene: Scene, player: Player
) -> None:
    ask = Watchman()
    sup.hooks.add("turn_start", ask)
    await session.send("second")
    scene.finish()
    await player.next_scene()

    assert ask.texts == ["second"]


async def test_a_turn_waits_for_its_hooks_and_no_longer(
    sup: Supervisor, session: Session, player: Player
) -> None:
    sup.hooks.add("turn_start", hang)
    sup.hooks.add("prompt_assembled", hang, deadline_seconds=2.0)
    began = trio.current_time()
    await session.send("hello")
    scene = await player.next_scene()

    assert trio.current_time() - began == pytest.approx(DEADLINE + 2.0)
    assert scene.turn.text == "hello"


async def test_a_required_hook_that_hangs_denies_the_turn(
    sup: Supervisor, session: Session, player: Player
) -> None:
    sup.hooks.add("turn_start", hang, required=True)
    result = await session.prompt("hello")

    assert result.outcome == "failed"
    assert "did not answer" in str(result.error)
    await nothing_is_left(sup, session)


@pytest.mark.parametrize("point", ["turn_start", "prompt_assembled"])
async def test_an_interrupt_ends_a_turn_at_once_whose_hooks_are_asked(
    sup: Supervisor, session: Session, player: Player, point: BlockingPoint
) -> None:
    sup.hooks.add(point, hang)
    await session.send("hello")
    await trio.sleep(1.0)
    report = await session.interrupt(reason="changed my mind")
    await settle()

    assert (report.matched, report.stopped, report.seconds) == (1, 1, 0.0)
    (ended,) = await records(session, "turn_ended")
    assert ended.body["outcome"] == "interrupted"
    assert player.scenes == []
    await nothing_is_left(sup, session)


async def test_the_turn_after_an_interrupted_one_passes_hooks_again(
    sup: Supervisor, session: Session, player: Player
) -> None:
    sup.hooks.add("turn_start", taking(2.0))
    await session.send("one")
    await trio.sleep(1.0)
    await session.interrupt(replace_with="two")
    began = trio.current_time()
    scene = await player.next_scene()

    assert scene.turn.text == "two"
    assert trio.current_time() - began == pytest.approx(2.0)
    assert len(player.scenes) == 1


async def test_a_hook_that_hears_nothing_keeps_no_turn_from_being_interrupted(
    sup: Supervisor, session: Session, player: Player
) -> None:
    async def deaf(_: HookEvent) -> None:
        with trio.CancelScope(shield=True):
            await trio.sleep(1000.0)

    sup.hooks.add("turn_start", deaf, once=True)
    await session.send("hello")
    await trio.sleep(1.0)
    report = await session.interrupt()
    await session.send("next")
    scene = await player.next_scene()

    assert (report.stopped, report.seconds, scene.turn.text) == (1, 0.0, "next")
    assert len(sup._house.workshop.zombies) == 1


async def test_stop_does_not_wait_for_the_hooks_of_a_turn(
    sup: Supervisor, session: Session, player: Player
) -> None:
    sup.hooks.add("turn_start", hang)
    await session.send("hello")
    await trio.sleep(1.0)
    began = trio.current_time()
    await session.stop()
    await trio.sleep(100.0)

    assert (await session.info()).stop_reason == "user_cancelled"
    assert player.scenes == []
    assert trio.current_time() - began == 100.0


async def test_a_stop_after_the_turn_waits_for_the_turn_whose_hooks_are_asked(
    sup: Supervisor, session: Session, player: Player, nursery: trio.Nursery
) -> None:
    sup.hooks.add("turn_start", taking(2.0))
    await session.send("hello")
    await trio.sleep(1.0)
    nursery.start_soon(lambda: session.stop(when="after_turn"))
    (await player.next_scene()).finish("done")
    await session.wait_stopped()

    assert (await records(session, "turn_ended"))[0].body["outcome"] == "completed"


async def test_a_turn_whose_hooks_take_longer_than_it_may_is_timed_out(
    sup: Supervisor, player: Player
) -> None:
    session = await sup.create("player", turn_deadline_seconds=3.0)
    sup.hooks.add("turn_start", hang)
    began = trio.current_time()
    result = await session.prompt("hello")

    assert result.outcome == "timed_out"
    assert trio.current_time() - began == pytest.approx(3.0, abs=0.1)
    assert player.scenes == []
    await nothing_is_left(sup, session)


async def test_a_turn_whose_hooks_hang_is_stalled_like_any_other(sup: Supervisor) -> None:
    session = await sup.create("player", stalled_after_seconds=10.0, on_stall="interrupt")
    sup.hooks.add("turn_start", hang, deadline_seconds=1000.0)
    result = await session.prompt("hello")

    assert result.outcome == "interrupted"
    assert trio.current_time() == pytest.approx(10.0, abs=1.0)


async def test_a_session_deleted_while_hooks_are_asked_is_gone(
    sup: Supervisor, session: Session, player: Player
) -> None:
    sup.hooks.add("turn_start", taking(2.0, Stop("enough")))
    await session.send("hello")
    await trio.sleep(1.0)
    await sup.delete(session.id)
    await trio.sleep(10.0)

    assert not await sup.exists(session.id)
    assert player.scenes == []


async def test_guidance_that_comes_while_hooks_are_asked_reaches_the_turn(
    sup: Supervisor, session: Session, player: Player
) -> None:
    sup.hooks.add("turn_start", taking(2.0))
    await session.send("hello")
    await trio.sleep(1.0)
    await session.steer("left")
    scene = await player.next_scene()

    assert scene.turn.steering() == ["left"]


async def test_a_turn_is_lost_whose_actor_dies_while_hooks_are_asked(
    sup: Supervisor, session: Session, player: Player
) -> None:
    sup.hooks.add("turn_start", taking(2.0), once=True)
    await session.send("hello")
    await trio.sleep(1.0)
    await lose_the_actor(sup, session)
    await trio.sleep(10.0)

    (ended,) = await records(session, "turn_ended")
    assert ended.body["outcome"] == "lost"
    assert player.scenes == []
    await nothing_is_left(sup, session)


async def test_a_stop_of_a_hook_whose_actor_died_meanwhile_still_counts(
    sup: Supervisor, session: Session, nursery: trio.Nursery
) -> None:
    sup.hooks.add("input_submitted", taking(2.0, Stop("enough")))
    deed = Deed(session.send("hello"))
    nursery.start_soon(deed.run)
    await trio.sleep(1.0)
    await lose_the_actor(sup, session)
    await refused(deed.wait(), InputRefused)

    await refuse_unless_stopped_by_hook(session, "enough")


async def test_an_agent_that_dies_while_hooks_are_asked_does_not_get_the_turn(
    player: Player,
) -> None:
    slow = Understudies()
    slow.waits = False
    agents: list[Any] = [player.agent, slow]
    async with supervisor.open(":memory:", agents=agents) as sup:
        session = await sup.create("slow")
        sup.hooks.add("turn_start", taking(2.0), once=True)
        await session.send("hello")
        await trio.sleep(1.0)
        slow.leave(Failure("process_exit", "it fell"))
        await trio.sleep(10.0)

        (ended,) = await records(session, "turn_ended")
        assert ended.body["outcome"] == "lost"
        assert (await session.info()).turn_id is None


async def test_guidance_for_a_turn_that_is_then_denied_runs_as_its_own(
    sup: Supervisor, session: Session, player: Player
) -> None:
    sup.hooks.add("turn_start", taking(2.0, Deny("no")), once=True)
    await session.send("hello")
    await trio.sleep(1.0)
    await session.steer("left")
    scene = await player.next_scene()

    assert scene.turn.text == "left"


async def test_a_stop_that_a_hook_has_ordered_is_not_undone_by_an_interrupt(
    sup: Supervisor, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    order_stop = sup._house.lines.order_stop

    async def slow(*args: Any, **options: Any) -> None:  # noqa: ANN401 - those of order_stop
        await trio.sleep(1.0)  # the store takes its time
        await order_stop(*args, **options)

    monkeypatch.setattr(sup._house.lines, "order_stop", slow)
    sup.hooks.add("turn_start", Watchman(Stop("enough")))
    await session.send("hello")
    await trio.sleep(0.5)
    await session.interrupt()

    await refuse_unless_stopped_by_hook(session, "enough")


async def test_a_turn_interrupted_by_leaving_while_hooks_are_asked_says_why(
    player: Player,
) -> None:
    settings = Settings(exit_seconds=1.0)
    async with supervisor.open(agents=[player.agent], settings=settings) as sup:
        session = await sup.create("player")
        sup.hooks.add("turn_start", hang, deadline_seconds=1000.0)
        told: list[HookEvent] = []
        sup.hooks.add("turn_end", told.append)
        await session.send("hello")
        await settle()

    assert [event.data["outcome"] for event in told] == ["interrupted"]
    assert trio.current_time() < 3.0
    assert player.scenes == []


# Tools --------------------------------------------------------------------------------------------


async def test_a_tool_is_used_with_the_consent_of_hooks(
    sup: Supervisor, session: Session, scene: Scene
) -> None:
    ask = Watchman()
    sup.hooks.add("tool_before", ask)
    call = await scene.open_call("bash", {"cmd": ["ls"]})

    assert (ask.only.session_id, ask.only.turn_id) == (session.id, scene.turn.id)
    assert dict(ask.only.data) == {"call_id": call.id, "name": "bash", "input": {"cmd": ["ls"]}}


async def use(scene: Scene, name: str = "bash") -> None:
    async with scene.turn.tool(name):
        pass


async def test_an_agent_that_may_not_use_a_tool_is_told_and_goes_on(
    sup: Supervisor, session: Session, scene: Scene
) -> None:
    sup.hooks.add("tool_before", Watchman(Deny("dangerous")))
    await refused(scene.do(use(scene)), PermissionDenied, "bash", "dangerous")
    scene.finish("without it")
    await settle()

    assert await records(session, "tool_call", "tool_ended") == []
    (ended,) = await records(session, "turn_ended")
    assert ended.body["outcome"] == "completed"


async def test_a_hook_that_stops_at_a_tool_ends_the_session(
    sup: Supervisor, session: Session, scene: Scene
) -> None:
    sup.hooks.add("tool_before", Watchman(Stop("enough")))
    await refused(scene.do(use(scene)), PermissionDenied, "enough")

    await refuse_unless_stopped_by_hook(session, "enough")


async def test_no_hook_changes_what_a_tool_is_used_on(
    sup: Supervisor, session: Session, scene: Scene
) -> None:
    sup.hooks.add("tool_before", Watchman(Change(input={"cmd": "other"})), required=True)
    await refused(scene.do(use(scene)), PermissionDenied, "required")


async def test_a_tool_that_is_no_right_of_the_session_reaches_no_hook(
    sup: Supervisor, player: Player
) -> None:
    ask = Watchman()
    sup.hooks.add("tool_before", ask)
    session = await sup.create("player", permissions=Permissions(tools=[]))
    await session.send("go")
    scene = await player.next_scene()
    await refused(scene.do(use(scene)), PermissionDenied)

    assert ask.events == []


async def test_an_interrupt_finds_an_agent_whose_tool_waits_for_hooks(
    sup: Supervisor, session: Session, scene: Scene
) -> None:
    sup.hooks.add("tool_before", hang)
    deed = scene.begin(use(scene))
    await trio.sleep(1.0)
    report = await session.interrupt()

    assert (report.stopped, report.seconds) == (1, 0.0)
    with pytest.raises(Interrupted):
        await deed.wait()
    assert await records(session, "tool_call") == []


async def test_a_call_that_waits_for_hooks_cannot_be_entered_twice(
    sup: Supervisor, session: Session, scene: Scene
) -> None:
    sup.hooks.add("tool_before", taking(1.0))
    call = scene.turn.tool("bash")

    async def enter() -> None:
        async with call:
            await trio.sleep(1.0)

    first = scene.begin(enter())
    await trio.sleep(0.5)
    second = scene.begin(enter())
    await first.wait()

    await refused(second.wait(), supervisor.ConfigError)


async def test_the_time_a_hook_takes_is_no_call_under_way(
    sup: Supervisor, session: Session, scene: Scene
) -> None:
    sup.hooks.add("tool_before", taking(3.0))
    deed = scene.begin(use(scene))
    await trio.sleep(1.0)

    assert (await session.info()).tool_calls == 0
    await deed.wait()
    await settle()
    assert (await session.info()).tool_calls == 1


# Permissions --------------------------------------------------------------------------------------


async def test_a_question_is_shown_to_hooks_before_anyone_is_asked(
    sup: Supervisor, session: Session, scene: Scene
) -> None:
    ask = Watchman()
    sup.hooks.add("permission", ask)
    scene.begin(scene.turn.ask("may I?", tool="bash", input={"a": 1}, kind="edit"))
    await settle()
    (request,) = await sup.permissions()

    assert (ask.only.session_id, ask.only.turn_id) == (session.id, scene.turn.id)
    assert dict(ask.only.data) == {
        "request_id": request.id,
        "tool": "bash",
        "question": "may I?",
        "kind": "edit",
        "input": {"a": 1},
        "options": tuple(request.options),
    }


async def test_a_hook_says_no_for_the_person(
    sup: Supervisor, session: Session, scene: Scene
) -> None:
    sup.hooks.add("permission", Watchman(Deny("never")))

    assert await scene.do(scene.turn.ask("may I?", tool="bash")) is False
    assert await sup.permissions() == ()
    (answered,) = await records(session, "permission_answered")
    assert answered.body["by"] == "hook"
    assert answered.body["decision"].startswith("reject")


async def test_a_no_of_a_hook_outweighs_a_mode_that_would_say_yes(
    sup: Supervisor, player: Player
) -> None:
    session = await sup.create("player", permissions=Permissions(mode="approve_all"))
    sup.hooks.add("permission", Watchman(Deny("never")))
    await session.send("go")
    scene = await player.next_scene()

    assert await scene.do(scene.turn.ask("may I?", tool="bash")) is False


async def test_a_no_of_a_hook_outweighs_a_rule_and_makes_none(
    sup: Supervisor, session: Session, scene: Scene
) -> None:
    deed = scene.begin(scene.turn.ask("may I?", tool="bash"))
    await settle()
    (request,) = await sup.permissions()
    await sup.answer(request.id, "allow_always")
    assert await deed.wait()
    rules = await session.rules()
    sup.hooks.add("permission", Watchman(Deny("never")))

    assert await scene.do(scene.turn.ask("may I?", tool="bash")) is False
    assert await session.rules() == rules


@pytest.mark.parametrize(
    "yes", [True, "allow_once", Change(), Change(options=()), Change(tool="x")]
)
async def test_no_hook_says_yes_for_a_person(
    sup: Supervisor, session: Session, scene: Scene, yes: object
) -> None:
    sup.hooks.add("permission", Watchman(yes))
    deed = scene.begin(scene.turn.ask("may I?", tool="bash"))
    await settle()
    (request,) = await sup.permissions()

    assert not deed.done.is_set()
    await sup.answer(request.id, "reject_once")
    assert await deed.wait() is False


async def test_a_hook_that_stops_at_a_question_ends_the_session(
    sup: Supervisor, session: Session, scene: Scene
) -> None:
    sup.hooks.add("permission", Watchman(Stop("enough")))
    scene.begin(scene.turn.ask("may I?", tool="bash"))
    await refuse_unless_stopped_by_hook(session, "enough")

    assert await sup.permissions() == ()


async def test_a_required_hook_that_fails_at_a_question_is_a_no(
    sup: Supervisor, session: Session, scene: Scene
) -> None:
    sup.hooks.add("permission", hang, required=True)

    assert await scene.do(scene.turn.ask("may I?", tool="bash")) is False


async def test_an_interrupt_finds_an_agent_whose_question_waits_for_hooks(
    sup: Supervisor, session: Session, scene: Scene
) -> None:
    sup.hooks.add("permission", hang)
    deed = scene.begin(scene.turn.ask("may I?", tool="bash"))
    await trio.sleep(1.0)
    report = await session.interrupt()

    assert (report.stopped, report.seconds) == (1, 0.0)
    with pytest.raises(Interrupted):
        await deed.wait()
    assert await records(session, "permission_asked") == []


@pytest.mark.parametrize("point", ["tool_before", "permission"])
async def test_what_an_agent_wanted_is_void_when_its_actor_dies_while_hooks_are_asked(
    sup: Supervisor, session: Session, scene: Scene, point: BlockingPoint
) -> None:
    sup.hooks.add(point, taking(2.0))
    asks = point == "permission"
    deed = scene.begin(scene.turn.ask("may I?", tool="bash")) if asks else scene.begin(use(scene))
    await trio.sleep(1.0)
    await lose_the_actor(sup, session)
    await trio.sleep(10.0)

    assert deed.done.is_set()
    assert await sup.permissions() == ()
    assert await records(session, "tool_call", "permission_asked") == []
    await nothing_is_left(sup, session)


@pytest.mark.parametrize("point", ["tool_before", "permission"])
async def test_a_deaf_agent_gets_nothing_through_hooks_after_its_turn(
    sup: Supervisor, deaf_session: Session, deaf_scene: Scene, point: BlockingPoint
) -> None:
    sup.hooks.add(point, taking(20.0), deadline_seconds=30.0)
    scene = deaf_scene
    asks = point == "permission"
    deed = scene.begin(scene.turn.ask("may I?", tool="bash")) if asks else scene.begin(use(scene))
    await trio.sleep(1.0)
    report = await deaf_session.interrupt()

    assert report.unreachable == 1
    with pytest.raises(TurnOver):
        await deed.wait()
    assert await records(deaf_session, "tool_call", "permission_asked") == []
