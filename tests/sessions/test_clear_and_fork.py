"""Clear, fork and append."""

from __future__ import annotations

import pytest
import trio
import trio.testing

import supervisor
from supervisor import (
    InputRefused,
    Phase,
    Session,
    Settings,
    Supervisor,
)
from tests.support.fake_agents import (
    AgentRun,
    FakeAgent,
    outcomes,
    records,
)
from tests.support.session_states import REST_SECONDS, bring_to, is_in_memory, phase_of, texts_of


@pytest.fixture
def settings() -> Settings:
    return Settings(suspend_after_seconds=REST_SECONDS)


async def test_clearing_empties_the_conversation_and_keeps_the_records(sup: Supervisor) -> None:
    session = await sup.create("echo", tags=["kept"])
    await session.prompt("hello")
    before = await records(session)

    await session.clear()

    assert await session.transcript() == []
    assert (await records(session))[: len(before)] == before
    assert (await session.info()).tags == ("kept",)


async def test_the_agent_has_no_history_after_a_clear(
    session: Session, fake_agent: FakeAgent
) -> None:
    await session.send("first")
    (await fake_agent.next_run()).finish("answer")
    await trio.testing.wait_all_tasks_blocked()
    await session.clear()

    await session.send("second")
    run = await fake_agent.next_run()

    assert list(run.turn.history) == []
    assert (await session.info()).phase is Phase.RUNNING


@pytest.mark.parametrize("state", ["suspended", "stopped"])
async def test_a_session_that_is_not_awake_can_be_cleared(sup: Supervisor, state: str) -> None:
    session = await sup.create("echo")
    await session.prompt("hello")
    await bring_to(session, state)
    before = await phase_of(session)

    await session.clear()

    assert await session.transcript() == []
    assert await phase_of(session) is before


async def test_clearing_a_running_session_interrupts_the_turn_and_cancels_the_queue(
    session: Session, run: AgentRun
) -> None:
    steered, waiting = await session.steer("softer"), await session.send("and then?")

    await session.clear()

    assert (await session.info()).phase is Phase.IDLE
    assert await session.transcript() == []
    ended = (await records(session, "turn_ended"))[0]
    assert (ended.body["outcome"], (await session.info()).turns) == ("interrupted", 1)
    settled = await outcomes(session)
    assert settled[steered.input_id] == settled[waiting.input_id] == ["cancelled"]
    assert len(await records(session, "session_cleared")) == 1


async def test_an_input_sent_during_a_clear_runs_in_the_new_chapter(
    sup: Supervisor, shielded_agent: FakeAgent
) -> None:
    session = await sup.create("shielded")
    await session.send("old")
    run = await shielded_agent.next_run()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(session.clear)
        nursery.start_soon(session.clear)
        await trio.testing.wait_all_tasks_blocked()
        after = await session.send("new")
    cleared_after = trio.current_time()
    run.finish()

    assert cleared_after == 5.0  # it did not hear, and is a zombie now
    assert len(await records(session, "session_cleared")) == 1
    second = await shielded_agent.next_run()
    assert second.turn.input_id == after.input_id
    assert [said.text for said in await session.transcript()] == ["new"]
    second.finish()


async def test_a_session_stopped_during_a_clear_is_cleared_and_stopped(
    sup: Supervisor, shielded_agent: FakeAgent
) -> None:
    session = await sup.create("shielded")
    await session.send("old")
    await shielded_agent.next_run()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(session.clear)
        await trio.testing.wait_all_tasks_blocked()
        nursery.start_soon(session.stop)
        await trio.sleep(5.0)
        shielded_agent.finish_open_runs()

    assert (await session.info()).stop_reason == "user_cancelled"
    assert len(await records(session, "session_cleared")) == 1
    assert await session.transcript() == []


async def test_an_agent_does_not_clear_its_own_session() -> None:
    @supervisor.agent("forgetful")
    async def forgetful(turn: supervisor.Turn) -> str:
        with pytest.raises(InputRefused):
            await opened.session(turn.session_id).clear()
        return "still here"

    async with supervisor.open(":memory:", agents=[forgetful]) as opened:
        session = await opened.create("forgetful")
        assert (await session.prompt("forget it all")).text == "still here"


