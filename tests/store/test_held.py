"""The writer of a degraded store: nobody waits in the dark, nothing is lost or twice."""

from __future__ import annotations

import logging
import math
import random
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from functools import partial
from itertools import pairwise
from typing import Any, Literal, TypeAlias

import pytest
import trio

from actors import Ask, Group, Ref, open_actors
from actors.testing import explore, settle
from supervisor.core.errors import Fenced, NotStorable, StoreDegraded, SupervisorError
from supervisor.core.ids import SessionId
from supervisor.store.memory import MemoryStore
from supervisor.store.port import Process, Stored, Write
from supervisor.store.writer import (
    LAST_RETRY_SECONDS,
    MAX_BATCH,
    Claim,
    ClaimAll,
    Commit,
    CommitAll,
    Delete,
    ForgetProcess,
    NoteProcess,
    Retry,
    Writer,
    keep_trying,
)
from supervisor.store.writer.health import Health, StoreState
from supervisor.store.writer.held import Held
from tests.store.cast import ONE, THREE, TWO, birth, more, numbers_of

Mood: TypeAlias = Literal["well", "ill", "broken", "broken late"]
PROCESS = Process(ONE, 4711, 12, "boot")


class MoodyStore(MemoryStore):
    """Takes what it gets when it is well, and says when somebody looked."""

    def __init__(self) -> None:
        super().__init__()
        self.mood: Mood = "well"
        # How often it breaks when it is broken, before it is well.
        self.breaks_left = 0
        self.looks: list[tuple[float, str]] = []
        self.may_answer = trio.Event()
        self.may_answer.set()

    async def _look(self, what: str) -> None:
        self.looks.append((trio.current_time(), what))
        await self.may_answer.wait()
        if self.mood == "ill":
            raise StoreDegraded("the disk is full", hint="free some space")
        if self.mood == "broken":
            self._break()

    async def commit(self, writes: Sequence[Write]) -> list[SupervisorError | None]:
        await self._look("commit")
        answers = await super().commit(writes)
        if self.mood == "broken late":
            self._break()
        return answers

    def _break(self) -> None:
        self.breaks_left -= 1
        if not self.breaks_left:
            self.mood = "well"
        raise OSError("the disk is gone")

    async def claim(self, session_ids: Sequence[SessionId]) -> list[Stored | None]:
        await self._look("claim")
        return await super().claim(session_ids)

    async def delete(self, session_id: SessionId) -> None:
        await self._look("delete")
        await super().delete(session_id)

    async def note_process(self, process: Process) -> None:
        await self._look("note")
        await super().note_process(process)

    async def forget_process(self, process: Process) -> None:
        await self._look("forget")
        await super().forget_process(process)

    async def probe(self) -> None:
        await self._look("probe")


class Desk:
    """Asks the writer, and looks after a degraded store as the house does."""

    def __init__(self, writer: Ref, health: Health, nursery: trio.Nursery) -> None:
        self.writer = writer
        self.health = health
        self.nursery = nursery
        self.told: list[StoreState] = []
        health.on_change = self._changed

    def _changed(self, state: StoreState) -> None:
        self.told.append(state)
        if state.degraded:
            self.nursery.start_soon(keep_trying, self.writer, self.health)

    async def ask(self, question: Ask[Any]) -> Any:  # noqa: ANN401 - as the question
        return await self.writer.ask(question, timeout_seconds=math.inf)

    async def commit(self, write: Write) -> Any:  # noqa: ANN401 - all that may be answered
        return await self.ask(Commit(write))

    async def hold(self, *writes: Write) -> list[Held]:
        """Have these held by a store that is ill, at once and in this order."""
        held = [await self.commit(write) for write in writes]
        assert all(isinstance(one, Held) for one in held)
        return held


@pytest.fixture
def store() -> MoodyStore:
    return MoodyStore()


@pytest.fixture
def health() -> Health:
    return Health()


@pytest.fixture
async def system() -> AsyncIterator[Group]:
    async with open_actors() as root:
        yield root


