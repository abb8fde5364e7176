"""The persistence actor: many writes in one commit, answers after it, everything in order."""

from __future__ import annotations

import logging
import math
import random
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any

import pytest
import trio

from actors import (
    ActorError,
    ActorStopped,
    Ask,
    AskTimeout,
    Group,
    MailboxFull,
    Ref,
    open_actors,
)
from actors.testing import explore, settle
from supervisor.core.errors import Fenced, NotStorable, SupervisorError
from supervisor.core.ids import SessionId
from supervisor.store.memory import MemoryStore
from supervisor.store.port import Stored, Write
from supervisor.store.writer import MAX_BATCH, Claim, Commit, Delete, Writer
from tests.store.cast import NOBODY, ONE, TWO, birth, more, numbers_of

BEFORE = SessionId("s_before")


class Spy(MemoryStore):
    """Writes down what the writer does, and may be slow or out of order."""

    def __init__(self) -> None:
        super().__init__()
        self.batches: list[list[Write]] = []
        self.deeds: list[str] = []
        self.problems: list[Exception] = []
        self.may_commit = trio.Event()
        self.may_commit.set()

    def hold(self) -> None:
        self.may_commit = trio.Event()

    def let_go(self) -> None:
        self.may_commit.set()

    async def commit(self, writes: Sequence[Write]) -> list[SupervisorError | None]:
        self.batches.append(list(writes))
        await self.may_commit.wait()
        self._raise_if_out_of_order()
        self.deeds.append(f"commit {len(writes)}")
        return await super().commit(writes)

    async def claim(self, session_ids: Sequence[SessionId]) -> list[Stored | None]:
        self._raise_if_out_of_order()
        self.deeds.append(f"claim {' '.join(session_ids)}")
        return await super().claim(session_ids)

    async def delete(self, session_id: SessionId) -> None:
        self.deeds.append(f"delete {session_id}")
        await super().delete(session_id)

    def _raise_if_out_of_order(self) -> None:
        if self.problems:
            raise self.problems.pop(0)

    @property
    def batch_sizes(self) -> list[int]:
        return [len(batch) for batch in self.batches]


@pytest.fixture
def spy() -> Spy:
    return Spy()


@pytest.fixture
async def system() -> AsyncIterator[Group]:
    async with open_actors() as root:
        yield root


@pytest.fixture
async def writer(system: Group, spy: Spy) -> Ref:
    return await system.start(lambda: Writer(spy), name="writer", restart="permanent")


@pytest.fixture
def _quiet() -> Iterator[None]:
    """A crash on purpose is no news."""
    logger = logging.getLogger("actors")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    yield
    logger.setLevel(level)


class Askers:
    """Ask for writes, each in a task of its own, and keep what each was told."""

    def __init__(self, writer: Ref, nursery: trio.Nursery) -> None:
        self.writer = writer
        self.nursery = nursery
        self.told: list[tuple[str, object]] = []

    def ask(self, question: Ask[Any], name: str | None = None, *, urgent: bool = False) -> None:
        self.nursery.start_soon(self._ask, question, name or str(len(self.told)), urgent)

    async def in_turn(self, spy: Spy, *questions: Ask[Any]) -> None:
        """Into the mailbox one after the other, while the writer waits for a commit to end."""
        spy.hold()
        self.ask(Commit(birth(BEFORE)), "before")
        await settle()
        for number, question in enumerate(questions):
            self.ask(question, str(number))
            await settle()

    async def _ask(self, question: Ask[Any], name: str, urgent: bool) -> None:  # noqa: FBT001
        try:
            answer = await self.writer.ask(question, timeout_seconds=math.inf, urgent=urgent)
        except Exception as error:  # noqa: BLE001 - what it was told, whatever that is
            self.told.append((name, error))
        else:
            self.told.append((name, answer))

    def answer(self, name: str) -> object:
        (answer,) = [answer for asker, answer in self.told if asker == name]
        return answer

    @property
    def answers(self) -> list[object]:
        return [answer for _, answer in self.told]


@pytest.fixture
def askers(writer: Ref, nursery: trio.Nursery) -> Askers:
    return Askers(writer, nursery)


def names(count: int) -> list[SessionId]:
    return [SessionId(f"s_{number:05}") for number in range(count)]


