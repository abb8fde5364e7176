"""Children as an agent has them: spawned, waited for, steered and stopped from inside a turn."""

from __future__ import annotations

from functools import partial

import pytest
import trio

import supervisor
from actors.testing import settle
from supervisor import (
    InputRefused,
    Limits,
    PermissionDenied,
    PythonAgent,
    Session,
    SessionNotFound,
    SpawnRefused,
    Supervisor,
    Turn,
    TurnOver,
)
from tests.sessions.cast import Player, Scene, records, texts
from tests.sessions.family.kin import ledger_of, refusal, refuse_false_books
from tests.sessions.lives import Understudies, phase_of


async def test_an_agent_waits_for_the_result_of_the_errand(scene: Scene, kid: Player) -> None:
    child = await scene.do(scene.turn.spawn("kid", "errand"))
    waiting = scene.begin(child.wait())
    (await kid.next_scene()).finish("the answer")

    result = await waiting.wait()
    assert (result.text, result.outcome) == ("the answer", "completed")


async def test_a_result_can_be_waited_for_twice_and_late(child: Session, errand: Scene) -> None:
    errand.finish("the answer")
    first = await child.wait()
    await child.stop()

    assert await child.wait() == first


async def test_a_child_stays_idle_after_its_errand(child: Session, errand: Scene) -> None:
    errand.finish()
    await child.wait()
    await settle()

    assert await phase_of(child) == "idle"


async def test_a_root_has_no_errand_to_wait_for(session: Session) -> None:
    with pytest.raises(InputRefused, match="was not spawned"):
        await session.wait()


async def test_an_agent_steers_its_child(scene: Scene, kid: Player) -> None:
    child = await scene.do(scene.turn.spawn("kid", "errand"))
    at_work = await kid.next_scene()
    await scene.do(child.steer("shorter"))

    assert at_work.turn.steering() == ["shorter"]


async def test_an_agent_interrupts_its_child_and_prompts_it_again(
    scene: Scene, kid: Player
) -> None:
    child = await scene.do(scene.turn.spawn("kid", "errand"))
    await kid.next_scene()
    report = await scene.do(child.interrupt())
    again = scene.begin(child.prompt("once more"))
    (await kid.next_scene()).finish("here")

    assert report.stopped == 1
    assert (await child.wait()).outcome == "interrupted"
    assert (await again.wait()).text == "here"


async def test_an_agent_stops_its_child(sup: Supervisor, scene: Scene, kid: Player) -> None:
    child = await scene.do(scene.turn.spawn("kid", "errand"))
    await scene.do(child.stop())

    assert (await child.info()).stop_reason == "user_cancelled"
    await refuse_false_books(sup)


async def test_an_agent_reaches_whoever_is_below_it(
    sup: Supervisor, scene: Scene, child: Session
) -> None:
    below = await child.spawn("kid", "deeper")

    assert (await scene.do(scene.turn.descendant(child.id))).id == child.id
    assert (await scene.do(scene.turn.descendant(below.id))).id == below.id


async def test_an_agent_reaches_nobody_else(
    sup: Supervisor, session: Session, scene: Scene, player: Player
) -> None:
    stranger = await sup.create("player")
    strangers_child = await stranger.spawn("kid", "errand")
    odd: list[object] = [stranger.id, strangers_child.id, session.id, "s_none", "", None, 7, ["x"]]

    for other in odd:
        with pytest.raises(PermissionDenied):
            await scene.do(scene.turn.descendant(other))  # type: ignore[arg-type]


async def test_a_child_reaches_neither_its_parent_nor_its_siblings(
    session: Session, child: Session, errand: Scene
) -> None:
    sibling = await session.spawn("kid", "other")

    for other in (session.id, sibling.id):
        with pytest.raises(PermissionDenied):
            await errand.do(errand.turn.descendant(other))


async def test_a_turn_that_is_over_has_no_children(session: Session, scene: Scene) -> None:
    scene.finish()
    await settle()

    for late in (scene.turn.spawn("kid", "late"), scene.turn.descendant(session.id)):
        with pytest.raises(TurnOver):
            await late
    with pytest.raises(TurnOver):
        scene.turn.news()
    assert await records(session, "child_started") == []