@pytest.fixture
async def writer(system: Group, store: MoodyStore, health: Health) -> Ref:
    return await system.start(lambda: Writer(store, health), name="writer", restart="permanent")


@pytest.fixture
def desk(writer: Ref, health: Health, nursery: trio.Nursery) -> Desk:
    return Desk(writer, health, nursery)


@pytest.fixture
def _quiet() -> Iterator[None]:
    """A crash on purpose is no news."""
    logger = logging.getLogger("actors")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    yield
    logger.setLevel(level)


async def get_well(store: MoodyStore) -> None:
    store.mood = "well"
    await trio.sleep(LAST_RETRY_SECONDS)
    await settle()


# Held -----------------------------------------------------------------------------------------


async def test_whoever_waits_for_a_held_write_hears_what_becomes_of_it(
    nursery: trio.Nursery,
) -> None:
    held, heard = Held(), list[object]()

    async def wait() -> None:
        heard.append(await held.wait())

    nursery.start_soon(wait)
    await settle()
    assert heard == []
    held.settle(None)
    await settle()

    assert heard == [None]


async def test_whoever_comes_later_is_told_at_once() -> None:
    held, heard = Held(), list[object]()
    fenced = Fenced("gone", hint="look again")
    held.settle(fenced)

    held.then(heard.append)

    assert heard == [fenced]
    assert await held.wait() is fenced


def test_all_who_asked_are_told_in_their_order_and_once() -> None:
    held, heard = Held(), list[int]()
    for number in range(3):
        held.then(lambda _, number=number: heard.append(number))  # type: ignore[misc]

    held.settle(None)

    assert heard == [0, 1, 2]


# Writing --------------------------------------------------------------------------------------


async def test_everyone_in_the_batch_that_met_the_fault_is_answered_at_once(
    desk: Desk, store: MoodyStore, nursery: trio.Nursery
) -> None:
    answers: list[object] = []

    async def ask(question: Ask[Any]) -> None:
        answer = await desk.ask(question)
        answers.extend(answer if isinstance(answer, list) else [answer])

    store.mood = "ill"
    nursery.start_soon(ask, Commit(birth(ONE)))
    nursery.start_soon(ask, CommitAll((birth(TWO), birth(THREE))))
    await settle()

    assert [type(answer) for answer in answers] == [Held] * 3
    assert [what for _, what in store.looks] == ["commit"]
    assert [one async for one in store.rows()] == []


async def test_nobody_is_told_before_the_commit_that_it_is_written(
    desk: Desk, store: MoodyStore
) -> None:
    store.mood = "ill"
    (held,) = await desk.hold(birth())

    await trio.sleep(60)

    assert not held.is_settled
    await get_well(store)
    assert (held.is_settled, held.answer) == (True, None)
    assert await numbers_of(store) == [1]


async def test_what_is_asked_while_it_is_ill_is_held_without_a_look_at_the_store(
    desk: Desk, store: MoodyStore
) -> None:
    store.mood = "ill"
    await desk.hold(birth())
    looks = len(store.looks)

    await desk.hold(more(ONE, 2), more(ONE, 3))
    assert [type(one) for one in await desk.ask(CommitAll((birth(TWO), more(TWO, 2))))] == [
        Held,
        Held,
    ]

    assert len(store.looks) == looks


async def test_all_of_it_is_written_in_order_and_once(desk: Desk, store: MoodyStore) -> None:
    await desk.commit(birth())
    store.mood = "ill"
    await desk.hold(*(more(ONE, number) for number in range(2, 20)))
    await trio.sleep(10)

    await get_well(store)

    assert await numbers_of(store) == list(range(1, 20))
    assert await desk.commit(more(ONE, 20)) is None


async def test_whoever_is_told_by_what_was_written_finds_it_in_the_store(
    desk: Desk, store: MoodyStore
) -> None:
    store.mood = "ill"
    (held,) = await desk.hold(birth())
    found: list[int] = []
    held.then(lambda _: found.append(len(store._shelves[ONE].positions)))

    await get_well(store)

    assert found == [1]


