"""Sessions whose agent is no longer given: readable, and not talked to in vain."""

from __future__ import annotations

import pytest
import trio

from supervisor import AgentUnknown, Session, Settings, Supervisor
from tests.support.fake_agents import FakeAgent, records
from tests.support.killed_program import Program

SOON = Settings(suspend_after_seconds=1.0)


async def refused(sup: Supervisor, session: Session) -> None:
    """It is, and nothing of that is on record."""
    again = sup.session(session.id)
    for wish in (lambda: again.send("hello"), lambda: again.prompt("hello")):
        with pytest.raises(AgentUnknown, match="'fake'") as refusal:
            await wish()
        assert "echo" in (refusal.value.hint or "")
    assert await again.inputs() == []
    assert await records(again, "input_accepted") == []
    assert "before" in (await again.transcript())[0].text


async def life_of_one(program: Program, fake_agent: FakeAgent) -> Session:
    async with program.running(settings=SOON) as sup:
        session = await sup.create("fake")
        await session.append("user", "before")
        await trio.sleep(5.0)
    return session


async def test_a_suspended_session_without_its_agent_refuses_input(
    program: Program, fake_agent: FakeAgent
) -> None:
    session = await life_of_one(program, fake_agent)

    async with program.running(agents=[]) as sup:
        await refused(sup, session)
        assert (await sup.session(session.id).info()).phase == "suspended"
    async with program.running() as sup:
        await sup.session(session.id).send("hello")
        assert await fake_agent.finish_all() == ["hello"]


async def test_a_stopped_session_without_its_agent_is_not_resumed(
    program: Program, fake_agent: FakeAgent
) -> None:
    async with program.running() as sup:
        session = await sup.create("fake")
        await session.append("user", "before")
        await session.stop()

    async with program.running(agents=[]) as sup:
        await refused(sup, session)
        with pytest.raises(AgentUnknown):
            await sup.session(session.id).resume()
        assert (await sup.session(session.id).info()).phase == "stopped"


async def test_a_repeated_request_from_before_the_restart_gets_its_stored_reply(
    program: Program, fake_agent: FakeAgent
) -> None:
    async with program.running(settings=SOON) as sup:
        session = await sup.create("fake")
        first = await session.send("hello", idempotency_key="once")
        assert await fake_agent.finish_all() == ["hello"]
        await trio.sleep(5.0)

    async with program.running(agents=[]) as sup:
        again = await sup.session(session.id).send("hello", idempotency_key="once")
        assert again.input_id == first.input_id
        assert len(await records(sup.session(session.id), "input_accepted")) == 1
