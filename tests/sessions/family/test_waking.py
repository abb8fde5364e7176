"""Children that wake their parents when they end: once, and beyond the cap of the queue."""

from __future__ import annotations

from typing import Any

import pytest
import trio

from actors.testing import settle
from supervisor import Limits, Session, Supervisor
from supervisor.drivers.port import News
from supervisor.drivers.python import AgentDied
from tests.sessions.cast import Player, Scene, records, waiting_texts
from tests.sessions.family.kin import begin, ends, everybody
from tests.sessions.lives import NEVER, phase_of


def told(news: list[News]) -> list[tuple[str, str]]:
    return [(one.kind, one.child) for one in news]


async def spawn_waking(parent: Session, kid: Player, **options: Any) -> tuple[Session, Scene]:  # noqa: ANN401
    child = await parent.spawn("kid", "x", on_end="wake", **options)
    return child, await kid.next_scene()


async def test_a_child_that_is_to_wake_its_parent_does(
    session: Session, player: Player, kid: Player
) -> None:
    child, at_work = await spawn_waking(session, kid, name="Tom")
    at_work.finish("the answer")
    woken = await player.next_scene()

    assert child.id in woken.turn.text
    assert "Tom" in woken.turn.text
    assert "the answer" in woken.turn.text
    (turn,) = await records(session, "turn_started")
    (accepted,) = await records(session, "input_accepted")
    assert turn.body["source"] == accepted.body["source"] == "child"
    assert told(woken.turn.news())[-1] == ("child_ended", child.id)


async def test_a_child_that_is_only_to_tell_wakes_nobody(
    session: Session, child: Session, errand: Scene
) -> None:
    errand.finish()
    await settle()

    assert await phase_of(session) == "idle"
    assert await records(session, "input_accepted") == []


async def test_a_suspended_parent_is_woken(sup: Supervisor, player: Player, kid: Player) -> None:
    parent = await sup.create("player", suspend_after_seconds=10.0)
    child = await parent.spawn("kid", "x", on_end="wake", lifetime="detached")
    at_work = await kid.next_scene()
    await trio.sleep(50.0)
    before = await phase_of(parent)
    at_work.finish()
    woken = await player.next_scene()

    assert before == "suspended"
    assert child.id in woken.turn.text


async def test_children_that_end_while_their_parent_is_busy_wake_it_once(
    session: Session, player: Player, scene: Scene, kid: Player
) -> None:
    family = [await spawn_waking(session, kid) for _ in range(4)]
    for _, at_work in family:
        at_work.finish()
    await settle()
    (waiting,) = await session.inputs()
    scene.finish()
    woken = await player.next_scene()

    assert woken.turn.text == waiting.text
    assert all(child.id in waiting.text for child, _ in family)
    woken.finish()
    await settle()
    assert await phase_of(session) == "idle"


async def test_children_that_end_together_lose_no_news(
    session: Session, player: Player, kid: Player
) -> None:
    family = [await spawn_waking(session, kid) for _ in range(5)]
    for _, at_work in family:
        at_work.finish()
    texts = await player.play_all()

    assert all(any(child.id in text for text in texts) for child, _ in family)
    assert sum(text.count("ended") for text in texts) == 5
    assert len(texts) <= 2


async def test_waking_a_parent_does_not_count_towards_its_cap(
    sup: Supervisor, player: Player, kid: Player
) -> None:
    parent = await sup.create("player", queue_cap=1)
    await begin(parent, player)
    await parent.send("waits")
    child, at_work = await spawn_waking(parent, kid)
    at_work.finish()
    await settle()

    waiting = await waiting_texts(parent)
    assert waiting[0] == "waits"
    assert len(waiting) == 2
    assert child.id in waiting[1]


async def test_news_that_wait_leave_the_cap_to_others(
    sup: Supervisor, player: Player, kid: Player
) -> None:
    parent = await sup.create("player", queue_cap=1)
    await begin(parent, player)
    _, at_work = await spawn_waking(parent, kid)
    at_work.finish()
    await settle()
    receipt = await parent.send("waits")

    assert (receipt.status, len(await parent.inputs())) == ("queued", 2)