async def test_more_than_a_batch_is_written_in_batches(desk: Desk, store: MoodyStore) -> None:
    await desk.commit(birth())
    store.mood = "ill"
    await desk.hold(*(more(ONE, number) for number in range(2, MAX_BATCH + 502)))

    await get_well(store)

    assert await numbers_of(store) == list(range(1, MAX_BATCH + 502))


async def test_an_illness_between_two_batches_loses_none_and_doubles_none(
    desk: Desk, store: MoodyStore
) -> None:
    await desk.commit(birth())
    store.mood = "ill"
    held = await desk.hold(*(more(ONE, number) for number in range(2, MAX_BATCH + 502)))

    def fall_ill(_: object) -> None:
        store.mood = "ill"

    held[0].then(fall_ill)
    await get_well(store)
    assert len(await numbers_of(store)) == MAX_BATCH + 1
    await get_well(store)

    assert await numbers_of(store) == list(range(1, MAX_BATCH + 502))
    assert all(one.is_settled and one.answer is None for one in held)


async def test_a_write_that_comes_when_it_is_well_is_after_those_that_were_held(
    desk: Desk, store: MoodyStore
) -> None:
    await desk.commit(birth())
    store.mood = "ill"
    await desk.hold(more(ONE, 2))
    store.mood = "well"

    answer = await desk.commit(more(ONE, 3))

    assert isinstance(answer, Held)
    assert await answer.wait() is None
    assert await numbers_of(store) == [1, 2, 3]


async def test_a_refusal_settles_only_the_one_that_was_refused(
    desk: Desk, store: MoodyStore
) -> None:
    await desk.commit(birth(ONE))
    await desk.commit(birth(TWO))
    store.mood = "ill"
    fenced, gap, fine = await desk.hold(more(ONE, 2, epoch=7), more(ONE, 9), more(TWO, 2))

    await get_well(store)

    assert isinstance(fenced.answer, Fenced)
    assert isinstance(gap.answer, NotStorable)
    assert (fine.is_settled, fine.answer) == (True, None)
    assert not desk.health.is_degraded


# All else -------------------------------------------------------------------------------------

QUESTIONS: dict[str, Ask[Any]] = {
    "claim": Claim(ONE),
    "claim of many": ClaimAll((ONE, TWO)),
    "delete": Delete(ONE),
    "note": NoteProcess(PROCESS),
    "forget": ForgetProcess(PROCESS),
}


@pytest.mark.parametrize("question", QUESTIONS.values(), ids=QUESTIONS)
async def test_what_cannot_wait_is_refused_at_once(
    desk: Desk, store: MoodyStore, question: Ask[Any]
) -> None:
    await desk.commit(birth())
    store.mood = "ill"
    await desk.hold(more(ONE, 2))

    with pytest.raises(StoreDegraded) as refusal:
        await desk.ask(question)

    assert (refusal.value.code, refusal.value.hint) == ("store_degraded", "free some space")
    await get_well(store)
    await desk.ask(question)


@pytest.mark.parametrize("question", QUESTIONS.values(), ids=QUESTIONS)
async def test_whatever_meets_the_fault_makes_it_known(
    desk: Desk, store: MoodyStore, question: Ask[Any]
) -> None:
    await desk.commit(birth())
    store.mood = "ill"

    with pytest.raises(StoreDegraded):
        await desk.ask(question)

    assert desk.health.is_degraded
    await get_well(store)
    assert not desk.health.is_degraded


async def test_a_claim_is_never_before_the_writes_that_were_held(
    desk: Desk, store: MoodyStore
) -> None:
    await desk.commit(birth())
    store.mood = "ill"
    (held,) = await desk.hold(more(ONE, 2))
    store.mood = "well"
    with pytest.raises(StoreDegraded):
        await desk.ask(Claim(ONE))
    await get_well(store)

    stored = await desk.ask(Claim(ONE))

    assert (held.answer, stored.last_seq, stored.epoch) == (None, 2, 1)


