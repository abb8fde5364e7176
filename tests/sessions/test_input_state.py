"""What became of an input, asked at any time, at the price of that input alone."""

from __future__ import annotations

import pytest

from actors.testing import settle
from supervisor import InputRefused, Restart, Session, SessionNotFound, Supervisor, TurnResult
from supervisor.sessions.services import Services
from tests.support.fake_agents import AgentRun, FakeAgent


async def test_the_state_of_an_input_is_readable_while_queued_running_and_settled(
    session: Session, run: AgentRun, fake_agent: FakeAgent
) -> None:
    input_id = (await session.send("again")).input_id
    queued = await session.input(input_id)
    run.finish()
    second = await fake_agent.next_run()
    running = await session.input(input_id)
    second.finish("done")
    await settle()
    over = await session.input(input_id)

    assert (queued.status, queued.position, queued.turn_id) == ("queued", 0, None)
    assert (running.status, running.position) == ("delivered", None)
    assert (running.turn_id, running.result) == (second.turn.id, None)
    assert over.result == await session.result(input_id)
    assert isinstance(over.result, TurnResult)


async def test_neither_looking_nor_waiting_reads_the_whole_history(
    session: Session, run: AgentRun, fake_agent: FakeAgent, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(*_: object) -> None:
        raise AssertionError("the whole history was read")

    input_id = (await session.send("again")).input_id
    run.finish()
    (await fake_agent.next_run()).finish("done")
    await settle()
    monkeypatch.setattr(Services, "all_records", fail)

    assert (await session.result(input_id)).text == "done"
    assert (await session.input(input_id)).status == "delivered"
    for ask in (session.result, session.input):
        with pytest.raises(InputRefused, match="no input"):
            await ask("in_none")


async def test_an_input_of_a_stopped_session_is_reported_as_held(
    sup: Supervisor,
) -> None:
    session = await sup.create("scripted", restart=Restart(policy="never"))
    await session.send("sleep 1\ncrash")
    input_id = (await session.send("say later")).input_id
    await session.wait_stopped()

    state = await session.input(input_id)

    assert (state.status, state.code, state.position) == ("queued", "session_not_active", 0)


async def test_an_input_of_an_unknown_session_raises_session_not_found(sup: Supervisor) -> None:
    with pytest.raises(SessionNotFound):
        await sup.session("s_none").input("in_none")