async def test_a_refusal_is_the_agents_to_handle(sup: Supervisor, player: Player) -> None:
    parent = await sup.create("player", limits=Limits(max_depth=0))
    await parent.send("go")
    scene = await player.next_scene()

    refused = await refusal(scene.do(scene.turn.spawn("kid", "errand")))
    scene.finish("never mind")

    assert (refused.limit, refused.used, refused.allowed) == ("max_depth", 0, 0)


async def test_a_script_can_spawn(sup: Supervisor) -> None:
    session = await sup.create("scripted")
    result = await session.prompt("spawn echo hello there")
    (child,) = (await session.info()).children

    assert result.text == f"spawned {child}\n"
    assert (await sup.session(child).wait()).text == "hello there"


async def test_a_script_that_spawns_too_many_fails_its_turn_only(sup: Supervisor) -> None:
    session = await sup.create("scripted", limits=Limits(max_children=1))
    result = await session.prompt("spawn echo one\nspawn echo two")

    assert result.outcome == "failed"
    assert "max_children" in str(result.error) or "live children" in str(result.error)
    assert await phase_of(session) == "idle"


async def test_the_text_of_an_errand_is_said_by_the_child_and_not_by_its_parent(
    session: Session, child: Session, errand: Scene
) -> None:
    assert texts(await records(child, "user_text")) == ["errand"]
    assert await records(session, "user_text") == []


async def test_spawns_of_an_archived_parent_are_refused(session: Session) -> None:
    await session.stop()
    await session.archive()

    assert (await refusal(session.spawn("kid", "errand"))).limit == "parent"


async def test_a_spawn_below_nobody_is_not_found(sup: Supervisor) -> None:
    with pytest.raises(SessionNotFound):
        await sup.session("s_none").spawn("kid", "errand")
    assert ledger_of(sup).live == set()


async def test_a_suspended_parent_wakes_up_for_its_child(sup: Supervisor) -> None:
    parent = await sup.create("player", suspend_after_seconds=10.0)
    await trio.sleep(20.0)
    assert await phase_of(parent) == "suspended"

    await parent.spawn("kid", "errand")

    assert await phase_of(parent) == "idle"


def test_a_refusal_is_an_error_of_the_house() -> None:
    assert SpawnRefused.code == "spawn_refused"


# Nobody waits for ever ----------------------------------------------------------------------------


async def test_waiting_for_a_child_that_is_stopped_gives_what_became_of_its_errand(
    scene: Scene, kid: Player
) -> None:
    child = await scene.do(scene.turn.spawn("kid", "errand"))
    waiting = scene.begin(child.wait())
    await kid.next_scene()
    await scene.do(child.stop())

    assert (await waiting.wait()).outcome == "interrupted"


async def test_waiting_for_a_child_that_is_deleted_ends(
    sup: Supervisor, scene: Scene, kid: Player
) -> None:
    child = await scene.do(scene.turn.spawn("kid", "errand"))
    waiting = scene.begin(child.wait())
    await kid.next_scene()
    await sup.delete(child.id)
    await settle()

    assert waiting.done.is_set()


async def test_waiting_for_an_errand_that_never_ran_says_so(
    scene: Scene, slow: Understudies
) -> None:
    async def spawn_and_wait() -> object:
        return await (await scene.turn.spawn("slow", "errand", ttl_seconds=5.0)).wait()

    with pytest.raises(InputRefused, match="cancelled"):
        await scene.do(spawn_and_wait())


async def test_an_agent_does_not_wait_for_itself() -> None:
    refused: list[str] = []

    async def selfish(turn: Turn) -> None:
        own = held[0]
        for wait in (partial(own.prompt, "x"), own.wait, own.wait_stopped):
            with pytest.raises(InputRefused):
                await wait()
            refused.append(turn.text)

    held: list[Session] = []
    async with supervisor.open(":memory:", agents=[PythonAgent("selfish", selfish)]) as sup:
        parent = await sup.create("echo")
        held.append(await parent.spawn("selfish", "errand", ttl_seconds=0.5))
        await held[0].wait_stopped()
        held[0] = await parent.spawn("selfish", "again")
        await held[0].wait()

    assert refused.count("again") == 3