async def test_a_write_in_the_batch_of_a_claim_that_met_the_fault_is_not_lost(
    desk: Desk, store: MoodyStore, nursery: trio.Nursery
) -> None:
    await desk.commit(birth())
    store.mood = "ill"
    with pytest.raises(StoreDegraded):
        await desk.ask(Claim(ONE))

    (held,) = await desk.hold(more(ONE, 2))

    await get_well(store)
    assert (held.answer, await numbers_of(store)) == (None, [1, 2])


# Looking again --------------------------------------------------------------------------------


async def test_it_is_looked_at_again_at_least_every_two_seconds(
    desk: Desk, store: MoodyStore
) -> None:
    store.mood = "ill"
    await desk.hold(birth())
    await trio.sleep(60)

    times = [at for at, _ in store.looks]
    assert max(after - before for before, after in pairwise(times)) <= 2.001
    assert len(times) < 60


async def test_the_first_look_comes_soon(desk: Desk, store: MoodyStore) -> None:
    store.mood = "ill"
    (held,) = await desk.hold(birth())
    store.mood = "well"

    with trio.fail_after(0.2):
        assert await held.wait() is None


async def test_a_store_that_is_well_is_never_looked_at(desk: Desk, store: MoodyStore) -> None:
    await desk.commit(birth())
    store.mood = "ill"
    await desk.hold(more(ONE, 2))
    await get_well(store)
    looks = len(store.looks)

    await trio.sleep(60)
    desk.writer.tell(Retry())
    await settle()

    assert len(store.looks) == looks


async def test_both_changes_are_told_once(desk: Desk, store: MoodyStore) -> None:
    store.mood = "ill"
    await desk.hold(birth(ONE), birth(TWO))
    await trio.sleep(30)
    await get_well(store)

    assert [state.degraded for state in desk.told] == [True, False]
    assert desk.told[0].problem == "the disk is full"


async def test_it_is_not_well_before_all_that_was_held_is_written(
    desk: Desk, store: MoodyStore
) -> None:
    store.mood = "ill"
    held = await desk.hold(birth(), more(ONE, 2))
    known: list[bool] = []
    held[-1].then(lambda _: known.append(desk.health.is_degraded))

    await get_well(store)

    assert known == [True]
    assert not desk.health.is_degraded


# Ends -----------------------------------------------------------------------------------------


async def test_a_writer_that_stops_writes_what_it_holds_if_it_can(
    desk: Desk, store: MoodyStore
) -> None:
    store.mood = "ill"
    held = await desk.hold(birth(), more(ONE, 2))
    store.mood = "well"

    await desk.writer.stop()

    assert [one.answer for one in held] == [None, None]
    assert await numbers_of(store) == [1, 2]


async def test_a_writer_that_stops_while_it_is_ill_leaves_nobody_waiting(
    desk: Desk, store: MoodyStore
) -> None:
    store.mood = "ill"
    held = await desk.hold(birth(), more(ONE, 2))

    await desk.writer.stop()

    assert [type(one.answer) for one in held] == [StoreDegraded] * 2
    assert all(one.answer is not None and one.answer.hint for one in held)


@pytest.mark.usefixtures("_quiet")
@pytest.mark.parametrize("mood", ["broken", "broken late"])
async def test_a_writer_that_crashes_leaves_nobody_waiting(
    desk: Desk, store: MoodyStore, mood: Mood
) -> None:
    store.mood = "ill"
    held = await desk.hold(birth(), more(ONE, 2))

    store.mood, store.breaks_left = mood, 2  # in hand, and again in the clean-up
    with trio.move_on_after(10):
        for one in held:
            await one.wait()

    assert [one.is_settled for one in held] == [True, True]


@pytest.mark.usefixtures("_quiet")
async def test_what_is_held_outlives_a_writer_that_crashes(desk: Desk, store: MoodyStore) -> None:
    await desk.commit(birth())
    store.mood = "ill"
    held = await desk.hold(more(ONE, 2), more(ONE, 3))

    store.mood, store.breaks_left = "broken", 2
    answers = [await one.wait() for one in held]

    assert answers == [None, None]
    assert await numbers_of(store) == [1, 2, 3]