async def stored_names(store: MemoryStore) -> list[SessionId]:
    return [stored.row.id async for stored in store.rows()]


# Many writes, few commits ----------------------------------------------------------------


async def test_what_is_asked_at_once_is_written_in_one_commit(spy: Spy, askers: Askers) -> None:
    for name in names(100):
        askers.ask(Commit(birth(name)))
    await settle()

    assert spy.batch_sizes == [100]
    assert askers.answers == [None] * 100
    assert askers.writer.statistics().handled == 101  # the questions, and one word to itself


async def test_what_comes_during_a_commit_is_in_the_next_one(spy: Spy, askers: Askers) -> None:
    spy.hold()
    askers.ask(Commit(birth(ONE)))
    await settle()

    for name in names(50):
        askers.ask(Commit(birth(name)))
    await settle()
    spy.let_go()
    await settle()

    assert spy.batch_sizes == [1, 50]
    assert askers.answers == [None] * 51


async def test_a_commit_has_a_bound(spy: Spy, writer: Ref, nursery: trio.Nursery) -> None:
    askers = Askers(writer, nursery)
    spy.hold()
    askers.ask(Commit(birth(ONE)))
    await settle()

    for name in names(1_000):  # as many as the mailbox takes
        askers.ask(Commit(birth(name)))
    await settle()
    spy.let_go()
    await settle()

    assert max(spy.batch_sizes) <= MAX_BATCH
    assert askers.answers == [None] * 1_001


async def test_more_than_a_commit_may_hold_is_as_few_commits_as_possible(
    system: Group, spy: Spy, nursery: trio.Nursery
) -> None:
    writer = await system.start(lambda: Writer(spy), name="large", capacity=10_000)
    askers = Askers(writer, nursery)

    for name in names(2_500):
        askers.ask(Commit(birth(name)))
    await settle()

    assert spy.batch_sizes == [1_000, 1_000, 500]
    assert askers.answers == [None] * 2_500


async def test_a_lone_asker_waits_for_nobody_else(writer: Ref, spy: Spy) -> None:
    assert await writer.ask(Commit(birth())) is None

    assert trio.current_time() == 0.0
    assert spy.batch_sizes == [1]


async def test_without_questions_there_is_no_commit(writer: Ref, spy: Spy) -> None:
    await writer.ask(Claim(NOBODY))
    await writer.ask(Delete(NOBODY))
    await writer.ask(Commit(birth()))
    await settle()

    assert spy.batch_sizes == [1]


# Answers ---------------------------------------------------------------------------------


async def test_nobody_is_answered_before_the_commit(spy: Spy, askers: Askers) -> None:
    spy.hold()
    askers.ask(Commit(birth(ONE)))
    askers.ask(Commit(birth(TWO)))
    await settle()
    assert spy.batches
    assert askers.answers == []

    spy.let_go()
    await settle()

    assert askers.answers == [None, None]
    assert sorted(await stored_names(spy)) == [ONE, TWO]


async def test_everybody_gets_the_answer_to_his_own_question(spy: Spy, askers: Askers) -> None:
    await askers.in_turn(
        spy,
        Commit(birth(ONE)),
        Commit(more(TWO, 7)),
        Commit(more(ONE, 2, epoch=3)),
        Commit(more(ONE, 2)),
    )
    spy.let_go()
    await settle()

    assert spy.batch_sizes == [1, 4]
    assert askers.answer("0") is None
    assert isinstance(askers.answer("1"), NotStorable | Fenced)
    assert isinstance(askers.answer("2"), Fenced)
    assert askers.answer("3") is None


# Order -----------------------------------------------------------------------------------


async def test_what_is_asked_is_written_in_the_order_of_asking(spy: Spy, askers: Askers) -> None:
    asked = names(300)
    random.Random(1).shuffle(asked)

    await askers.in_turn(spy, *(Commit(birth(name)) for name in asked))
    spy.let_go()
    await settle()

    assert [write.session_id for write in spy.batches[1]] == asked
    assert await stored_names(spy) == [BEFORE, *asked]