async def test_clearing_drops_rules(session: Session, run: AgentRun, sup: Supervisor) -> None:
    run.begin(run.turn.ask("may I?", tool="bash"))
    await trio.testing.wait_all_tasks_blocked()
    await sup.answer((await sup.permissions())[0].id, "allow_always")
    run.finish()
    await trio.testing.wait_all_tasks_blocked()
    before = await session.rules()

    await session.clear()

    assert len(before) == 1
    assert await session.rules() == []


async def test_a_fork_has_the_history_and_continues_independently(sup: Supervisor) -> None:
    session = await sup.create("echo", key="echo:irc:ann", tags=["t"], custom={"a": "b"})
    await session.prompt("one")

    fork = await session.fork()
    await fork.prompt("two")
    info = await fork.info()

    assert await texts_of(fork) == ["one", "one", "two", "two"]
    assert await texts_of(session) == ["one", "one"]
    assert (info.key, info.tags, info.custom, info.root) == (None, ("t",), {"a": "b"}, fork.id)


async def test_a_fork_can_begin_at_an_earlier_turn(sup: Supervisor) -> None:
    session = await sup.create("echo")
    first = await session.prompt("one")
    await session.prompt("two")

    fork = await session.fork(at_turn=first.turn_id)

    assert await texts_of(fork) == ["one", "one"]


async def test_a_fork_excludes_the_running_turn(
    session: Session, run: AgentRun, fake_agent: FakeAgent
) -> None:
    await run.do(run.turn.say("half an ans"))

    fork = await session.fork()

    assert await fork.transcript() == []
    assert await phase_of(fork) is Phase.IDLE


async def test_a_fork_at_a_turn_that_never_was_is_refused(sup: Supervisor) -> None:
    session = await sup.create("echo")

    with pytest.raises(InputRefused):
        await session.fork(at_turn="turn_unknown")

    assert len((await sup.list()).items) == 1


async def test_a_fork_of_an_archived_session_is_usable(sup: Supervisor) -> None:
    session = await sup.create("echo")
    await session.prompt("one")
    await session.stop()
    await session.archive()

    fork = await session.fork()

    assert (await fork.prompt("two")).text == "two"
    assert (await session.info()).archived


async def test_rules_are_not_forked(session: Session, run: AgentRun, sup: Supervisor) -> None:
    run.begin(run.turn.ask("may I?", tool="bash"))
    await trio.testing.wait_all_tasks_blocked()
    await sup.answer((await sup.permissions())[0].id, "allow_always")
    run.finish()
    await trio.testing.wait_all_tasks_blocked()

    fork = await session.fork()

    assert await fork.rules() == []


async def test_appending_puts_a_message_into_the_history_without_a_turn(
    session: Session, fake_agent: FakeAgent
) -> None:
    await session.append("user", "said elsewhere")
    await session.append("agent", "answered elsewhere")
    between = await session.info()

    await session.send("here")
    run = await fake_agent.next_run()

    assert (between.turns, between.messages) == (0, 2)
    assert [(m.role, m.text) for m in run.turn.history] == [
        ("user", "said elsewhere"),
        ("agent", "answered elsewhere"),
    ]


async def test_appending_to_a_suspended_session_does_not_wake_it(sup: Supervisor) -> None:
    session = await sup.create("echo")
    await trio.sleep(2 * REST_SECONDS)

    await session.append("user", "a note")
    await trio.testing.wait_all_tasks_blocked()

    assert await phase_of(session) is Phase.SUSPENDED
    assert not is_in_memory(sup, session)
    assert await texts_of(session) == ["a note"]


async def test_appending_to_a_running_session_is_refused(session: Session, run: AgentRun) -> None:
    before = await session.info()

    with pytest.raises(InputRefused):
        await session.append("user", "a note")

    assert await session.info() == before
