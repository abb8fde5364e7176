"""A commit that fails, an actor that crashes: the next incarnation goes on, and nobody notices.

Nobody but the turn that was under way: it is closed as lost, once. What was acknowledged is there,
and what was asked for is done, once.
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
from supervisor.core import events as ev
from supervisor.core.table import decide
from supervisor.sessions.shell import actor as shell
from supervisor.store.port import Write
from supervisor.store.writer import Claim
from tests.sessions.cast import Player, Scene, outcomes, records, waiting_texts

Trouble: TypeAlias = Literal["raises", "raises late", "not storable", "fenced"]
# After these the next incarnation comes by itself; after a fence it comes when it is wanted,
# for somebody else may have the session by then.
CRASHES: tuple[Trouble, ...] = ("raises", "raises late", "not storable")
TROUBLES: tuple[Trouble, ...] = (*CRASHES, "fenced")
Answers: TypeAlias = list[SupervisorError | None]


class DiskTrouble(Exception):
    """The store broke, and this is all that it said."""


class Saboteur:
    """Spoils one commit: the next one that has a record of this kind in it."""

    def __init__(self, sup: Supervisor, monkeypatch: pytest.MonkeyPatch) -> None:
        self._commit = sup._house.store.commit
        self._kind: str | None = None
        self._trouble: Trouble = "raises"
        self.done = 0
        monkeypatch.setattr(sup._house.store, "commit", self.commit)

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
    """Have whichever actor decides about such an event crash, so many times."""
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


Deed: TypeAlias = Callable[[Session], Awaitable[object]]


DEEDS: dict[str, tuple[str, Deed]] = {
    "append": ("user_text", lambda session: session.append("user", "a note")),
    "clear": ("session_cleared", lambda session: session.clear()),
    "set": ("session_changed", lambda session: session.set(title="New")),
    "stop": ("session_changed", lambda session: session.stop()),
}


@pytest.mark.parametrize("trouble", TROUBLES)
@pytest.mark.parametrize("name", DEEDS)
async def test_what_is_asked_of_an_idle_session_is_done_once(
    session: Session, saboteur: Saboteur, name: str, trouble: Trouble
) -> None:
    kind, deed = DEEDS[name]
    saboteur.spoil(kind, trouble)

    await deed(session)
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
    for kind, deed in (
        ("session_archived", session.archive),
        ("session_archived", session.unarchive),
        ("session_resumed", session.resume),
    ):
        saboteur.spoil(kind, trouble)
        await deed()

    kinds = await kinds_of(session)
    assert saboteur.done == 3
    assert (kinds.count("session_archived"), kinds.count("session_resumed")) == (2, 1)
    assert (await session.info()).phase is Phase.IDLE


@pytest.mark.parametrize("trouble", TROUBLES)
async def test_new_begins_one_session_though_its_commit_fails(
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
    sup: Supervisor, saboteur: Saboteur, deaf_player: Player, trouble: Trouble
) -> None:
    session = await sup.create("deaf")
    await session.send("first")
    await deaf_player.next_scene()
    waiting = await session.send("second")
    saboteur.spoil("input_settled", trouble)

    await session.cancel_input(waiting.input_id)

    assert (await outcomes(session))[waiting.input_id] == ["cancelled"]


@pytest.mark.parametrize("trouble", TROUBLES)
async def test_an_interrupt_with_a_replacement_runs_that_once(
    session: Session, scene: Scene, saboteur: Saboteur, player: Player, trouble: Trouble
) -> None:
    saboteur.spoil("input_accepted", trouble)

    report = await session.interrupt(replace_with="instead")
    await wait_for_the_end(session)
    played = await player.play_all()

    # If the turn was lost before it could be interrupted, there was nothing to replace.
    assert saboteur.done == 1
    assert played == ["instead"] * report.matched
    assert scene.over.is_set()


@pytest.mark.parametrize("trouble", TROUBLES)
async def test_who_answers_a_request_is_not_told_that_somebody_was_faster(
    sup: Supervisor, session: Session, scene: Scene, saboteur: Saboteur, trouble: Trouble
) -> None:
    scene.begin(scene.turn.ask("may I?", tool="bash"))
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
async def test_create_says_what_went_wrong_and_leaves_the_key_free_or_the_session_whole(
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
    session: Session, scene: Scene, saboteur: Saboteur, trouble: Trouble
) -> None:
    before = await session.info()
    saboteur.spoil("tool_call", trouble)

    deed = scene.begin(scene.open_call("bash"))
    await wait_for_the_end(session)

    [ended] = await records(session, "turn_ended")
    info = await session.info()
    assert (ended.turn_id, ended.body["outcome"]) == (scene.turn.id, "lost")
    assert (info.phase, info.turn_id) == (Phase.IDLE, None)
    assert info.epoch > before.epoch
    assert scene.over.is_set()
    assert deed.done.is_set()


@pytest.mark.parametrize("trouble", TROUBLES)
async def test_all_that_was_open_in_a_lost_turn_is_closed(
    sup: Supervisor, session: Session, scene: Scene, saboteur: Saboteur, trouble: Trouble
) -> None:
    await scene.open_call("first")
    scene.begin(scene.turn.ask("may I?", tool="bash"))
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
async def test_who_prompted_hears_that_the_turn_is_lost(
    session: Session, player: Player, saboteur: Saboteur, trouble: Trouble
) -> None:
    results: list[TurnResult] = []

    async def prompt() -> None:
        results.append(await session.prompt("first"))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(prompt)
        scene = await player.next_scene()
        saboteur.spoil("tool_call", trouble)
        scene.begin(scene.open_call("bash"))

    assert [result.outcome for result in results] == ["lost"]


@pytest.mark.parametrize("trouble", CRASHES)
async def test_the_queue_goes_on_after_a_lost_turn(
    session: Session, scene: Scene, player: Player, saboteur: Saboteur, trouble: Trouble
) -> None:
    second = await session.send("second")
    saboteur.spoil("tool_call", trouble)
    scene.begin(scene.open_call("bash"))

    following = await player.next_scene()
    following.finish()
    await trio.testing.wait_all_tasks_blocked()

    assert following.turn.text == "second"
    assert (await outcomes(session))[second.input_id] == ["delivered"]
    assert await waiting_texts(session) == []


@pytest.mark.parametrize("trouble", TROUBLES)
async def test_an_agent_of_a_lost_turn_is_told_that_it_is_over(
    sup: Supervisor, deaf_player: Player, saboteur: Saboteur, trouble: Trouble
) -> None:
    session = await sup.create("deaf")
    await session.send("first")
    scene = await deaf_player.next_scene()
    saboteur.spoil("tool_call", trouble)
    scene.begin(scene.open_call("bash"))
    await wait_for_the_end(session)

    with pytest.raises(TurnOver):
        await scene.do(scene.turn.say("still here"))

    assert "still here" not in str(await records(session))


async def test_a_lost_turn_whose_task_lives_on_keeps_the_next_one_waiting(
    sup: Supervisor, deaf_player: Player, saboteur: Saboteur
) -> None:
    session = await sup.create("deaf")
    await session.send("first")
    scene = await deaf_player.next_scene()
    await session.send("second")
    saboteur.spoil("tool_call", "raises")
    scene.begin(scene.open_call("bash"))
    await wait_for_the_end(session)
    meanwhile = len(deaf_player.scenes)

    scene.finish()
    second = await deaf_player.next_scene()

    assert meanwhile == 1
    assert second.turn.text == "second"


@pytest.mark.parametrize("trouble", CRASHES)
async def test_a_turn_whose_end_cannot_be_written_has_one_end(
    session: Session, scene: Scene, saboteur: Saboteur, trouble: Trouble
) -> None:
    saboteur.spoil("turn_ended", trouble)

    scene.finish("done")
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
    session: Session, scene: Scene, saboteur: Saboteur
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


async def test_who_prompted_hears_of_an_end_that_was_written_before_the_crash(
    session: Session, player: Player, saboteur: Saboteur
) -> None:
    results: list[TurnResult] = []

    async def prompt() -> None:
        results.append(await session.prompt("first"))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(prompt)
        scene = await player.next_scene()
        saboteur.spoil("turn_ended", "raises late")
        scene.finish("done")

    assert [(result.outcome, result.text) for result in results] == [("completed", "done")]


async def test_a_request_that_was_written_before_a_crash_does_not_stay_in_the_inbox(
    sup: Supervisor, session: Session, scene: Scene, saboteur: Saboteur
) -> None:
    scene.begin(scene.turn.ask("may I?", tool="bash"))
    await trio.testing.wait_all_tasks_blocked()
    saboteur.spoil("turn_ended", "raises late")

    scene.finish()
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
async def test_who_waits_for_the_end_waits_on(
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


async def test_who_waits_for_a_fenced_session_is_told(
    session: Session, player: Player, saboteur: Saboteur
) -> None:
    async def prompt() -> None:
        with pytest.raises(Fenced):
            await session.prompt("first")

    async with trio.open_nursery() as nursery:
        nursery.start_soon(prompt)
        scene = await player.next_scene()
        saboteur.spoil("tool_call", "fenced")
        scene.begin(scene.open_call("bash"))

    assert scene.over.is_set()


async def test_a_fenced_session_is_claimed_again_when_it_is_wanted(
    session: Session, scene: Scene, player: Player, saboteur: Saboteur
) -> None:
    saboteur.spoil("tool_call", "fenced")
    scene.begin(scene.open_call("bash"))
    await wait_for_the_end(session)
    before = await session.info()

    await session.send("second")

    following = await player.next_scene()
    [ended] = await records(session, "turn_ended")
    assert (ended.turn_id, ended.body["outcome"]) == (scene.turn.id, "lost")
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
    scene: Scene,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    before = await session.info()
    crash_on(monkeypatch, ev.CallStarted)

    with caplog.at_level(logging.ERROR):
        scene.begin(scene.open_call("bash"))
        await wait_for_the_end(session)

    [ended] = await records(session, "turn_ended")
    assert ended.body["outcome"] == "lost"
    assert (await session.info()).epoch == before.epoch + 1
    assert session.id in caplog.text


async def test_a_request_that_crashed_an_actor_is_asked_again(
    session: Session, player: Player, monkeypatch: pytest.MonkeyPatch
) -> None:
    crashes = crash_on(monkeypatch, ev.InputSubmitted)

    await session.send("first")
    scene = await player.next_scene()

    assert crashes == [1]
    assert scene.turn.text == "first"


async def test_a_request_that_crashes_every_actor_is_refused_in_the_end(
    sup: Supervisor, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    crash_on(monkeypatch, ev.InputSubmitted, times=1000)

    with pytest.raises(SessionNotActive) as refused:
        await session.send("first")

    assert refused.value.hint
    assert await outcomes(session) == {}


async def test_a_session_whose_actor_was_given_up_can_be_used_again(
    sup: Supervisor, session: Session, player: Player, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as defect:
        crash_on(defect, ev.InputSubmitted, times=1000)
        for _ in range(3):
            with pytest.raises(SessionNotActive):
                await session.send("first")

    await session.send("second")
    scene = await player.next_scene()

    assert scene.turn.text == "second"
    assert (await (await sup.create("echo")).prompt("hello")).text == "hello"


async def test_who_waits_for_a_session_whose_actor_crashes_again_and_again_hears_of_it(
    session: Session, scene: Scene, monkeypatch: pytest.MonkeyPatch
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


async def test_a_crash_while_nobody_asks_leaves_the_queue_in_order(
    session: Session, scene: Scene, player: Player, monkeypatch: pytest.MonkeyPatch
) -> None:
    for text in ("second", "third", "fourth"):
        await session.send(text)
    crash_on(monkeypatch, ev.CallStarted)
    scene.begin(scene.open_call("bash"))

    await wait_for_the_end(session)
    played = await player.play_all()

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
    assert sup._house.tree.find_seat(session.id) is None


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


async def test_a_session_that_somebody_else_has_claimed_is_claimed_again_by_who_asks(
    sup: Supervisor, session: Session, scene: Scene, player: Player
) -> None:
    stolen = await sup._house.writer.ask(Claim(session.id), timeout_seconds=1.0)
    assert stolen is not None

    await session.set(title="New")
    await wait_for_the_end(session)

    info = await session.info()
    [ended] = await records(session, "turn_ended")
    assert (info.title, info.phase) == ("New", Phase.IDLE)
    assert info.epoch > stolen.epoch
    assert ended.body["outcome"] == "lost"


async def test_nobody_is_left_waiting_by_a_session_that_somebody_else_has_claimed(
    sup: Supervisor, session: Session, player: Player
) -> None:
    heard: list[object] = []

    async def prompt() -> None:
        try:
            heard.append((await session.prompt("first")).outcome)
        except SupervisorError as error:
            heard.append(type(error))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(prompt)
        scene = await player.next_scene()
        await sup._house.writer.ask(Claim(session.id), timeout_seconds=1.0)
        scene.finish("done")
        await trio.sleep(60.0)
        nursery.cancel_scope.cancel()

    assert heard in (["lost"], [SessionNotActive], [Fenced])