async def test_a_claim_has_its_place_among_the_writes(spy: Spy, askers: Askers) -> None:
    await askers.in_turn(
        spy,
        Commit(birth(ONE)),
        Commit(more(ONE, 2)),
        Claim(ONE),
        Commit(more(ONE, 3)),
        Commit(more(ONE, 3, epoch=1)),
    )
    spy.let_go()
    await settle()

    claimed = askers.answer("2")
    assert isinstance(claimed, Stored)
    assert (claimed.epoch, claimed.last_seq) == (1, 2)
    assert isinstance(askers.answer("3"), Fenced)
    assert askers.answer("4") is None
    assert spy.deeds == ["commit 1", "commit 2", "claim s_one", "commit 2"]


async def test_a_claim_waits_for_the_commit_before_it(spy: Spy, askers: Askers) -> None:
    await askers.in_turn(spy, Claim(BEFORE))
    assert (askers.answers, spy.deeds) == ([], [])

    spy.let_go()
    await settle()

    assert isinstance(askers.answer("0"), Stored)


async def test_a_deletion_has_its_place_among_the_writes(spy: Spy, askers: Askers) -> None:
    await askers.in_turn(
        spy, Commit(birth(ONE)), Commit(more(ONE, 2)), Delete(ONE), Commit(birth(TWO)), Claim(ONE)
    )
    spy.let_go()
    await settle()

    assert spy.deeds == ["commit 1", "commit 2", "delete s_one", "commit 1", "claim s_one"]
    assert askers.answers == [None] * 6
    assert await stored_names(spy) == [BEFORE, TWO]


# Stopping --------------------------------------------------------------------------------


class Leaving(Writer):
    """Is stopped when it has taken in a hundred, and written none of them."""

    async def receive(self, message: object) -> object:
        answer = await super().receive(message)
        if len(self._batch) == 100:
            self.ref.stop_nowait()
        return answer


async def test_what_was_taken_in_is_written_when_the_writer_stops(
    system: Group, spy: Spy, nursery: trio.Nursery
) -> None:
    askers = Askers(await system.start(lambda: Leaving(spy)), nursery)

    for name in names(150):
        askers.ask(Commit(birth(name)), name)
    await settle()

    assert spy.batch_sizes == [100]
    acknowledged = [name for name, told in askers.told if told is None]
    assert sorted(acknowledged) == sorted(await stored_names(spy))
    assert [type(told) for told in askers.answers if told is not None] == [ActorStopped] * 50


async def test_a_commit_under_way_is_finished_when_the_writer_stops(
    spy: Spy, writer: Ref, askers: Askers, nursery: trio.Nursery
) -> None:
    spy.hold()
    askers.ask(Commit(birth(ONE)))
    await settle()

    nursery.start_soon(writer.stop)
    await trio.sleep(4.0)
    spy.let_go()
    await settle()

    assert askers.answers == [None]
    assert await stored_names(spy) == [ONE]


async def test_a_commit_that_never_ends_is_unknown_to_whoever_asked(
    spy: Spy, writer: Ref, askers: Askers
) -> None:
    spy.hold()
    askers.ask(Commit(birth(ONE)))
    await settle()
    askers.ask(Commit(birth(TWO)), "waits")
    await settle()

    await writer.stop()
    await settle()

    assert trio.current_time() == 5.0
    assert [type(answer) for answer in askers.answers] == [ActorStopped, ActorStopped]
    assert "not known" in str(askers.answer("0"))
    assert "not known" not in str(askers.answer("waits"))


async def test_after_the_end_nobody_is_kept_waiting(writer: Ref) -> None:
    await writer.stop()

    with pytest.raises(ActorStopped):
        await writer.ask(Commit(birth()), timeout_seconds=math.inf)


# A store that fails ----------------------------------------------------------------------


@pytest.mark.usefixtures("_quiet")
async def test_when_a_commit_fails_nobody_who_is_in_it_is_told_that_it_was_written(
    spy: Spy, askers: Askers
) -> None:
    spy.problems.append(OSError("the disk is on fire"))

    for name in names(3):
        askers.ask(Commit(birth(name)))
    await settle()

    assert [type(answer) for answer in askers.answers] == [ActorStopped] * 3
    assert all("not known" in str(answer) for answer in askers.answers)
    assert await stored_names(spy) == []


