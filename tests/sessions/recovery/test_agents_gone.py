"""Sessions whose agent is no longer given: readable, and not talked to in vain."""

from __future__ import annotations

import pytest
import trio

from supervisor import AgentUnknown, Session, Settings, Supervisor
from tests.sessions.cast import Player, records

from .lives import Program

SOON = Settings(suspend_after_seconds=1.0)


async def refused(sup: Supervisor, session: Session) -> None:
    """It is, and nothing of that is on record."""
    again = sup.session(session.id)
    for wish in (lambda: again.send("hello"), lambda: again.prompt("hello")):
        with pytest.raises(AgentUnknown, match="'player'") as refusal:
            await wish()
        assert "echo" in (refusal.value.hint or "")
    assert await again.inputs() == []
    assert await records(again, "input_accepted") == []
    assert "before" in (await again.transcript())[0].text


async def life_of_one(program: Program, player: Player) -> Session:
    async with program.life(settings=SOON) as sup:
        session = await sup.create("player")
        await session.append("user", "before")
        await trio.sleep(5.0)
    return session


async def test_who_rests_and_has_no_agent_any_more_takes_nothing(
    program: Program, player: Player
) -> None:
    session = await life_of_one(program, player)

    async with program.life(agents=[]) as sup:
        await refused(sup, session)
        assert (await sup.session(session.id).info()).phase == "suspended"
    async with program.life() as sup:
        await sup.session(session.id).send("hello")
        assert await player.play_all() == ["hello"]


async def test_who_has_stopped_is_not_brought_back_without_its_agent(
    program: Program, player: Player
) -> None:
    async with program.life() as sup:
        session = await sup.create("player")
        await session.append("user", "before")
        await session.stop()

    async with program.life(agents=[]) as sup:
        await refused(sup, session)
        with pytest.raises(AgentUnknown):
            await sup.session(session.id).resume()
        assert (await sup.session(session.id).info()).phase == "stopped"


async def test_what_was_accepted_before_is_answered_as_before(
    program: Program, player: Player
) -> None:
    async with program.life(settings=SOON) as sup:
        session = await sup.create("player")
        first = await session.send("hello", idempotency_key="once")
        assert await player.play_all() == ["hello"]
        await trio.sleep(5.0)

    async with program.life(agents=[]) as sup:
        again = await sup.session(session.id).send("hello", idempotency_key="once")
        assert again.input_id == first.input_id
        assert len(await records(sup.session(session.id), "input_accepted")) == 1
