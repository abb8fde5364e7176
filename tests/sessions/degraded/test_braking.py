"""While the store is degraded brakes work at once, and are recorded when it is back."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from typing import Any, TypeAlias

import pytest
import trio

import supervisor
from actors.testing import settle
from supervisor import (
    Ladder,
    Limits,
    Session,
    Settings,
    StoreDegraded,
    Supervisor,
    SupervisorError,
    ToolCall,
    TurnScope,
)
from supervisor.core.ids import SessionId
from supervisor.store.port import Stored
from supervisor.store.writer import Retry
from tests.sessions.cast import Deed, Interrupted, Player, Scene, outcomes, records
from tests.sessions.degraded.frail import FrailStore, check_kept, make_known


@pytest.fixture
def settings() -> Settings:
    return Settings(ladder=Ladder(ask_seconds=3.0))


@pytest.fixture
async def sup(
    player: Player, deaf_player: Player, kid: Player, settings: Settings
) -> AsyncIterator[Supervisor]:
    agents = [player.agent, deaf_player.agent, kid.agent]
    async with supervisor.open(":memory:", agents=agents, settings=settings) as opened:
        try:
            yield opened
        finally:
            for one in (player, deaf_player, kid):
                one.dismiss()


async def known(store: FrailStore, session: Session) -> None:
    await make_known(store, Supervisor(session._house))


async def not_known_yet(store: FrailStore, session: Session) -> None:
    store.fall_ill()


Illness: TypeAlias = Callable[[FrailStore, Session], Awaitable[None]]
ILLNESSES: tuple[Illness, ...] = (known, not_known_yet)


async def kinds_after(session: Session, seq: int) -> list[str]:
    return [record.kind for record in await records(session) if record.seq > seq]


# Interrupts -----------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ILLNESSES, ids=lambda how: how.__name__)
@pytest.mark.parametrize("scope", ["turn", "session", "tree", "by id"])
async def test_a_turn_is_interrupted_at_once(
    store: FrailStore, session: Session, scene: Scene, scope: str, how: Illness
) -> None:
    await how(store, session)
    began = trio.current_time()

    target = TurnScope(scene.turn.id) if scope == "by id" else scope
    report = await session.interrupt(target)  # type: ignore[arg-type] # one of its words

    assert (report.matched, report.stopped, report.ladder_step) == (1, 1, "ask")
    assert trio.current_time() == began
    assert scene.over.is_set()
    await store.get_well()
    ended = (await records(session, "turn_ended"))[-1]
    assert ended.body["outcome"] == "interrupted"
    await check_kept(store, session)


async def test_a_tool_call_is_interrupted_alone(
    store: FrailStore, sup: Supervisor, session: Session, scene: Scene
) -> None:
    call = await scene.open_call("bash")
    other = await scene.open_call("edit")
    await make_known(store, sup)

    report = await session.interrupt(ToolCall(call.id))

    assert (report.matched, report.stopped) == (1, 1)
    assert call.left.is_set()
    assert not other.left.is_set()
    assert not scene.over.is_set()
    await store.get_well()
    assert [one.body["call_id"] for one in await records(session, "tool_ended")] == [call.id]
    await check_kept(store, session)


async def test_an_interrupt_that_hits_nothing_says_so_at_once(
    store: FrailStore, sup: Supervisor, session: Session
) -> None:
    await make_known(store, sup)

    assert (await session.interrupt()).matched == 0


async def test_an_agent_that_will_not_hear_is_left_when_the_ladder_is_at_its_end(
    store: FrailStore, sup: Supervisor, deaf_session: Session, deaf_scene: Scene
) -> None:
    await make_known(store, sup)
    began = trio.current_time()

    report = await deaf_session.interrupt()

    assert (report.unreachable, trio.current_time() - began) == (1, 3.0)
    deaf_scene.finish()
    await store.get_well()
    await check_kept(store, deaf_session)


async def test_an_interrupt_cancels_the_queue_if_told_to(
    store: FrailStore, sup: Supervisor, session: Session, scene: Scene, player: Player
) -> None:
    await session.send("second")
    await make_known(store, sup)

    await session.interrupt(queued="cancel")

    await store.get_well()
    assert [*(await outcomes(session)).values()] == [["delivered"], ["cancelled"]]
    assert await player.play_all() == []
    await check_kept(store, session)


async def test_what_waits_runs_after_an_interrupt_when_the_store_is_back_and_no_sooner(
    store: FrailStore, sup: Supervisor, session: Session, scene: Scene, player: Player
) -> None:
    await session.send("second")
    await make_known(store, sup)

    report = await session.interrupt()

    assert report.stopped == 1
    await trio.sleep(60)
    assert len(player.scenes) == 1
    await store.get_well()
    assert [one.turn.text for one in player.scenes] == ["first", "second"]


async def test_a_session_whose_next_turn_waits_for_the_store_answers_an_interrupt(
    store: FrailStore, session: Session, scene: Scene, player: Player
) -> None:
    await session.send("second")
    store.fall_ill()
    scene.finish()
    await settle()

    with trio.fail_after(10):
        await session.interrupt()

    await store.get_well()
    await check_kept(store, session)


# Stops ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ILLNESSES, ids=lambda how: how.__name__)
async def test_a_session_stops_at_once(
    store: FrailStore, session: Session, scene: Scene, how: Illness
) -> None:
    await session.send("second")
    await how(store, session)
    before, began = (await session.info()).last_seq, trio.current_time()

    await session.stop()

    assert trio.current_time() == began
    assert scene.over.is_set()
    assert (await session.info()).phase == "stopped"
    assert await kinds_after(session, before) == []
    await store.get_well()
    assert (await kinds_after(session, before))[-1] == "session_stopped"
    assert [*(await outcomes(session)).values()] == [["delivered"], ["cancelled"]]
    await check_kept(store, session)


async def test_an_idle_session_stops_at_once(
    store: FrailStore, sup: Supervisor, session: Session
) -> None:
    await make_known(store, sup)

    with trio.fail_after(1):
        await session.stop()

    await store.get_well()
    assert (await session.info()).phase == "stopped"
    await check_kept(store, session)


async def test_stopping_twice_is_fine(
    store: FrailStore, sup: Supervisor, session: Session, scene: Scene
) -> None:
    await make_known(store, sup)
    await session.stop()

    with trio.fail_after(1):
        await session.stop()

    await store.get_well()
    assert len(await records(session, "session_stopped")) == 1


async def test_a_cooperative_stop_waits_for_the_turn_and_not_for_the_store(
    store: FrailStore, sup: Supervisor, session: Session, scene: Scene, nursery: trio.Nursery
) -> None:
    await make_known(store, sup)
    nursery.start_soon(lambda: session.stop(when="after_turn"))
    await settle()
    assert not scene.over.is_set()

    scene.finish("done")
    with trio.fail_after(1):
        await session.wait_stopped()

    await store.get_well()
    assert (await records(session, "turn_ended"))[-1].body["outcome"] == "completed"
    await check_kept(store, session)


async def test_a_session_whose_first_turn_waits_for_the_store_can_be_stopped(
    store: FrailStore, session: Session, nursery: trio.Nursery, player: Player
) -> None:
    store.fall_ill()
    nursery.start_soon(session.send, "hello")
    await settle()

    with trio.fail_after(10):
        await session.stop()

    await store.get_well()
    assert player.scenes == []
    await check_kept(store, session)


async def test_a_session_whose_next_turn_waits_for_the_store_can_be_stopped(
    store: FrailStore, session: Session, scene: Scene, player: Player
) -> None:
    await session.send("second")
    store.fall_ill()
    scene.finish()
    await settle()

    with trio.fail_after(10):
        await session.stop()

    await store.get_well()
    assert len(player.scenes) == 1
    ended = [record.body["outcome"] for record in await records(session, "turn_ended")]
    assert ended in (["completed"], ["completed", "interrupted"])
    await check_kept(store, session)


async def test_a_stopped_session_is_brought_back_when_the_store_is(
    store: FrailStore, sup: Supervisor, session: Session, scene: Scene, player: Player
) -> None:
    await make_known(store, sup)
    await session.stop()
    await store.get_well()

    await session.send("again")

    assert (await player.next_scene()).turn.text in ("again", "first")
    await check_kept(store, session)


# Families -------------------------------------------------------------------------------------


async def test_children_stop_before_their_parents(
    store: FrailStore, sup: Supervisor, session: Session, kid: Player
) -> None:
    child = await session.spawn("kid", "errand")
    grandchild = await child.spawn("kid", "errand")
    scenes = [await kid.next_scene(), await kid.next_scene()]
    await make_known(store, sup)
    began = trio.current_time()

    with trio.fail_after(10):
        await session.stop()

    assert trio.current_time() == began
    assert all(scene.over.is_set() for scene in scenes)
    assert [(await one.info()).phase for one in (child, grandchild)] == ["stopped", "stopped"]
    await store.get_well()
    stops = [
        record.session_id
        for _, record in await store.all_records()
        if record.kind == "session_stopped"
    ]
    assert stops == [grandchild.id, child.id, session.id]
    await check_kept(store, session, child, grandchild)


async def test_a_tree_is_interrupted_from_the_bottom_up(
    store: FrailStore, sup: Supervisor, session: Session, scene: Scene, kid: Player
) -> None:
    child = await session.spawn("kid", "errand")
    errand = await kid.next_scene()
    await make_known(store, sup)

    report = await session.interrupt("tree")

    assert (report.matched, report.stopped) == (2, 2)
    assert errand.over.is_set()
    assert scene.over.is_set()
    await store.get_well()
    await check_kept(store, session, child)


async def test_a_tree_is_interrupted_though_one_of_it_waits_for_the_store(
    store: FrailStore, sup: Supervisor, session: Session, scene: Scene, kid: Player
) -> None:
    child = await session.spawn("kid", "errand")
    errand = await kid.next_scene()
    await child.send("second")
    store.fall_ill()
    errand.finish()
    await settle()

    with trio.fail_after(10):
        report = await session.interrupt("tree")

    assert scene.over.is_set()
    assert report.stopped >= 1


async def test_a_child_whose_spawn_was_in_flight_never_works_for_a_parent_that_was_stopped(
    store: FrailStore, sup: Supervisor, session: Session, kid: Player, nursery: trio.Nursery
) -> None:
    store.fall_ill()
    nursery.start_soon(_spawn, session)
    await settle()

    with trio.fail_after(10):
        await session.stop()

    await store.get_well()
    await trio.sleep(10)
    assert kid.scenes == []
    assert [info.phase for info in (await sup.list()).items] in (["stopped"], ["stopped"] * 2)
    assert (await session.info()).phase == "stopped"


async def test_a_parent_stops_though_its_child_is_at_rest(
    store: FrailStore, sup: Supervisor, session: Session, scene: Scene, kid: Player
) -> None:
    child = await session.spawn("kid", "errand", suspend_after_seconds=1.0)
    (await kid.next_scene()).finish()
    await trio.sleep(5)
    assert (await child.info()).phase == "suspended"
    await make_known(store, sup)

    with trio.move_on_after(10):
        await session.stop()

    assert scene.over.is_set()
    await store.get_well()
    await trio.sleep(5)
    assert [(await one.info()).phase for one in (child, session)] == ["stopped", "stopped"]
    await check_kept(store, session, child)


@pytest.mark.parametrize("how", ILLNESSES, ids=lambda how: how.__name__)
async def test_a_session_at_rest_is_stopped_when_the_store_is_back(
    store: FrailStore, session: Session, how: Illness
) -> None:
    await go_to_rest(session)
    await how(store, session)

    with trio.fail_after(0.5):
        await session.stop()
        await session.stop()
    assert (await session.interrupt()).matched == 0
    assert (await session.info()).phase == "suspended"

    await store.get_well()
    with trio.fail_after(1):
        assert (await session.wait_stopped()).stop_reason == "user_cancelled"
    assert len(await records(session, "session_stopped")) == 1
    await check_kept(store, session)


async def test_a_session_at_rest_is_stopped_though_the_store_gets_well_while_that_is_decided(
    store: FrailStore, sup: Supervisor, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    await go_to_rest(session)
    await make_known(store, sup)
    lines = sup._house.lines
    stop, read = lines.stop, store.read
    refusals: list[StoreDegraded] = []

    async def stop_once(*args: Any, **more: Any) -> None:  # noqa: ANN401 - as it is called
        try:
            await stop(*args, **more)
        except StoreDegraded as refusal:
            refusals.append(refusal)
            raise

    async def read_slowly(session_id: SessionId) -> Stored | None:
        stored = await read(session_id)
        if refusals and store.is_ill:
            await store.get_well()
        return stored

    monkeypatch.setattr(lines, "stop", stop_once)
    monkeypatch.setattr(store, "read", read_slowly)
    await session.stop()

    await trio.sleep(10)
    assert len(refusals) == 1
    assert (await session.info()).phase == "stopped"


async def test_such_a_stop_is_ordered_again_if_a_refusal_of_before_comes_late(
    store: FrailStore, sup: Supervisor, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    await go_to_rest(session)
    await make_known(store, sup)
    await session.stop()
    lines = sup._house.lines
    ask, late = lines.ask, [StoreDegraded("the disk was full", hint="it is not any more")]

    async def ask_late(*args: Any, **more: Any) -> object:  # noqa: ANN401 - as it is called
        if late and not sup._house.health.is_degraded:
            raise late.pop()
        return await ask(*args, **more)

    monkeypatch.setattr(lines, "ask", ask_late)
    await store.get_well()
    await trio.sleep(5)

    assert not late
    assert (await session.info()).phase == "stopped"


async def test_what_is_sent_after_such_a_stop_comes_after_it(
    store: FrailStore, sup: Supervisor, session: Session, player: Player
) -> None:
    await go_to_rest(session)
    await make_known(store, sup)
    await session.stop()
    with pytest.raises(StoreDegraded):
        await session.send("too early")

    store.is_ill = False
    await sup._house.writer.ask(Retry(), timeout_seconds=1.0)
    await session.send("again")

    scene = await player.next_scene()
    assert scene.turn.text == "again"
    kinds = [one.kind for one in await records(session)]
    assert kinds.index("session_stopped") < kinds.index("session_resumed")
    scene.finish()
    await settle()
    assert (await session.info()).phase == "idle"


async def test_a_session_that_is_gone_meanwhile_needs_no_stop(
    store: FrailStore, sup: Supervisor, session: Session
) -> None:
    await go_to_rest(session)
    await make_known(store, sup)
    await session.stop()

    await store.get_well()
    await sup.delete(session.id)

    assert not await sup.exists(session.id)


async def go_to_rest(session: Session) -> None:
    await session.set(title="at rest")
    await trio.sleep(2_000)
    assert (await session.info()).phase == "suspended"


async def test_a_budget_that_is_spent_stops_the_turn_at_once(
    store: FrailStore, sup: Supervisor, player: Player
) -> None:
    session = await sup.create("player", limits=Limits(tokens=10))
    await session.send("first")
    scene = await player.next_scene()
    await make_known(store, sup)

    scene.turn.usage(output_tokens=20)
    with trio.fail_after(5):
        await session.wait_stopped()

    assert scene.over.is_set()
    await store.get_well()
    assert (await records(session, "session_stopped"))[-1].body["reason"] == "budget_exceeded"
    await check_kept(store, session)


# Rejections -----------------------------------------------------------------------------------


async def ask(scene: Scene) -> Deed[bool]:
    deed = scene.begin(scene.turn.ask("may I?", tool="bash"))
    await settle()
    return deed


@pytest.mark.parametrize("decision", ["reject_once", "reject_always"])
async def test_a_rejection_reaches_the_agent_at_once(
    store: FrailStore, sup: Supervisor, session: Session, scene: Scene, decision: str
) -> None:
    deed = await ask(scene)
    (request,) = await sup.permissions()
    await make_known(store, sup)

    with trio.fail_after(1):
        await sup.answer(request.id, decision)  # type: ignore[arg-type] # one of its words
        assert not await deed.wait()

    await store.get_well()
    assert len(await records(session, "permission_answered")) == 1
    assert await sup.permissions() == ()
    await check_kept(store, session)


async def test_an_interrupt_cancels_what_was_asked(
    store: FrailStore, sup: Supervisor, session: Session, scene: Scene
) -> None:
    deed = await ask(scene)
    await make_known(store, sup)

    await session.interrupt()

    with pytest.raises(Interrupted):
        await deed.wait()
    await store.get_well()
    assert await sup.permissions() == ()
    await check_kept(store, session)


async def _spawn(parent: Session) -> None:
    with suppress(SupervisorError):
        await parent.spawn("kid", "errand")