@pytest.mark.usefixtures("_quiet")
async def test_what_every_writer_crashes_over_is_given_up(
    desk: Desk, store: MoodyStore, caplog: pytest.LogCaptureFixture
) -> None:
    await desk.commit(birth())
    store.mood = "ill"
    held = await desk.hold(more(ONE, 2))

    store.mood, store.breaks_left = "broken", 4
    answer = await held[0].wait()

    assert isinstance(answer, StoreDegraded)
    assert "1 writes of 1 sessions were never written" in caplog.text
    await trio.sleep(10)
    assert await desk.commit(more(ONE, 2)) is None


@pytest.mark.usefixtures("_quiet")
@pytest.mark.parametrize("mood", ["broken", "broken late"])
async def test_after_a_crash_the_store_is_well_again_by_itself_and_nothing_is_twice(
    desk: Desk, store: MoodyStore, mood: Mood
) -> None:
    await desk.commit(birth())
    store.mood = "ill"
    await desk.hold(more(ONE, 2))
    store.mood, store.breaks_left = mood, 2
    await trio.sleep(10)

    assert not desk.health.is_degraded
    assert await numbers_of(store) == [1, 2]
    assert await desk.commit(more(ONE, 3)) is None


async def test_a_writer_whose_store_does_not_answer_while_it_stops_leaves_nobody_waiting(
    desk: Desk, store: MoodyStore
) -> None:
    store.mood = "ill"
    held = await desk.hold(birth())
    store.may_answer = trio.Event()

    with trio.move_on_after(30):
        await desk.writer.stop()

    assert held[0].is_settled


# Chance ---------------------------------------------------------------------------------------

CI_SCHEDULES = 150


async def write_a_life(ask: Callable[[Ask[Any]], Any], session_id: SessionId, length: int) -> None:
    held: list[Held] = []
    for number in range(1, length + 1):
        write = birth(session_id) if number == 1 else more(session_id, number)
        answer = await ask(Commit(write))
        if isinstance(answer, Held):
            held.append(answer)
        else:
            assert answer is None
        if random.random() < 0.3:
            await trio.sleep(random.choice((0.0, 0.05, 0.5)))
    for one in held:
        assert await one.wait() is None


async def have_moods(store: MoodyStore) -> None:
    while True:
        store.mood = random.choice(("ill", "well"))
        await trio.sleep(random.choice((0.0, 0.01, 0.2, 1.0)))


async def flap() -> None:
    store, health = MoodyStore(), Health()
    async with open_actors() as system, trio.open_nursery() as nursery:
        writer = await system.start(lambda: Writer(store, health), name="writer")
        desk = Desk(writer, health, nursery)
        nursery.start_soon(have_moods, store)
        async with trio.open_nursery() as lives:
            for session_id in (ONE, TWO, THREE):
                lives.start_soon(partial(write_a_life, desk.ask, session_id, 6))
        for session_id in (ONE, TWO, THREE):
            assert await numbers_of(store, session_id) == [1, 2, 3, 4, 5, 6]
        nursery.cancel_scope.cancel()


def test_nothing_is_lost_or_doubled_by_a_store_that_comes_and_goes() -> None:
    assert explore(flap, seeds=range(CI_SCHEDULES), max_failures=3, max_steps=20_000) == []


@pytest.mark.soak
def test_nothing_is_lost_or_doubled_by_a_store_that_comes_and_goes_in_a_long_run() -> None:
    assert explore(flap, seeds=range(20_000), max_failures=3, max_steps=20_000) == []


def test_what_is_taken_back_is_settled_for_all_who_wait_for_it() -> None:
    held, heard = Held(is_in_doubt=False), list[object]()
    held.then(heard.append)

    assert held.withdraw()

    assert [type(answer) for answer in heard] == [StoreDegraded]


def test_what_may_be_written_is_not_taken_back() -> None:
    held, heard = Held(is_in_doubt=True), list[object]()
    held.then(heard.append)

    assert not held.withdraw()
    assert heard == []
