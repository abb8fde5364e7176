"""Turns lost by a crash of the session actor: no caller and no agent is left waiting."""

from __future__ import annotations

from typing import Any

import pytest
import trio

import supervisor
from actors.testing import settle
from supervisor import (
    Session,
    Supervisor,
    Turn,
    TurnOver,
)
from supervisor.sessions.output_budget import MAX_SHARE_BYTES
from tests.support.fake_agents import AgentAction, AgentRun, FakeAgent, records


async def fence_actor(sup: Supervisor, session: Session) -> None:
    """Claim the session from outside, so that the next commit of its actor is fenced."""
    await sup._services.store.claim([session.id])
    await session.set(title="another")


async def test_a_lost_turn_records_its_reason(
    sup: Supervisor, session: Session, run: AgentRun
) -> None:
    await fence_actor(sup, session)
    await settle()

    (ended,) = await records(session, "turn_ended")
    assert ended.body["outcome"] == "lost"
    assert ended.body["error"]


async def test_a_pending_request_of_a_zombie_ends_when_its_turn_is_lost(
    sup: Supervisor, shielded_session: Session, shielded_run: AgentRun
) -> None:
    asked = shielded_run.begin(shielded_run.turn.ask("may I?", tool="bash"))
    await settle()

    await fence_actor(sup, shielded_session)

    with pytest.raises(TurnOver):
        await asked.wait()


async def test_a_blocked_write_of_a_zombie_ends_when_its_turn_is_lost(
    sup: Supervisor,
    shielded_session: Session,
    shielded_run: AgentRun,
    monkeypatch: pytest.MonkeyPatch,
    nursery: trio.Nursery,
) -> None:
    store, go_on = sup._services.store, trio.Event()
    commit = store.commit

    async def commit_late(writes: Any) -> Any:  # noqa: ANN401 - as the store's own
        await go_on.wait()
        return await commit(writes)

    monkeypatch.setattr(store, "commit", commit_late)
    said = shielded_run.begin(say_until_it_is_over(shielded_run.turn))
    nursery.start_soon(fence_actor, sup, shielded_session)
    await settle()
    assert not said.done.is_set()
    go_on.set()

    assert await said.wait() == "over"


async def test_an_agent_continues_when_its_output_cannot_be_written(
    sup: Supervisor, session: Session, run: AgentRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No other request of the session makes a commit that would notice the failure."""

    async def fail(_: object) -> None:
        monkeypatch.undo()
        raise OSError("the disk is gone")

    monkeypatch.setattr(sup._services.store, "commit", fail)
    said = run.begin(run.turn.say("x" * 2 * MAX_SHARE_BYTES))

    with trio.move_on_after(60.0):
        await said.done.wait()

    assert said.done.is_set()


async def say_until_it_is_over(turn: Turn) -> str:
    try:
        while True:
            await turn.say("x" * MAX_SHARE_BYTES)
    except TurnOver:
        return "over"


async def test_leaving_does_not_wait_for_a_request_to_a_crashed_actor(
    shielded_agent: FakeAgent,
) -> None:
    async with supervisor.open(agents=[shielded_agent.agent]) as sup:
        session = await sup.create("shielded")
        await session.send("first")
        run = await shielded_agent.next_run()
        asked: AgentAction[bool] = run.begin(run.turn.ask("may I?", tool="bash"))
        await settle()
        await fence_actor(sup, session)
        with pytest.raises(TurnOver):
            await asked.wait()
        run.finish()
