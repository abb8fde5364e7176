"""After a failed commit or an actor crash, the next incarnation continues the session.

The running turn is closed as lost, once. Acknowledged requests are stored and carried out, once.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Literal, TypeAlias

import pytest
import trio
import trio.testing

from supervisor import (
    Delta,
    Fenced,
    NotStorable,
    Phase,
    Record,
    Session,
    SessionNotActive,
    Supervisor,
    SupervisorError,
    TurnOver,
    TurnResult,
)
from supervisor.core import agent_events
from supervisor.core import events as ev
from supervisor.core.table import decide
from supervisor.sessions import actor as shell
from supervisor.store.port import Write
from supervisor.store.writer import Claim
from tests.support.fake_agents import AgentRun, FakeAgent, outcomes, records, waiting_texts

Trouble: TypeAlias = Literal["raises", "raises late", "not storable", "fenced"]
# After these the next incarnation comes by itself; after a fence it comes when it is wanted,
# because another supervisor may own the session by then.
CRASHES: tuple[Trouble, ...] = ("raises", "raises late", "not storable")
TROUBLES: tuple[Trouble, ...] = (*CRASHES, "fenced")
Answers: TypeAlias = list[SupervisorError | None]


class DiskTrouble(Exception):
    """The store broke, and this is all that it said."""


class Saboteur:
    """Spoils one commit: the next one that has a record of this kind in it."""

    def __init__(self, sup: Supervisor, monkeypatch: pytest.MonkeyPatch) -> None:
        self._commit = sup._services.store.commit
        self._kind: str | None = None
        self._trouble: Trouble = "raises"
        self.done = 0
        monkeypatch.setattr(sup._services.store, "commit", self.commit)

    def spoil(self, kind: str, trouble: Trouble) -> None:
        self._kind, self._trouble = kind, trouble

    async def commit(self, writes: Sequence[Write]) -> Answers:
        if not any(map(self._is_meant, writes)):
            return await self._commit(writes)
        meant = next(filter(self._is_meant, writes))
        self._kind, self.done = None, self.done + 1
        match self._trouble:
            case "raises":
                raise DiskTrouble
            case "raises late":
                await self._commit(writes)
                raise DiskTrouble
            case "not storable":
                return await self._all_but(meant, writes, NotStorable("spoilt", hint="none"))
            case "fenced":
                return await self._all_but(meant, writes, Fenced("spoilt", hint="none"))

    async def _all_but(
        self, meant: Write, writes: Sequence[Write], refusal: SupervisorError
    ) -> Answers:
        """As a store does it: of a session that was refused one, the later ones fail too."""
        good = [write for write in writes if write.session_id != meant.session_id]
        answers = iter(await self._commit(good))
        return [next(answers) if write in good else refusal for write in writes]

    def _is_meant(self, write: Write) -> bool:
        return any(record.kind == self._kind for record in write.records)


@pytest.fixture
def saboteur(sup: Supervisor, monkeypatch: pytest.MonkeyPatch) -> Saboteur:
    return Saboteur(sup, monkeypatch)


def crash_on(monkeypatch: pytest.MonkeyPatch, kind: type[ev.Event], *, times: int = 1) -> list[int]:
    """Crash the actor that decides on such an event, this many times."""
    crashes: list[int] = []

    def decide_or_crash(session: object, event: ev.Event) -> object:
        if isinstance(event, kind) and len(crashes) < times:
            crashes.append(1)
            raise RuntimeError("a defect")
        return decide(session, event)  # type: ignore[arg-type]

    monkeypatch.setattr(shell, "decide", decide_or_crash)
    return crashes


async def kinds_of(session: Session) -> list[str]:
    return [record.kind for record in await records(session)]


async def numbers_are_whole(session: Session) -> bool:
    numbers = [record.seq for record in await records(session)]
    return numbers == list(range(1, len(numbers) + 1))


# What is asked for is done once -----------------------------------------------------------------


async def wait_for_the_end(session: Session) -> None:
    """However long the pauses of restarts are, and not so long that it rests."""
    await trio.sleep(5.0)
    await trio.testing.wait_all_tasks_blocked()


@pytest.mark.parametrize("trouble", TROUBLES)
async def test_an_input_whose_commit_fails_is_accepted_once_and_runs_once(
    sup: Supervisor, saboteur: Saboteur, trouble: Trouble
) -> None:
    session = await sup.create("echo")
    before = await session.info()
    saboteur.spoil("input_accepted", trouble)

    receipt = await session.send("hello")
    await wait_for_the_end(session)

    assert saboteur.done == 1
    assert await outcomes(session) == {receipt.input_id: ["delivered"]}
    assert (await session.info()).epoch > before.epoch
    assert await numbers_are_whole(session)


@pytest.mark.parametrize("trouble", TROUBLES)
async def test_an_input_whose_commit_fails_has_one_receipt_for_its_key(
    sup: Supervisor, saboteur: Saboteur, trouble: Trouble
) -> None:
    session = await sup.create("echo")
    saboteur.spoil("input_accepted", trouble)

    receipt = await session.send("hello", idempotency_key="k")
    again = await session.send("hello", idempotency_key="k")

    assert again.input_id == receipt.input_id
    assert len(await records(session, "input_accepted")) == 1


@pytest.mark.parametrize("trouble", TROUBLES)
async def test_an_answer_to_a_failed_commit_does_not_wait_for_the_session_to_rest(
    sup: Supervisor, saboteur: Saboteur, trouble: Trouble
) -> None:
    session = await sup.create("echo")
    saboteur.spoil("input_accepted", trouble)
    began = trio.current_time()

    await session.send("hello")

    assert trio.current_time() - began < 5.0


AgentAction: TypeAlias = Callable[[Session], Awaitable[object]]


ACTIONS: dict[str, tuple[str, AgentAction]] = {
    "append": ("user_text", lambda session: session.append("user", "a note")),
    "clear": ("session_cleared", lambda session: session.clear()),
    "set": ("session_changed", lambda session: session.set(title="New")),
    "stop": ("session_changed", lambda session: session.stop()),
}


@pytest.mark.parametrize("trouble", TROUBLES)
@pytest.mark.parametrize("name", ACTIONS)
async def test_a_request_to_an_idle_session_takes_effect_once(
    session: Session, saboteur: Saboteur, name: str, trouble: Trouble
) -> None:
    kind, action = ACTIONS[name]
    saboteur.spoil(kind, trouble)

    await action(session)
    await wait_for_the_end(session)

    info = await session.info()
    cleared, notes = await kinds_of(session), await session.transcript()
    assert saboteur.done == 1
    assert cleared.count("session_cleared") == (name == "clear")
    assert len(notes) == (name == "append")
    assert (info.title == "New") == (name == "set")
    assert cleared.count("session_stopped") == (info.phase is Phase.STOPPED) == (name == "stop")


@pytest.mark.parametrize("trouble", TROUBLES)
async def test_a_stopped_session_is_archived_and_resumed_once(
    session: Session, saboteur: Saboteur, trouble: Trouble
) -> None:
    await session.stop()
    for kind, action in (
        ("session_archived", session.archive),
        ("session_archived", session.unarchive),
        ("session_resumed", session.resume),
    ):
        saboteur.spoil(kind, trouble)
        await action()

    kinds = await kinds_of(session)
    assert saboteur.done == 3
    assert (kinds.count("session_archived"), kinds.count("session_resumed")) == (2, 1)
    assert (await session.info()).phase is Phase.IDLE


@pytest.mark.parametrize("trouble", TROUBLES)
async def test_new_creates_one_session_when_its_commit_fails(
    sup: Supervisor, saboteur: Saboteur, trouble: Trouble
) -> None:
    old = await sup.create("echo", key="echo:irc:ann")
    saboteur.spoil("session_archived", trouble)

    fresh = await sup.new("echo:irc:ann")

    assert [info.id for info in (await sup.list()).items] == [old.id, fresh.id]
    assert await sup.get_or_create("echo:irc:ann") == fresh
    assert (await fresh.prompt("hello")).text == "hello"


@pytest.mark.parametrize("trouble", TROUBLES)
async def test_an_input_that_waits_is_cancelled_once_though_the_commit_fails(
    sup: Supervisor, saboteur: Saboteur, shielded_agent: FakeAgent, trouble: Trouble
) -> None:
    session = await sup.create("shielded")
    await session.send("first")
    await shielded_agent.next_run()
    waiting = await session.send("second")
    saboteur.spoil("input_settled", trouble)

    await session.cancel_input(waiting.input_id)

    assert (await outcomes(session))[waiting.input_id] == ["cancelled"]


@pytest.mark.parametrize("trouble", TROUBLES)
async def test_an_interrupt_with_a_replacement_runs_that_once(
    session: Session, run: AgentRun, saboteur: Saboteur, fake_agent: FakeAgent, trouble: Trouble
) -> None:
    saboteur.spoil("input_accepted", trouble)

    report = await session.interrupt(replace_with="instead")
    await wait_for_the_end(session)
    played = await fake_agent.finish_all()

    # If the turn was lost before it could be interrupted, there was nothing to replace.
    assert saboteur.done == 1
    assert played == ["instead"] * report.matched
    assert run.over.is_set()


@pytest.mark.parametrize("trouble", TROUBLES)
async def test_a_repeated_answer_after_a_crash_is_not_a_permission_conflict(
    sup: Supervisor, session: Session, run: AgentRun, saboteur: Saboteur, trouble: Trouble
) -> None:
    run.begin(run.turn.ask("may I?", tool="bash"))
    await trio.testing.wait_all_tasks_blocked()
    [request] = await sup.permissions()
    saboteur.spoil("permission_answered", trouble)

    try:
        await sup.answer(request.id, "allow_once")
        heard = "allow_once"
    except SupervisorError:
        heard = "cancelled"  # the turn that asked is lost, so the answer may come too late for it

    [answered] = await records(session, "permission_answered")
    assert answered.body["decision"] == heard


@pytest.mark.parametrize("trouble", TROUBLES)
async def test_a_failed_create_leaves_the_key_free_or_the_session_complete(
    sup: Supervisor, saboteur: Saboteur, trouble: Trouble
) -> None:
    saboteur.spoil("session_created", trouble)

    try:
        session = await sup.create("echo", key="echo:irc:ann")
    except SupervisorError:
        session = await sup.get_or_create("echo:irc:ann")

    assert (await session.prompt("hello")).text == "hello"
    assert [i.id for i in (await sup.list()).items if i.key] == [session.id]


# The turn that was under way ---------------------------------------------------------------------


@pytest.mark.parametrize("trouble", CRASHES)
async def test_a_turn_whose_commit_fails_is_closed_as_lost_once(
    session: Session, run: AgentRun, saboteur: Saboteur, trouble: Trouble
) -> None:
    before = await session.info()
    saboteur.spoil("tool_call", trouble)

    action = run.begin(run.open_call("bash"))
    await wait_for_the_end(session)

    [ended] = await records(session, "turn_ended")
    info = await session.info()
    assert (ended.turn_id, ended.body["outcome"]) == (run.turn.id, "lost")
    assert (info.phase, info.turn_id) == (Phase.IDLE, None)
    assert info.epoch > before.epoch
    assert run.over.is_set()
    assert action.done.is_set()


@pytest.mark.parametrize("trouble", TROUBLES)
async def test_all_that_was_open_in_a_lost_turn_is_closed(
    sup: Supervisor, session: Session, run: AgentRun, saboteur: Saboteur, trouble: Trouble
) -> None:
    await run.open_call("first")
    run.begin(run.turn.ask("may I?", tool="bash"))
    await trio.testing.wait_all_tasks_blocked()
    saboteur.spoil("session_changed", trouble)

    await session.set(title="New")
    await wait_for_the_end(session)

    [call] = await records(session, "tool_ended")
    [answer] = await records(session, "permission_answered")
    assert call.body["outcome"] == "interrupted"
    assert answer.body["decision"] == "cancelled"
    assert await sup.permissions() == ()
    assert (await session.info()).title == "New"


@pytest.mark.parametrize("trouble", CRASHES)
async def test_prompt_returns_lost_when_the_turn_is_lost(
    session: Session, fake_agent: FakeAgent, saboteur: Saboteur, trouble: Trouble
) -> None:
    results: list[TurnResult] = []

    async def prompt() -> None:
        results.append(await session.prompt("first"))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(prompt)
        run = await fake_agent.next_run()
        saboteur.spoil("tool_call", trouble)
        run.begin(run.open_call("bash"))

    assert [result.outcome for result in results] == ["lost"]


@pytest.mark.parametrize("trouble", CRASHES)
async def test_the_queue_goes_on_after_a_lost_turn(
    session: Session, run: AgentRun, fake_agent: FakeAgent, saboteur: Saboteur, trouble: Trouble
) -> None:
    second = await session.send("second")
    saboteur.spoil("tool_call", trouble)
    run.begin(run.open_call("bash"))

    following = await fake_agent.next_run()
    following.finish()
    await trio.testing.wait_all_tasks_blocked()

    assert following.turn.text == "second"
    assert (await outcomes(session))[second.input_id] == ["delivered"]
    assert await waiting_texts(session) == []


@pytest.mark.parametrize("trouble", TROUBLES)
async def test_the_agent_of_a_lost_turn_gets_turn_over(
    sup: Supervisor, shielded_agent: FakeAgent, saboteur: Saboteur, trouble: Trouble
) -> None:
    session = await sup.create("shielded")
    await session.send("first")
    run = await shielded_agent.next_run()
    saboteur.spoil("tool_call", trouble)
    run.begin(run.open_call("bash"))
    await wait_for_the_end(session)

    with pytest.raises(TurnOver):
        await run.do(run.turn.say("still here"))

    assert "still here" not in str(await records(session))


async def test_a_zombie_of_a_lost_turn_delays_the_next_turn(
    sup: Supervisor, shielded_agent: FakeAgent, saboteur: Saboteur
) -> None:
    session = await sup.create("shielded")
    await session.send("first")
    run = await shielded_agent.next_run()
    await session.send("second")
    saboteur.spoil("tool_call", "raises")
    run.begin(run.open_call("bash"))
    await wait_for_the_end(session)
    meanwhile = len(shielded_agent.runs)

    run.finish()
    second = await shielded_agent.next_run()

    assert meanwhile == 1
    assert second.turn.text == "second"


@pytest.mark.parametrize("trouble", CRASHES)
async def test_a_turn_whose_end_cannot_be_written_has_one_end(
    session: Session, run: AgentRun, saboteur: Saboteur, trouble: Trouble
) -> None:
    saboteur.spoil("turn_ended", trouble)

    run.finish("done")
    await wait_for_the_end(session)

    [ended] = await records(session, "turn_ended")
    outcome = "completed" if trouble == "raises late" else "lost"
    assert ended.body["outcome"] == outcome
    assert (await session.info()).phase is Phase.IDLE


@pytest.mark.parametrize("trouble", CRASHES)
async def test_output_that_cannot_be_written_does_not_end_the_session(
    sup: Supervisor, saboteur: Saboteur, trouble: Trouble
) -> None:
    session = await sup.create("scripted")
    saboteur.spoil("agent_text", trouble)

    first = await session.prompt("say one\nsleep 5\nsay two\nsleep 5")
    second = await session.prompt("say three")

    assert saboteur.done == 1
    assert first.outcome in ("lost", "completed")
    assert (second.outcome, second.text) == ("completed", "three")
    assert await numbers_are_whole(session)


async def test_a_stop_whose_end_cannot_be_written_ends_all_the_same(
    session: Session, run: AgentRun, saboteur: Saboteur
) -> None:
    saboteur.spoil("session_stopped", "raises")

    await session.stop()

    info = await session.info()
    assert (info.phase, info.stop_reason) == (Phase.STOPPED, "user_cancelled")
    assert len(await records(session, "session_stopped")) == 1


# Who watches and who waits ------------------------------------------------------------------------


@pytest.mark.parametrize("trouble", CRASHES)
async def test_a_watcher_sees_every_record_once_over_a_crash(
    sup: Supervisor, saboteur: Saboteur, trouble: Trouble
) -> None:
    session = await sup.create("scripted")
    seen: list[Record] = []

    async def watch() -> None:
        async with session.watch() as feed:
            async for item in feed:
                if not isinstance(item, Delta):
                    assert isinstance(item, Record)
                    seen.append(item)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(watch)
        await trio.testing.wait_all_tasks_blocked()
        saboteur.spoil("tool_call", trouble)
        await session.prompt("say one\ntool bash 1")
        await session.prompt("say two")
        await wait_for_the_end(session)
        nursery.cancel_scope.cancel()

    assert saboteur.done == 1
    assert [(r.seq, r.kind) for r in seen] == [(r.seq, r.kind) for r in await records(session)]


async def test_prompt_returns_a_result_committed_before_the_crash(
    session: Session, fake_agent: FakeAgent, saboteur: Saboteur
) -> None:
    results: list[TurnResult] = []

    async def prompt() -> None:
        results.append(await session.prompt("first"))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(prompt)
        run = await fake_agent.next_run()
        saboteur.spoil("turn_ended", "raises late")
        run.finish("done")

    assert [(result.outcome, result.text) for result in results] == [("completed", "done")]


async def test_a_request_that_was_written_before_a_crash_does_not_stay_in_the_inbox(
    sup: Supervisor, session: Session, run: AgentRun, saboteur: Saboteur
) -> None:
    run.begin(run.turn.ask("may I?", tool="bash"))
    await trio.testing.wait_all_tasks_blocked()
    saboteur.spoil("turn_ended", "raises late")

    run.finish()
    await wait_for_the_end(session)

    assert len(await records(session, "permission_answered")) == 1
    assert await sup.permissions() == ()


async def test_a_record_is_the_same_live_and_read(sup: Supervisor) -> None:
    session = await sup.create("scripted")
    seen: list[Record] = []
    async with session.watch(after=(await session.info()).last_seq) as feed:
        await session.stop()
        await session.prompt("think hm\nsay one\ntool bash 1\nuse 3")
        while not seen or seen[-1].kind != "turn_ended":
            item = await anext(feed)
            seen += [item] if isinstance(item, Record) else []

    assert seen == (await records(session))[-len(seen) :]


async def test_a_record_that_was_never_committed_is_never_seen(
    sup: Supervisor, saboteur: Saboteur
) -> None:
    session = await sup.create("scripted")
    saboteur.spoil("tool_call", "not storable")

    await session.prompt("tool bash 1")
    await session.prompt("say two")

    assert await records(session, "tool_call") == []
    assert (await session.info()).tool_calls == 0


@pytest.mark.parametrize("trouble", CRASHES)
async def test_wait_stopped_survives_a_restart_of_the_actor(
    session: Session, saboteur: Saboteur, trouble: Trouble
) -> None:
    phases: list[Phase] = []

    async def wait() -> None:
        phases.append((await session.wait_stopped()).phase)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(wait)
        await trio.testing.wait_all_tasks_blocked()
        saboteur.spoil("session_changed", trouble)
        await session.set(title="New")
        before = list(phases)
        await session.stop()

    assert (before, phases) == ([], [Phase.STOPPED])


async def test_waiters_of_a_fenced_session_get_an_error(
    session: Session, fake_agent: FakeAgent, saboteur: Saboteur
) -> None:
    async def prompt() -> None:
        with pytest.raises(Fenced):
            await session.prompt("first")

    async with trio.open_nursery() as nursery:
        nursery.start_soon(prompt)
        run = await fake_agent.next_run()
        saboteur.spoil("tool_call", "fenced")
        run.begin(run.open_call("bash"))

    assert run.over.is_set()


async def test_a_fenced_session_is_claimed_again_by_the_next_request(
    session: Session, run: AgentRun, fake_agent: FakeAgent, saboteur: Saboteur
) -> None:
    saboteur.spoil("tool_call", "fenced")
    run.begin(run.open_call("bash"))
    await wait_for_the_end(session)
    before = await session.info()

    await session.send("second")

    following = await fake_agent.next_run()
    [ended] = await records(session, "turn_ended")
    assert (ended.turn_id, ended.body["outcome"]) == (run.turn.id, "lost")
    assert (await session.info()).epoch == before.epoch + 1
    assert following.turn.text == "second"


async def test_other_sessions_do_not_notice(sup: Supervisor, saboteur: Saboteur) -> None:
    sessions = [await sup.create("scripted") for _ in range(10)]
    results: list[TurnResult] = []

    async def prompt(session: Session, step: str) -> None:
        results.append(await session.prompt(f"say one\nsleep 1\n{step}\nsay two"))

    saboteur.spoil("tool_call", "not storable")
    async with trio.open_nursery() as nursery:
        for session in sessions:
            step = "tool bash 1" if session is sessions[0] else "sleep 1"
            nursery.start_soon(prompt, session, step)

    assert sorted(result.outcome for result in results) == ["completed"] * 9 + ["lost"]
    assert [(await session.info()).epoch for session in sessions[1:]] == [1] * 9


async def test_a_store_that_broke_under_many_sessions_loses_nothing_that_was_acknowledged(
    sup: Supervisor, saboteur: Saboteur
) -> None:
    sessions = [await sup.create("echo") for _ in range(10)]
    receipts: dict[str, str] = {}

    async def send(session: Session) -> None:
        for number in range(5):
            receipt = await session.send(str(number))
            receipts[receipt.input_id] = session.id

    saboteur.spoil("turn_ended", "raises")
    async with trio.open_nursery() as nursery:
        for session in sessions:
            nursery.start_soon(send, session)
    await wait_for_the_end(sessions[0])

    assert saboteur.done == 1
    for session in sessions:
        mine = [one for one, owner in receipts.items() if owner == session.id]
        assert await outcomes(session) == {one: ["delivered"] for one in mine}
        assert await numbers_are_whole(session)


# Crashes -----------------------------------------------------------------------------------------


async def test_a_crash_of_the_actor_is_survived_and_logged(
    session: Session,
    run: AgentRun,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    before = await session.info()
    crash_on(monkeypatch, agent_events.CallStarted)

    with caplog.at_level(logging.ERROR):
        run.begin(run.open_call("bash"))
        await wait_for_the_end(session)

    [ended] = await records(session, "turn_ended")
    assert ended.body["outcome"] == "lost"
    assert (await session.info()).epoch == before.epoch + 1
    assert session.id in caplog.text


async def test_a_request_that_crashed_an_actor_is_asked_again(
    session: Session, fake_agent: FakeAgent, monkeypatch: pytest.MonkeyPatch
) -> None:
    crashes = crash_on(monkeypatch, ev.InputSubmitted)

    await session.send("first")
    run = await fake_agent.next_run()

    assert crashes == [1]
    assert run.turn.text == "first"


async def test_a_request_that_crashes_every_actor_is_refused_in_the_end(
    sup: Supervisor, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    crash_on(monkeypatch, ev.InputSubmitted, times=1000)

    with pytest.raises(SessionNotActive) as refused:
        await session.send("first")

    assert refused.value.hint
    assert await outcomes(session) == {}


async def test_a_session_whose_actor_was_given_up_can_be_used_again(
    sup: Supervisor, session: Session, fake_agent: FakeAgent, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as defect:
        crash_on(defect, ev.InputSubmitted, times=1000)
        for _ in range(3):
            with pytest.raises(SessionNotActive):
                await session.send("first")

    await session.send("second")
    run = await fake_agent.next_run()

    assert run.turn.text == "second"
    assert (await (await sup.create("echo")).prompt("hello")).text == "hello"


async def test_waiters_get_an_error_when_the_actor_exhausts_its_restarts(
    session: Session, run: AgentRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard: list[object] = []

    async def prompt() -> None:
        try:
            heard.append((await session.prompt("second")).outcome)
        except SupervisorError as error:
            heard.append(type(error))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(prompt)
        await trio.testing.wait_all_tasks_blocked()
        with monkeypatch.context() as defect:
            crash_on(defect, ev.DetailsChanged, times=1000)
            with pytest.raises(SessionNotActive):
                await session.set(title="New")
        await trio.sleep(60.0)
        nursery.cancel_scope.cancel()

    assert heard in (["lost"], [SessionNotActive])


async def test_a_crash_without_a_pending_request_keeps_the_queue_order(
    session: Session, run: AgentRun, fake_agent: FakeAgent, monkeypatch: pytest.MonkeyPatch
) -> None:
    for text in ("second", "third", "fourth"):
        await session.send(text)
    crash_on(monkeypatch, agent_events.CallStarted)
    run.begin(run.open_call("bash"))

    await wait_for_the_end(session)
    played = await fake_agent.finish_all()

    assert played == ["second", "third", "fourth"]


@pytest.mark.parametrize("trouble", TROUBLES)
async def test_a_crashed_actor_of_a_stopped_session_leaves_memory(
    sup: Supervisor, session: Session, saboteur: Saboteur, trouble: Trouble
) -> None:
    await session.stop()
    saboteur.spoil("session_archived", trouble)

    with trio.move_on_after(5.0):
        await session.archive()
    await wait_for_the_end(session)

    assert saboteur.done == 1
    assert sup._parts.registry.find_slot(session.id) is None


@pytest.mark.parametrize("trouble", TROUBLES)
async def test_a_session_that_cannot_be_claimed_at_first_is_woken_all_the_same(
    sup: Supervisor, saboteur: Saboteur, trouble: Trouble
) -> None:
    session = await sup.create("echo")
    await session.stop()
    saboteur.spoil("session_changed", trouble)  # the first thing that an incarnation writes

    result = await session.prompt("hello")

    assert saboteur.done == 1
    assert result.text == "hello"


async def test_a_session_claimed_elsewhere_is_claimed_again_by_the_next_request(
    sup: Supervisor, session: Session, run: AgentRun, fake_agent: FakeAgent
) -> None:
    stolen = await sup._services.writer.ask(Claim(session.id), timeout_seconds=1.0)
    assert stolen is not None

    await session.set(title="New")
    await wait_for_the_end(session)

    info = await session.info()
    [ended] = await records(session, "turn_ended")
    assert (info.title, info.phase) == ("New", Phase.IDLE)
    assert info.epoch > stolen.epoch
    assert ended.body["outcome"] == "lost"


async def test_waiters_of_a_session_claimed_elsewhere_are_released(
    sup: Supervisor, session: Session, fake_agent: FakeAgent
) -> None:
    heard: list[object] = []

    async def prompt() -> None:
        try:
            heard.append((await session.prompt("first")).outcome)
        except SupervisorError as error:
            heard.append(type(error))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(prompt)
        run = await fake_agent.next_run()
        await sup._services.writer.ask(Claim(session.id), timeout_seconds=1.0)
        run.finish("done")
        await trio.sleep(60.0)
        nursery.cancel_scope.cancel()

    assert heard in (["lost"], [SessionNotActive], [Fenced])
