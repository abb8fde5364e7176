"""What can be done to a session as a whole: clear, fork, append, set, archive, delete."""

from __future__ import annotations

from functools import partial

import pytest
import trio
import trio.testing

import supervisor
from supervisor import (
    InputRefused,
    Limits,
    Phase,
    Session,
    SessionNotActive,
    SessionNotFound,
    Settings,
    Supervisor,
    SupervisorError,
)
from supervisor.core import events as ev
from supervisor.core.ids import InputId
from supervisor.core.step import Refused
from supervisor.handles.results import ResultWaiter
from supervisor.sessions.idempotency import SessionRequest
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


# Clearing, forking, appending ---------------------------------------------------------------------


async def test_clearing_empties_the_conversation_and_keeps_the_records(sup: Supervisor) -> None:
    session = await sup.create("echo", tags=["kept"])
    await session.prompt("hello")
    before = await records(session)

    await session.clear()

    assert await session.transcript() == []
    assert (await records(session))[: len(before)] == before
    assert (await session.info()).tags == ("kept",)


async def test_after_clearing_the_agent_knows_nothing_of_before(
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


async def test_clearing_a_running_session_interrupts_it_and_cancels_what_waits(
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


async def test_what_is_sent_while_a_session_is_being_cleared_is_for_the_new_chapter(
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


async def test_a_session_that_is_stopped_while_it_is_cleared_is_both(
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


async def test_a_fork_knows_what_was_said_and_goes_its_own_way(sup: Supervisor) -> None:
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


async def test_a_fork_leaves_out_the_turn_that_is_running(
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


async def test_a_fork_of_a_stopped_and_archived_session_is_alive(sup: Supervisor) -> None:
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


async def test_appending_to_a_resting_session_lets_it_rest(sup: Supervisor) -> None:
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


# Setting, archiving, deleting ---------------------------------------------------------------------


async def test_set_changes_what_is_given_and_leaves_the_rest(sup: Supervisor) -> None:
    session = await sup.create("echo", title="Old", tags=["a"], custom={"x": "1"})

    await session.set(title="New", limits=Limits(turns=3))
    first = await session.info()
    await session.set(tags=[], custom={})
    second = await session.info()

    assert (first.title, first.tags, first.custom) == ("New", ("a",), {"x": "1"})
    assert first.limits == Limits(turns=3)
    assert (second.title, second.tags, second.custom) == ("New", (), {})


async def test_two_who_change_different_limits_at_once_both_get_theirs(
    session: Session,
) -> None:
    async with trio.open_nursery() as nursery:
        for change in ({"tokens": 500}, {"turns": 9}, {"max_children": 1}):
            nursery.start_soon(partial(session.set, limits=change))

    limits = (await session.info()).limits
    assert (limits.tokens, limits.turns, limits.max_children) == (500, 9, 1)


@pytest.mark.parametrize("state", ["running", "suspended", "stopped"])
async def test_set_works_in_every_phase(sup: Supervisor, state: str) -> None:
    session = await sup.create("scripted")
    if state == "running":
        await session.send("sleep 1000")
    else:
        await bring_to(session, state)
    before = await phase_of(session)

    await session.set(title="New")
    info = await session.info()

    assert (info.title, info.phase) == ("New", before)


async def test_only_a_stopped_session_can_be_archived(session: Session) -> None:
    with pytest.raises(SessionNotActive) as refused:
        await session.archive()

    info = await session.info()
    assert refused.value.hint
    assert (info.archived, info.phase) == (False, Phase.IDLE)


async def test_an_archived_session_is_read_only_until_it_is_unarchived(sup: Supervisor) -> None:
    session = await sup.create("echo")
    await session.prompt("hello")
    await session.stop()
    await session.archive()
    before = await session.info()

    for change in (
        session.clear,
        lambda: session.append("user", "a note"),
        lambda: session.set(title="New"),
        lambda: session.send("again"),
    ):
        with pytest.raises(SessionNotActive):
            await change()

    assert before.archived
    assert await session.info() == before
    await session.unarchive()
    assert (await session.prompt("again")).text == "again"


async def test_who_is_at_work_is_not_archived_and_need_not_be_stopped_for_it(
    session: Session,
) -> None:
    with pytest.raises(SessionNotActive, match="not archived") as refused:
        await session.unarchive()

    assert refused.value.hint == "use it as it is"


async def test_archiving_and_unarchiving_twice_is_fine(session: Session) -> None:
    await session.stop()

    for change in (session.archive, session.archive, session.unarchive, session.unarchive):
        await change()

    assert len(await records(session, "session_archived")) == 2


async def test_deleting_leaves_nothing_in_any_table(sup: Supervisor) -> None:
    session = await sup.create("echo", key="echo:irc:ann", idempotency_key="made")
    await session.prompt("hello", idempotency_key="said")
    store = sup._services.store

    await sup.delete(session.id)

    assert not await sup.exists(session.id)
    assert (await sup.list()).items == ()
    assert await store.records(session.id) == []
    assert await store.all_records() == []
    assert await store.stored_reply(session.id, "said") is None
    assert await store.stored_reply("create", "made") is None
    assert sup._parts.registry.find_slot(session.id) is None


async def test_deleting_stops_first(session: Session, run: AgentRun, sup: Supervisor) -> None:
    await sup.delete(session.id)

    assert run.over.is_set()
    with pytest.raises(SessionNotFound):
        await session.info()


async def test_deleting_ends_watchers_and_tells_who_waits(
    session: Session, run: AgentRun, sup: Supervisor
) -> None:
    told: list[str] = []

    async def watch() -> None:
        async with session.watch() as feed:
            async for _ in feed:
                pass
        told.append("watcher")

    async def prompt() -> None:
        with pytest.raises(SupervisorError):
            await session.prompt("second")
        told.append("prompt")

    async with trio.open_nursery() as nursery:
        nursery.start_soon(watch)
        nursery.start_soon(prompt)
        await trio.testing.wait_all_tasks_blocked()
        await sup.delete(session.id)

    assert sorted(told) == ["prompt", "watcher"]


async def test_deleting_a_sleeping_a_stopped_and_an_archived_session_works(sup: Supervisor) -> None:
    sleeping, stopped, archived = [await sup.create("echo") for _ in range(3)]
    await trio.sleep(2 * REST_SECONDS)
    await stopped.stop()
    await archived.stop()
    await archived.archive()

    for session in (sleeping, stopped, archived):
        await sup.delete(session.id)

    assert (await sup.list()).items == ()


async def test_deleting_twice_says_that_there_is_no_such_session(
    sup: Supervisor, session: Session
) -> None:
    await sup.delete(session.id)

    with pytest.raises(SessionNotFound):
        await sup.delete(session.id)


async def test_deleting_at_once_from_many_sides_ends_well(
    sup: Supervisor, session: Session, run: AgentRun
) -> None:
    heard: list[str] = []

    async def delete() -> None:
        try:
            await sup.delete(session.id)
            heard.append("deleted")
        except SessionNotFound:
            heard.append("not found")

    async with trio.open_nursery() as nursery:
        for _ in range(10):
            nursery.start_soon(delete)

    assert len(heard) == 10
    assert not await sup.exists(session.id)


async def test_an_idempotency_key_of_a_deleted_session_is_free_again(sup: Supervisor) -> None:
    session = await sup.create("echo", name="a", idempotency_key="k")
    await sup.delete(session.id)

    again = await sup.create("echo", name="another", idempotency_key="k")

    assert again.id != session.id


async def test_a_session_with_a_task_that_will_not_end_is_deleted_at_once(
    sup: Supervisor, shielded_session: Session, shielded_run: AgentRun
) -> None:
    await shielded_session.interrupt()
    assert (await shielded_session.info()).badge == "unhealthy"
    began = trio.current_time()

    await sup.delete(shielded_session.id)

    assert trio.current_time() == began
    assert not await sup.exists(shielded_session.id)


async def test_a_watcher_of_a_deleted_session_can_close_after_its_id_is_reused(
    sup: Supervisor, session: Session
) -> None:
    """The session slot still exists, because a caller has not yet received its result."""
    with ResultWaiter(sup._parts.registry, session.id, InputId("in_1")):
        async with session.watch():
            await sup.delete(session.id)
            with pytest.raises(SessionNotFound):
                async with session.watch():
                    pass

    assert not await sup.exists(session.id)


async def test_a_request_in_flight_does_not_restart_a_session_being_deleted(
    sup: Supervisor,
) -> None:
    session = await sup.create("echo")
    await session.stop()
    tree = sup._parts.registry
    ref = await tree.get_or_start(session.id)
    sup._services.removals.add(session.id)  # as a deletion does before it stops it

    resume = SessionRequest(ev.ResumeRequested(**sup._services.stamp()))
    answer = await ref.ask(resume)

    assert isinstance(answer, Refused)
    assert "deleted" in str(answer.error)