@pytest.mark.usefixtures("_quiet")
async def test_after_a_commit_that_failed_what_waits_is_written(
    spy: Spy, writer: Ref, askers: Askers
) -> None:
    spy.hold()
    spy.problems.append(OSError("the disk is on fire"))
    askers.ask(Commit(birth(ONE)))
    await settle()
    for name in names(3):
        askers.ask(Commit(birth(name)), "waits")
    await settle()

    spy.let_go()
    await settle()

    assert isinstance(askers.answer("0"), ActorStopped)
    assert [told for name, told in askers.told if name == "waits"] == [None] * 3
    assert sorted(await stored_names(spy)) == names(3)


@pytest.mark.usefixtures("_quiet")
async def test_a_commit_that_failed_is_not_tried_again_behind_everybody_s_back(
    spy: Spy, writer: Ref, askers: Askers
) -> None:
    spy.problems.append(OSError("the disk is on fire"))
    askers.ask(Commit(birth(ONE)))
    await settle()

    await writer.ask(Commit(birth(TWO)))

    assert await stored_names(spy) == [TWO]


@pytest.mark.usefixtures("_quiet")
async def test_a_commit_of_the_most_there_may_be_that_fails_leaves_nobody_waiting(
    system: Group, spy: Spy, nursery: trio.Nursery
) -> None:
    writer = await system.start(
        lambda: Writer(spy), name="large", restart="permanent", capacity=10_000
    )
    askers = Askers(writer, nursery)
    spy.problems.append(OSError("the disk is on fire"))

    for name in names(MAX_BATCH):
        askers.ask(Commit(birth(name)))
    await settle()

    assert len(askers.answers) == MAX_BATCH
    assert all(isinstance(answer, ActorError | OSError) for answer in askers.answers)


@pytest.mark.usefixtures("_quiet")
async def test_a_claim_that_fails_is_told_to_whoever_claimed(spy: Spy, writer: Ref) -> None:
    spy.problems.append(ValueError("these bytes are no Session"))

    with pytest.raises(ValueError, match="no Session"):
        await writer.ask(Claim(ONE))

    assert await writer.ask(Commit(birth(ONE))) is None


@pytest.mark.usefixtures("_quiet")
async def test_a_session_that_cannot_be_read_is_nobody_else_s_trouble(
    spy: Spy, writer: Ref
) -> None:
    for _ in range(10):  # more often than a writer is started again
        spy.problems.append(ValueError("these bytes are no Session"))
        with pytest.raises(ValueError, match="no Session"):
            await writer.ask(Claim(ONE))

    assert await writer.ask(Commit(birth(TWO))) is None


# Askers who give up ----------------------------------------------------------------------


async def test_who_gives_up_does_not_undo_his_write(
    spy: Spy, writer: Ref, nursery: trio.Nursery
) -> None:
    spy.hold()
    with trio.CancelScope() as scope:
        nursery.start_soon(_after_settling, scope.cancel)
        await writer.ask(Commit(birth(ONE)))

    spy.let_go()

    assert scope.cancelled_caught
    assert await writer.ask(Commit(more(ONE, 2))) is None
    assert await numbers_of(spy) == [1, 2]


async def _after_settling(do: Any) -> None:  # noqa: ANN401 - whatever is to be done
    await settle()
    do()


async def test_who_gives_up_while_he_waits_in_the_mailbox_does_not_undo_his_write(
    spy: Spy, writer: Ref, askers: Askers
) -> None:
    spy.hold()
    askers.ask(Commit(birth(ONE)))
    await settle()

    with trio.move_on_after(1.0):
        await writer.ask(Commit(birth(TWO)))
    spy.let_go()
    await settle()

    assert askers.answers == [None]
    assert await stored_names(spy) == [ONE, TWO]


async def test_who_gave_up_before_he_asked_has_written_nothing(spy: Spy, writer: Ref) -> None:
    with trio.CancelScope() as scope:
        scope.cancel()
        await writer.ask(Commit(birth()))
    await settle()

    assert spy.batches == []


async def test_who_runs_out_of_time_disturbs_nobody_in_the_same_commit(
    spy: Spy, writer: Ref, askers: Askers
) -> None:
    spy.hold()
    askers.ask(Commit(birth(ONE)))

    with pytest.raises(AskTimeout):
        await writer.ask(Commit(birth(TWO)), timeout_seconds=2.0)
    spy.let_go()
    await settle()

    assert askers.answers == [None]
    assert sorted(await stored_names(spy)) == [ONE, TWO]