async def test_a_child_stopped_after_its_errand_wakes_nobody_again(
    session: Session, player: Player, kid: Player
) -> None:
    child, at_work = await spawn_waking(session, kid)
    at_work.finish()
    (await player.next_scene()).finish()
    await settle()
    await child.stop()
    await settle()

    assert await phase_of(session) == "idle"
    assert len(await ends(session)) == 1
    assert len(await records(session, "turn_started")) == 1


@pytest.mark.parametrize("way", ["stop", "ttl", "crash"])
async def test_a_child_that_ends_before_its_errand_is_done_wakes_its_parent_once(
    session: Session, player: Player, kid: Player, way: str
) -> None:
    options: dict[str, Any] = {"restart": NEVER}
    if way == "ttl":
        options["ttl_seconds"] = 5.0
    child, at_work = await spawn_waking(session, kid, **options)
    if way == "stop":
        await child.stop()
    elif way == "crash":
        at_work.fail(AgentDied("on purpose"))
    await child.wait_stopped()
    texts = await player.play_all()

    assert texts
    assert all(child.id in text for text in texts)
    assert len(texts) == 1, texts


async def test_a_child_given_up_long_after_its_errand_wakes_its_parent(
    session: Session, player: Player, kid: Player
) -> None:
    child, at_work = await spawn_waking(session, kid, restart=NEVER)
    at_work.finish()
    await player.play_all()
    await child.send("more")
    (await kid.next_scene()).fail(AgentDied("on purpose"))
    (text,) = await player.play_all()

    assert child.id in text
    assert "agent_crashed" in text


async def test_news_too_long_for_an_input_are_cut_and_wake_all_the_same(
    sup: Supervisor, player: Player, kid: Player
) -> None:
    parent = await sup.create("player", max_text_bytes=100)
    _, at_work = await spawn_waking(parent, kid)
    at_work.finish("ü" * 1000)
    woken = await player.next_scene()

    assert 0 < len(woken.turn.text.encode()) <= 100


async def test_nobody_is_woken_who_has_nothing_left_to_spend(sup: Supervisor, kid: Player) -> None:
    parent = await sup.create("player", limits=Limits(turns=1))
    _, at_work = await spawn_waking(parent, kid)
    at_work.finish()
    await settle()

    assert await records(parent, "input_accepted") == []
    assert [one.body["reason"] for one in await ends(parent)] == ["max_turns"]


async def test_a_child_whose_errand_is_cancelled_before_it_runs_is_told_as_interrupted(
    sup: Supervisor, session: Session
) -> None:
    child = await session.spawn("kid", "x")
    await child.stop()
    await settle()

    outcomes = {one.body["outcome"] for one in await records(session, "child_ended")}
    assert outcomes == {"interrupted"}


async def test_nobody_is_woken_when_the_supervisor_leaves(
    sup: Supervisor, session: Session, kid: Player, player: Player
) -> None:
    await spawn_waking(session, kid)
    await sup.drain()
    await settle()

    assert player.scenes == []
    assert {one.phase for one in await everybody(sup)} == {"suspended"}


async def test_a_parent_that_has_no_place_to_wake_up_in_waits_for_one(
    sup: Supervisor, kid: Player
) -> None:
    root = await sup.create("player", limits=Limits(max_children=1))
    middle = await root.spawn("kid", "x", suspend_after_seconds=1.0)
    first = await kid.next_scene()
    _, at_work = await spawn_waking(middle, kid, lifetime="detached")
    first.finish()
    await trio.sleep(5.0)
    other = await root.spawn("kid", "other")
    at_work.finish("news")
    await settle()
    before = await phase_of(middle)
    await other.stop()
    await settle()

    assert (before, await phase_of(middle)) == ("suspended", "running")
