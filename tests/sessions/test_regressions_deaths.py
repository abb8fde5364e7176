"""Agents whose session's actor dies, and agents that do not come up: nobody is left waiting."""

from __future__ import annotations

from typing import Any

import pytest
import trio

import supervisor
from actors.testing import settle
from supervisor import (
    AgentStartFailed,
    AgentUnknown,
    Phase,
    Session,
    Supervisor,
    Turn,
    TurnOver,
)
from supervisor.core.session import Failure
from supervisor.sessions.shell import log
from tests.sessions.cast import Deed, Player, Scene, records
from tests.sessions.lives import Understudies, phase_of

# When the session's actor dies ----------------------------------------------------------------


async def lose_the_actor(sup: Supervisor, session: Session) -> None:
    """Somebody else takes the session, and the actor finds out with its next commit."""
    await sup._house.store.claim([session.id])
    await session.set(title="another")


async def test_a_lost_turn_says_why(sup: Supervisor, session: Session, scene: Scene) -> None:
    await lose_the_actor(sup, session)
    await settle()

    (ended,) = await records(session, "turn_ended")
    assert ended.body["outcome"] == "lost"
    assert ended.body["error"]


async def test_a_deaf_agent_that_asks_is_told_when_its_turn_is_lost(
    sup: Supervisor, deaf_session: Session, deaf_scene: Scene
) -> None:
    asked = deaf_scene.begin(deaf_scene.turn.ask("may I?", tool="bash"))
    await settle()

    await lose_the_actor(sup, deaf_session)

    with pytest.raises(TurnOver):
        await asked.wait()


async def test_a_deaf_agent_that_waits_for_room_is_told_when_its_turn_is_lost(
    sup: Supervisor,
    deaf_session: Session,
    deaf_scene: Scene,
    monkeypatch: pytest.MonkeyPatch,
    nursery: trio.Nursery,
) -> None:
    store, go_on = sup._house.store, trio.Event()
    commit = store.commit

    async def commit_late(writes: Any) -> Any:  # noqa: ANN401 - as the store's own
        await go_on.wait()
        return await commit(writes)

    monkeypatch.setattr(store, "commit", commit_late)
    said = deaf_scene.begin(say_until_it_is_over(deaf_scene.turn))
    nursery.start_soon(lose_the_actor, sup, deaf_session)
    await settle()
    assert not said.done.is_set()
    go_on.set()

    assert await said.wait() == "over"


async def test_an_agent_whose_output_could_not_be_written_is_not_left_waiting(
    sup: Supervisor, session: Session, scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody else wants anything of the session, so no other commit finds out."""

    async def fail(_: object) -> None:
        monkeypatch.undo()
        raise OSError("the disk is gone")

    monkeypatch.setattr(sup._house.store, "commit", fail)
    said = scene.begin(scene.turn.say("x" * 2 * log.MAX_BACKLOG_BYTES))

    with trio.move_on_after(60.0):
        await said.done.wait()

    assert said.done.is_set()


async def say_until_it_is_over(turn: Turn) -> str:
    try:
        while True:
            await turn.say("x" * log.MAX_BACKLOG_BYTES)
    except TurnOver:
        return "over"


async def test_leaving_does_not_wait_for_an_agent_whose_actor_died_while_it_asked(
    deaf_player: Player,
) -> None:
    async with supervisor.open(agents=[deaf_player.agent]) as sup:
        session = await sup.create("deaf")
        await session.send("first")
        scene = await deaf_player.next_scene()
        asked: Deed[bool] = scene.begin(scene.turn.ask("may I?", tool="bash"))
        await settle()
        await lose_the_actor(sup, session)
        with pytest.raises(TurnOver):
            await asked.wait()
        scene.finish()


# Agents that do not come up -------------------------------------------------------------------


async def test_a_session_whose_agent_is_no_longer_known_stays_stopped(
    sup: Supervisor, session: Session
) -> None:
    await session.stop()
    agents: Any = sup._house.agents
    del agents["player"]

    with pytest.raises(AgentUnknown):
        await session.resume()

    assert await phase_of(session) is Phase.STOPPED


async def test_who_sends_to_a_session_whose_agent_is_no_longer_known_is_told(
    sup: Supervisor, session: Session
) -> None:
    await session.stop()
    agents: Any = sup._house.agents
    del agents["player"]

    with pytest.raises(AgentUnknown):
        await session.prompt("anybody?")

    assert await session.inputs() == []
    assert await phase_of(session) is Phase.STOPPED


@pytest.mark.parametrize("failure", [None, Failure("process_exit", "code 1")])
async def test_an_agent_that_leaves_while_it_starts_has_not_come_up(
    nursery: trio.Nursery, failure: Failure | None
) -> None:
    slow = Understudies()
    async with supervisor.open(agents=[slow]) as sup:
        nursery.start_soon(leave_when_settled, slow, failure)

        with pytest.raises(AgentStartFailed):
            await sup.create("slow")

        (info,) = (await sup.list()).items
        assert info.phase is Phase.STOPPED


async def leave_when_settled(slow: Understudies, failure: Failure | None) -> None:
    await settle()
    slow.leave(failure)