# A full mailbox --------------------------------------------------------------------------


@pytest.fixture
async def small(system: Group, spy: Spy, nursery: trio.Nursery) -> Askers:
    """Of a writer with room for two."""
    return Askers(await system.start(lambda: Writer(spy), name="small", capacity=2), nursery)


async def test_full_means_refused_and_what_is_inside_is_written(spy: Spy, small: Askers) -> None:
    spy.hold()
    for name in names(3):  # one in hand, two in the mailbox
        small.ask(Commit(birth(name)))
        await settle()

    with pytest.raises(MailboxFull):
        await small.writer.ask(Commit(birth(ONE)))
    spy.let_go()
    await settle()

    assert small.answers == [None] * 3
    assert await stored_names(spy) == names(3)


async def test_who_is_refused_gets_his_question_back(spy: Spy, small: Askers) -> None:
    spy.hold()
    for name in names(3):
        small.ask(Commit(birth(name)))
        await settle()

    question = Commit(birth(ONE))
    with pytest.raises(MailboxFull) as refusal:
        await small.writer.ask(question)
    spy.let_go()

    assert refusal.value.message is question


async def test_a_writer_whose_mailbox_is_full_finds_the_time_to_commit(
    spy: Spy, small: Askers
) -> None:
    spy.hold()
    for name in names(3):
        small.ask(Commit(birth(name)))
        await settle()
    small.ask(Commit(birth(ONE)), "urgent", urgent=True)
    await settle()

    spy.let_go()
    await settle()

    assert small.answers == [None] * 4
    assert sorted(await stored_names(spy)) == sorted([*names(3), ONE])


async def test_a_mailbox_that_was_full_has_room_again(spy: Spy, small: Askers) -> None:
    spy.hold()
    for name in names(3):
        small.ask(Commit(birth(name)))
        await settle()
    with pytest.raises(MailboxFull):
        await small.writer.ask(Commit(birth(ONE)))
    spy.let_go()
    await settle()

    assert await small.writer.ask(Commit(birth(ONE))) is None


# Under any schedule ----------------------------------------------------------------------


class Owner:
    """Writes the records of one session without waiting, and sometimes loses it to another."""

    def __init__(self, writer: Ref, session_id: SessionId) -> None:
        self.writer = writer
        self.session_id = session_id
        self.written: list[tuple[int, int]] = []  # epoch and number of what is acknowledged
        self.fenced: list[tuple[int, int]] = []

    async def live(self) -> None:
        assert (
            await self.writer.ask(Commit(birth(self.session_id)), timeout_seconds=math.inf) is None
        )
        self.written.append((0, 1))
        async with trio.open_nursery() as nursery:
            for _ in range(3):
                nursery.start_soon(self._reign)

    async def _reign(self) -> None:
        stored = await self.writer.ask(Claim(self.session_id), timeout_seconds=math.inf)
        assert stored is not None
        for number in range(stored.last_seq + 1, stored.last_seq + 4):
            write = more(self.session_id, number, epoch=stored.epoch)
            answer = await self.writer.ask(Commit(write), timeout_seconds=math.inf)
            if isinstance(answer, Fenced):
                self.fenced.append((stored.epoch, number))
                return
            assert answer is None
            self.written.append((stored.epoch, number))


async def fight_over_sessions() -> None:
    store = MemoryStore()
    async with open_actors() as system:
        writer = await system.start(lambda: Writer(store), capacity=random.choice((8, 100)))
        owners = [Owner(writer, name) for name in names(2)]
        async with trio.open_nursery() as nursery:
            for owner in owners:
                nursery.start_soon(owner.live)
        await writer.stop()
    for owner in owners:
        written = sorted(owner.written, key=lambda pair: pair[1])
        assert [number for _, number in written] == await numbers_of(store, owner.session_id)
        assert [epoch for epoch, _ in written] == sorted(epoch for epoch, _ in written)


def test_acknowledged_means_there_and_fenced_means_not_under_any_schedule() -> None:
    assert explore(fight_over_sessions, seeds=range(150), max_failures=3) == []
