"""What every store promises."""

from __future__ import annotations

import contextlib
import datetime as dt
import json
import math
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import attrs
import pytest
import trio

from supervisor.core.creation import Plan
from supervisor.core.errors import ConfigError, Fenced, NotStorable
from supervisor.core.ids import SessionId, SessionKey, TurnId
from supervisor.core.records import Record, replay
from supervisor.core.session import Phase, Session, Terms
from supervisor.store.codec import decode
from supervisor.store.filters import Filter
from supervisor.store.port import Kept, Process, Store, Write
from tests.store.cast import (
    NOBODY,
    ONE,
    PLAN,
    THREE,
    TWO,
    birth,
    claim,
    differences,
    everything,
    life,
    more,
    numbers_of,
    receipt,
    row,
    rows_of,
    said,
)

# Commits ---------------------------------------------------------------------------------


async def test_what_was_committed_can_be_read(store: Store) -> None:
    made = birth()

    assert await store.commit([made]) == [None]

    stored = await store.read(ONE)
    assert stored is not None
    assert (stored.row, stored.epoch, stored.last_seq, stored.number) == (made.row, 0, 1, 1)
    assert await store.records(ONE) == list(made.records)


async def test_a_commit_of_nothing_is_fine(store: Store) -> None:
    assert await store.commit([]) == []
    assert await everything(store) == ([], [])


async def test_of_a_session_that_nobody_made_there_is_nothing(store: Store) -> None:
    assert await store.read(NOBODY) is None
    assert await store.records(NOBODY) == []
    assert await everything(store) == ([], [])


async def test_a_later_row_takes_the_place_of_the_earlier(store: Store) -> None:
    await store.commit([birth()])

    await store.commit([more(ONE, 2, row=row(phase=Phase.IDLE))])
    await store.commit([more(ONE, row=row(phase=Phase.STOPPED))])

    stored = await store.read(ONE)
    assert stored is not None
    assert stored.row == row(phase=Phase.STOPPED)
    assert (stored.last_seq, stored.number) == (2, 1)


async def test_records_without_a_row_leave_the_row_as_it_was(store: Store) -> None:
    made = birth()
    await store.commit([made])

    await store.commit([more(ONE, 2, 3)])

    stored = await store.read(ONE)
    assert stored is not None
    assert stored.row == made.row
    assert await numbers_of(store) == [1, 2, 3]


async def test_one_commit_may_have_many_sessions_and_many_writes_of_each(store: Store) -> None:
    writes = [birth(ONE), birth(TWO), more(ONE, 2), more(TWO, 2, 3), more(ONE, 3)]

    assert await store.commit(writes) == [None] * 5

    assert await numbers_of(store, ONE) == [1, 2, 3]
    assert await numbers_of(store, TWO) == [1, 2, 3]


async def test_what_is_stored_is_not_what_it_was_made_from(store: Store) -> None:
    body = {"list": [1]}
    record = said(ONE, 2, body)
    await store.commit([birth(), Write(ONE, 0, (record,))])

    body["list"].append(2)
    (await store.records(ONE))[1].body["list"].append(3)

    assert (await store.records(ONE))[1].body == {"list": [1]}


# What is read equals what was written ----------------------------------------------------


async def test_a_row_comes_back_with_the_types_it_had(store: Store) -> None:
    for number, (session, _, _) in enumerate(life(3, 60)):
        changed = attrs.evolve(session, id=SessionId(f"s_{number}"))
        await store.commit([Write(changed.id, 0, (), changed)])

        stored = await store.read(changed.id)

        assert stored is not None
        assert differences(stored.row, changed) == []


async def test_a_record_comes_back_with_the_types_it_had(store: Store) -> None:
    body: dict[str, object] = {
        "": None,
        "b": True,
        "i": 1,
        "f": 1.0,
        "t": "é\x00😀\n",
        "l": [{"x": [[]]}],
        "d": {},
    }
    written = [*birth(ONE, PLAN).records, said(ONE, 2, body)]
    await store.commit([Write(ONE, 0, tuple(written), birth(ONE, PLAN).row)])

    assert differences(await store.records(ONE), written) == []
    assert differences(await store.all_records(), list(enumerate(written, 1))) == []


@pytest.mark.parametrize("number", [0.0, -0.0, 1e-300, 0.1, 1e300, 2**63 - 1, -(2**63)])
async def test_a_number_comes_back_exactly(store: Store, number: float) -> None:
    await store.commit([birth(), Write(ONE, 0, (said(ONE, 2, {"number": number}),))])

    assert repr((await store.records(ONE))[1].body["number"]) == repr(number)


async def test_a_session_that_is_never_to_sleep_comes_back(store: Store) -> None:
    plan = Plan(agent="echo", terms=Terms(suspend_after_seconds=None))
    made = birth(ONE, plan)

    assert await store.commit([made]) == [None]

    stored = await claim(store, ONE)
    assert stored is not None
    assert stored.row == made.row == replay(await store.records(ONE))


# Numbers ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "numbers", [(3,), (1,), (0,), (-1,), (2, 4), (2, 2), (2, 1), (3, 2), (2, 3, 5)]
)
async def test_records_that_do_not_follow_the_last_one_are_refused(
    store: Store, numbers: tuple[int, ...]
) -> None:
    await store.commit([birth()])
    before = await everything(store)

    (answer,) = await store.commit([more(ONE, *numbers, row=row(title="new"), kept=receipt())])

    assert isinstance(answer, NotStorable)
    assert answer.hint
    assert await everything(store) == before
    assert await store.kept(ONE, "key") is None


@pytest.mark.parametrize("numbers", [(0,), (2,), (1, 3)])
async def test_the_records_of_a_new_session_begin_at_one(
    store: Store, numbers: tuple[int, ...]
) -> None:
    (answer,) = await store.commit([more(ONE, *numbers, row=row())])

    assert isinstance(answer, NotStorable)
    assert await everything(store) == ([], [])


async def test_a_refused_write_can_be_put_right(store: Store) -> None:
    await store.commit([birth()])
    await store.commit([more(ONE, 3)])

    assert await store.commit([more(ONE, 2, 3)]) == [None]
    assert await numbers_of(store) == [1, 2, 3]


# Epochs ----------------------------------------------------------------------------------


async def test_a_claim_raises_the_epoch_and_gives_what_is_there(store: Store) -> None:
    await store.commit([birth()])
    before = await store.read(ONE)

    first, second = await claim(store, ONE), await claim(store, ONE)

    assert before is not None
    assert first == attrs.evolve(before, epoch=1)
    assert second == attrs.evolve(before, epoch=2) == await store.read(ONE)


async def test_a_claim_of_nobody_makes_nobody(store: Store) -> None:
    assert await claim(store, NOBODY) is None
    assert await everything(store) == ([], [])
    assert await store.commit([birth(NOBODY)]) == [None]


async def test_a_claim_raises_no_other_epoch(store: Store) -> None:
    await store.commit([birth(ONE), birth(TWO)])

    await claim(store, ONE)

    assert await store.commit([more(TWO, 2)]) == [None]


@pytest.mark.parametrize("epoch", [0, 1, 3, -1])
async def test_a_write_of_another_epoch_is_fenced_and_leaves_nothing(
    store: Store, epoch: int
) -> None:
    await store.commit([birth()])
    await claim(store, ONE)
    await claim(store, ONE)
    before = await everything(store)

    write = more(ONE, 2, epoch=epoch, row=row(title="new"), kept=receipt())
    (answer,) = await store.commit([write])

    assert isinstance(answer, Fenced)
    assert answer.hint
    assert await everything(store) == before
    assert await store.kept(ONE, "key") is None


async def test_what_is_fenced_is_fenced_whatever_else_is_wrong_with_it(store: Store) -> None:
    await store.commit([birth()])
    await claim(store, ONE)

    (answer,) = await store.commit([more(ONE, 7, epoch=0)])

    assert isinstance(answer, Fenced)


async def test_the_new_owner_goes_on_where_the_old_one_was(store: Store) -> None:
    await store.commit([birth(), more(ONE, 2)])
    await claim(store, ONE)

    assert await store.commit([more(ONE, 3, epoch=1)]) == [None]
    assert await numbers_of(store) == [1, 2, 3]


async def test_a_session_does_not_begin_in_a_later_epoch(store: Store) -> None:
    (answer,) = await store.commit([attrs.evolve(birth(), epoch=1)])

    assert isinstance(answer, Fenced)
    assert await everything(store) == ([], [])


# Two sessions in one write ---------------------------------------------------------------


async def test_what_belongs_together_is_there_together(store: Store) -> None:
    await store.commit([birth(ONE)])
    other = attrs.evolve(birth(TWO), kept=receipt(TWO))

    write = more(ONE, 2, row=row(archived=True), kept=receipt(ONE), also=other)
    assert await store.commit([write]) == [None]

    assert [stored.row for stored in await rows_of(store)] == [row(archived=True), other.row]
    assert [record.session_id for _, record in await store.all_records()] == [ONE, ONE, TWO]
    assert await store.kept(ONE, "key") == receipt(ONE)
    assert await store.kept(TWO, "key") == receipt(TWO)


GOOD = more(ONE, 2, row=row(title="new"), kept=receipt(ONE))
ALSO_GOOD = more(TWO, 2, row=row(TWO, title="new"), kept=receipt(TWO))


def fenced(write: Write) -> Write:
    return attrs.evolve(write, epoch=write.epoch + 1)


def with_a_gap(write: Write) -> Write:
    return attrs.evolve(write, records=(said(write.session_id, 3),))


def unspeakable(write: Write) -> Write:
    return attrs.evolve(write, records=(said(write.session_id, 2, {"x": object()}),))


def with_a_bad_row(write: Write) -> Write:
    return attrs.evolve(write, row=row(write.session_id, title="\ud800"))


def with_a_bad_answer(write: Write) -> Write:
    return attrs.evolve(write, kept=receipt(write.session_id, answer={1: 2}))


Spoil: TypeAlias = Callable[[Write], Write]
FAULTS: list[Spoil] = [fenced, with_a_gap, unspeakable, with_a_bad_row, with_a_bad_answer]
with_every_fault = pytest.mark.parametrize("spoil", FAULTS, ids=lambda spoil: spoil.__name__)


@with_every_fault
@pytest.mark.parametrize("which", ["the one", "the other"])
async def test_of_what_belongs_together_there_is_nothing_if_one_is_refused(
    store: Store, spoil: Spoil, which: str
) -> None:
    await store.commit([birth(ONE), birth(TWO)])
    before = await everything(store)

    if which == "the one":
        write = attrs.evolve(spoil(GOOD), also=ALSO_GOOD)
    else:
        write = attrs.evolve(GOOD, also=spoil(ALSO_GOOD))
    (answer,) = await store.commit([write])

    assert isinstance(answer, Fenced if spoil is fenced else NotStorable)
    assert await everything(store) == before
    assert await store.kept(ONE, "key") is None
    assert await store.kept(TWO, "key") is None


async def test_more_than_two_may_belong_together(store: Store) -> None:
    chain = attrs.evolve(birth(ONE), also=attrs.evolve(birth(TWO), also=birth(THREE)))

    assert await store.commit([chain]) == [None]

    assert [stored.row.id for stored in await rows_of(store)] == [ONE, TWO, THREE]


# One bad write among good ones -----------------------------------------------------------


@with_every_fault
async def test_a_refused_write_does_not_hurt_other_sessions(store: Store, spoil: Spoil) -> None:
    await store.commit([birth(ONE), birth(TWO)])

    answers = await store.commit([birth(THREE), spoil(GOOD), ALSO_GOOD])

    assert answers[0] is answers[2] is None
    assert isinstance(answers[1], Fenced if spoil is fenced else NotStorable)
    assert await numbers_of(store, ONE) == [1]
    assert await numbers_of(store, TWO) == [1, 2]
    assert await numbers_of(store, THREE) == [1]


LATER = {
    "its next number": more(ONE, 3),
    "the same number": more(ONE, 2),
    "only a row": more(ONE, row=row(title="later")),
    "only an answer": more(ONE, kept=receipt(ONE)),
}


@pytest.mark.parametrize("later", LATER.values(), ids=LATER.keys())
async def test_what_a_session_writes_after_something_refused_is_refused_too(
    store: Store, later: Write
) -> None:
    await store.commit([birth(ONE), birth(TWO)])
    before = await everything(store)

    answers = await store.commit([unspeakable(more(ONE, 2)), later])

    assert [type(answer) for answer in answers] == [NotStorable, NotStorable]
    assert await everything(store) == before
    assert await store.kept(ONE, "key") is None


async def test_a_late_write_of_the_old_owner_does_not_hurt_the_new_one(store: Store) -> None:
    await store.commit([birth()])
    await claim(store, ONE)

    answers = await store.commit([more(ONE, 2, epoch=0), more(ONE, 2, epoch=1)])

    assert isinstance(answers[0], Fenced)
    assert answers[1] is None
    assert await numbers_of(store) == [1, 2]


async def test_records_of_a_session_that_is_not_there_are_refused(store: Store) -> None:
    answers = await store.commit([birth(ONE), more(NOBODY, 1), birth(TWO)])

    assert answers[0] is answers[2] is None
    assert isinstance(answers[1], NotStorable)
    assert [stored.row.id for stored in await rows_of(store)] == [ONE, TWO]
    assert await store.records(NOBODY) == []


# What cannot be stored -------------------------------------------------------------------


@attrs.frozen
class Thing:
    part: int = 1


def deep(depth: int) -> list[Any]:
    nested: list[Any] = []
    for _ in range(depth):
        nested = [nested]
    return nested


RUBBISH = {
    "half of a character": "\ud800",
    "half of a character in a name": {"\udfff": 1},
    "not a number": math.nan,
    "without end": math.inf,
    "bytes": b"x",
    "set": {1},
    "frozenset": frozenset({"a"}),
    "object": object(),
    "attrs": Thing(),
    "numbered": {1: 2},
    "too large": 2**70,
    "too deep": deep(5_000),
    "a day": dt.date(2020, 1, 1),
    "an id": uuid.UUID(int=7),
}
with_all_rubbish = pytest.mark.parametrize("rubbish", RUBBISH.values(), ids=RUBBISH.keys())


@with_all_rubbish
async def test_a_record_that_cannot_come_back_as_it_was_is_refused(
    store: Store, rubbish: object
) -> None:
    await store.commit([birth()])
    before = await everything(store)
    records = (said(ONE, 2), said(ONE, 3, {"in": [rubbish]}), said(ONE, 4))

    (answer,) = await store.commit([Write(ONE, 0, records, row(title="new"), receipt())])

    assert isinstance(answer, NotStorable)
    assert answer.hint
    assert await everything(store) == before
    assert await store.kept(ONE, "key") is None


@with_all_rubbish
async def test_an_answer_that_cannot_come_back_as_it_was_is_refused(
    store: Store, rubbish: object
) -> None:
    made = attrs.evolve(birth(), kept=receipt(answer=rubbish))

    (answer,) = await store.commit([made])

    assert isinstance(answer, NotStorable)
    assert await everything(store) == ([], [])


BAD_ROWS = {
    "text": row(title="\ud800"),
    "custom": row(custom={"k": "\ud800"}),
    "number": row(generation=2**70),
    "time": row(updated_at=math.nan),
    "object": row(name=object()),
    "tag": row(tags=(b"x",)),
}


@pytest.mark.parametrize("bad", BAD_ROWS.values(), ids=BAD_ROWS.keys())
async def test_a_row_that_cannot_come_back_as_it_was_is_refused(store: Store, bad: Session) -> None:
    await store.commit([birth()])
    before = await everything(store)

    (answer,) = await store.commit([more(ONE, 2, row=bad, kept=receipt())])

    assert isinstance(answer, NotStorable)
    assert await everything(store) == before
    assert await store.kept(ONE, "key") is None


async def test_a_record_that_contains_itself_is_refused(store: Store) -> None:
    body: dict[str, Any] = {}
    body["body"] = body

    answers = await store.commit([birth(), Write(ONE, 0, (said(ONE, 2, body),))])

    assert isinstance(answers[1], NotStorable)
    assert await numbers_of(store) == [1]


# Kept answers ----------------------------------------------------------------------------


async def test_a_kept_answer_comes_back(store: Store) -> None:
    kept = Kept(ONE, "key", "fingerprint", {"n": 1, "none": None, "list": ["x", 1.5]})

    await store.commit([attrs.evolve(birth(), kept=kept)])

    assert differences(await store.kept(ONE, "key"), kept) == []


async def test_an_answer_is_found_by_its_own_scope_and_key_only(store: Store) -> None:
    await store.commit([attrs.evolve(birth(), kept=receipt(ONE, "a"))])

    assert await store.kept(ONE, "b") is None
    assert await store.kept(TWO, "a") is None
    assert await store.kept("a", ONE) is None


async def test_keys_of_different_scopes_do_not_meet(store: Store) -> None:
    await store.commit([attrs.evolve(birth(ONE), kept=receipt(ONE, answer=1))])
    await store.commit([attrs.evolve(birth(TWO), kept=receipt(TWO, answer=2))])

    assert await store.kept(ONE, "key") == receipt(ONE, answer=1)
    assert await store.kept(TWO, "key") == receipt(TWO, answer=2)


async def test_an_answer_outlives_the_claim_of_its_session(store: Store) -> None:
    await store.commit([attrs.evolve(birth(), kept=receipt())])

    await claim(store, ONE)

    assert await store.kept(ONE, "key") == receipt()


# Deleting --------------------------------------------------------------------------------


async def test_deleting_leaves_nothing(store: Store) -> None:
    await store.commit([attrs.evolve(birth(), kept=receipt()), more(ONE, 2)])

    await store.delete(ONE)

    assert await store.read(ONE) is None
    assert await claim(store, ONE) is None
    assert await store.records(ONE) == []
    assert await store.kept(ONE, "key") is None
    assert await everything(store) == ([], [])


async def test_an_answer_goes_with_the_session_that_it_was_kept_with(store: Store) -> None:
    await store.commit([attrs.evolve(birth(), kept=receipt("create"))])

    await store.delete(ONE)

    assert await store.kept("create", "key") is None


async def test_deleting_one_touches_no_other(store: Store) -> None:
    made = birth(TWO)
    await store.commit([birth(ONE), attrs.evolve(made, kept=receipt(TWO)), more(TWO, 2)])
    await claim(store, TWO)
    before = await store.read(TWO)

    await store.delete(ONE)

    assert await store.read(TWO) == before
    assert await numbers_of(store, TWO) == [1, 2]
    assert await store.kept(TWO, "key") == receipt(TWO)


async def test_deleting_nobody_or_twice_is_fine(store: Store) -> None:
    await store.commit([birth()])

    await store.delete(NOBODY)
    await store.delete(ONE)
    await store.delete(ONE)

    assert await everything(store) == ([], [])


async def test_whoever_had_a_deleted_session_is_fenced(store: Store) -> None:
    await store.commit([birth()])
    await claim(store, ONE)
    await store.delete(ONE)

    (answer,) = await store.commit([more(ONE, 2, epoch=1, row=row())])

    assert isinstance(answer, Fenced)
    assert await everything(store) == ([], [])


async def test_a_number_or_a_position_is_never_used_again(store: Store) -> None:
    await store.commit([birth(ONE), birth(TWO)])
    await store.delete(TWO)

    await store.commit([birth(THREE)])

    assert [stored.number for stored in await rows_of(store)] == [1, 3]
    assert [position for position, _ in await store.all_records()] == [1, 3]


async def test_after_a_deletion_everything_else_is_where_it_was(store: Store) -> None:
    await store.commit([birth(ONE), birth(TWO), more(ONE, 2), more(TWO, 2)])
    before = await store.all_records()

    await store.delete(ONE)

    assert await store.all_records() == [before[1], before[3]]
    assert await store.all_records(after=2) == [before[3]]
    assert await store.all_records(limit=1) == [before[1]]
    assert await store.all_records(after=2, limit=1) == [before[3]]


# Reading ---------------------------------------------------------------------------------

PAGES = [(after, limit) for after in (0, 2, 5, 1_000_000) for limit in (None, 0, 1, 5, 1_000_000)]
with_pages = pytest.mark.parametrize(("after", "limit"), PAGES)


@with_pages
async def test_records_are_read_from_any_number_on(
    store: Store, after: int, limit: int | None
) -> None:
    await store.commit([birth(ONE), birth(TWO), more(ONE, 2, 3), more(TWO, 2), more(ONE, 4, 5)])

    found = [record.seq for record in await store.records(ONE, after=after, limit=limit)]

    assert found == [1, 2, 3, 4, 5][after:][:limit]


@with_pages
async def test_all_records_are_read_from_any_position_on(
    store: Store, after: int, limit: int | None
) -> None:
    await store.commit([birth(ONE), birth(TWO), more(ONE, 2)])
    await store.commit([more(TWO, 2), more(ONE, 3)])

    found = await store.all_records(after=after, limit=limit)

    whole = [(1, ONE, 1), (2, TWO, 1), (3, ONE, 2), (4, TWO, 2), (5, ONE, 3)]
    assert [(at, record.session_id, record.seq) for at, record in found] == whole[after:][:limit]


async def test_a_refused_write_takes_no_position_from_anybody_else(store: Store) -> None:
    await store.commit([birth(ONE), more(ONE, 3), birth(TWO)])

    found = await store.all_records()

    assert [record.session_id for _, record in found] == [ONE, TWO]
    assert sorted({position for position, _ in found}) == [position for position, _ in found]


async def test_rows_come_in_the_order_of_their_making(store: Store) -> None:
    await store.commit([birth(TWO), birth(ONE)])
    await store.commit([birth(THREE), more(TWO, 2, row=row(TWO, title="changed last"))])

    rows = await rows_of(store)

    assert [stored.row.id for stored in rows] == [TWO, ONE, THREE]
    assert [stored.number for stored in rows] == [1, 2, 3]
    for stored in rows:
        assert await store.read(stored.row.id) == stored


@pytest.mark.parametrize("after", range(6))
async def test_rows_go_on_after_any_number_though_some_are_deleted(
    store: Store, after: int
) -> None:
    names = [SessionId(f"s_{number}") for number in range(1, 6)]
    await store.commit([birth(name) for name in names])
    await store.delete(names[1])

    found = [stored.number for stored in await rows_of(store, after=after)]

    assert found == [number for number in (1, 3, 4, 5) if number > after]


async def test_rows_that_change_while_they_are_read_are_each_read_once(store: Store) -> None:
    names = [SessionId(f"s_{number:03}") for number in range(250)]
    await store.commit([birth(name) for name in names])

    found: list[SessionId] = []
    async for stored in store.rows():
        found.append(stored.row.id)
        if len(found) == 5:
            await store.commit([more(names[0], row=row(names[0])), more(names[200], 2)])
            await store.commit([birth(ONE)])

    assert found[:250] == names
    assert found[250:] in ([], [ONE])


async def test_rows_that_are_deleted_while_rows_are_read_disturb_nobody(store: Store) -> None:
    names = [SessionId(f"s_{number:03}") for number in range(250)]
    await store.commit([birth(name) for name in names])

    found: list[SessionId] = []
    async for stored in store.rows():
        found.append(stored.row.id)
        if len(found) == 5:
            await store.delete(names[1])
            await store.delete(names[249])

    assert found[:249] == names[:249]


async def test_others_get_a_turn_while_many_rows_are_read(
    store: Store, nursery: trio.Nursery
) -> None:
    await store.commit([birth(SessionId(f"s_{number}")) for number in range(1_000)])
    turns = 0

    async def take_turns() -> None:
        nonlocal turns
        while True:
            turns += 1
            await trio.lowlevel.checkpoint()

    nursery.start_soon(take_turns)
    assert len(await rows_of(store)) == 1_000
    nursery.cancel_scope.cancel()

    assert turns >= 5


async def test_reading_changes_nothing(store: Store) -> None:
    await store.commit([birth(), more(ONE, 2)])
    first = await everything(store), await store.read(ONE), await store.records(ONE)

    second = await everything(store), await store.read(ONE), await store.records(ONE)

    assert first == second


async def test_a_commit_that_is_called_off_is_there_as_a_whole_or_not_at_all(store: Store) -> None:
    with trio.CancelScope() as scope:
        scope.cancel()
        await store.commit([attrs.evolve(birth(ONE), also=birth(TWO), kept=receipt())])

    there = [stored.row.id for stored in await rows_of(store)]
    records = [record.session_id for _, record in await store.all_records()]
    assert there == records
    assert (there, await store.kept(ONE, "key")) in (([], None), ([ONE, TWO], receipt()))


# Many claims at once ---------------------------------------------------------------------


async def test_many_are_claimed_at_once_and_answered_in_the_order_of_asking(store: Store) -> None:
    await store.commit([birth(ONE), birth(TWO), birth(THREE)])

    found = await store.claim([THREE, NOBODY, ONE])

    assert [None if one is None else (one.row.id, one.epoch) for one in found] == [
        (THREE, 1),
        None,
        (ONE, 1),
    ]
    assert [stored.epoch for stored in await rows_of(store)] == [1, 0, 1]


async def test_a_claim_of_none_is_fine(store: Store) -> None:
    await store.commit([birth()])

    assert await store.claim([]) == []
    assert [stored.epoch for stored in await rows_of(store)] == [0]


async def test_of_two_who_claim_the_same_in_one_go_only_the_last_owns_it(store: Store) -> None:
    await store.commit([birth()])

    first, second = await store.claim([ONE, ONE])

    assert first is not None
    assert second is not None
    assert (first.epoch, second.epoch) == (1, 2)
    answers = await store.commit([more(ONE, 2, epoch=1), more(ONE, 2, epoch=2)])
    assert isinstance(answers[0], Fenced)
    assert answers[1] is None


# Ends in one commit with something else --------------------------------------------------


async def test_a_write_may_end_another_session_with_it(store: Store) -> None:
    await store.commit([birth(ONE), birth(TWO), more(TWO, 2, kept=receipt(TWO))])

    write = attrs.evolve(more(ONE, 2, row=row(title="new")), removes=TWO)
    assert await store.commit([write]) == [None]

    assert [stored.row.id for stored in await rows_of(store)] == [ONE]
    assert await store.records(TWO) == []
    assert await store.kept(TWO, "key") is None
    assert await numbers_of(store, ONE) == [1, 2]


@with_every_fault
async def test_a_refused_write_ends_nobody(store: Store, spoil: Spoil) -> None:
    await store.commit([birth(ONE), birth(TWO)])
    before = await everything(store)

    (answer,) = await store.commit([attrs.evolve(spoil(GOOD), removes=TWO)])

    assert answer is not None
    assert await everything(store) == before


async def test_what_is_written_after_its_end_in_the_same_commit_is_refused(store: Store) -> None:
    await store.commit([birth(ONE), birth(TWO)])

    answers = await store.commit([attrs.evolve(more(ONE, 2), removes=TWO), more(TWO, 2)])

    assert answers[0] is None
    assert isinstance(answers[1], NotStorable)
    assert await store.read(TWO) is None


async def test_what_was_written_before_its_end_in_the_same_commit_ends_too(store: Store) -> None:
    await store.commit([birth(ONE), birth(TWO)])

    late = attrs.evolve(more(ONE, 2), removes=TWO)
    assert await store.commit([more(TWO, 2, kept=receipt(TWO)), late]) == [None, None]

    assert await store.records(TWO) == []
    assert await store.kept(TWO, "key") is None


async def test_ending_nobody_with_a_write_is_fine(store: Store) -> None:
    await store.commit([birth(ONE)])

    assert await store.commit([attrs.evolve(more(ONE, 2), removes=NOBODY)]) == [None]
    assert await numbers_of(store) == [1, 2]


@pytest.mark.parametrize("scope", [ONE, f"{ONE}/spawn", f"{ONE}/"])
async def test_what_others_kept_in_its_name_goes_with_it(store: Store, scope: str) -> None:
    await store.commit([birth(ONE), attrs.evolve(birth(TWO), kept=receipt(scope))])

    await store.delete(ONE)

    assert await store.kept(scope, "key") is None


@pytest.mark.parametrize("scope", [f"{ONE}x", f"x/{ONE}", "create", f"{ONE}%", f"{ONE}_", "s_on_"])
async def test_what_others_kept_in_another_name_stays(store: Store, scope: str) -> None:
    await store.commit([birth(ONE), attrs.evolve(birth(TWO), kept=receipt(scope))])

    await store.delete(ONE)

    assert await store.kept(scope, "key") == receipt(scope)


# Turns, kinds and what lies there --------------------------------------------------------


def in_turn(seq: int, turn: str | None, kind: Any = "plan", **body: Any) -> Record:  # noqa: ANN401
    return Record(ONE, seq, 2.0, None if turn is None else TurnId(turn), kind, body)


TURNS = (in_turn(2, "a"), in_turn(3, "b"), in_turn(4, None), in_turn(5, "a"), in_turn(6, "a"))


@pytest.mark.parametrize(
    ("turn", "after", "limit", "numbers"),
    [
        ("a", 0, None, [2, 5, 6]),
        ("a", 2, None, [5, 6]),
        ("a", 0, 2, [2, 5]),
        ("a", 0, 0, []),
        ("b", 0, 1, [3]),
        ("b", 3, None, []),
        ("c", 0, None, []),
    ],
)
async def test_the_records_of_one_turn_are_read_alone(
    store: Store, turn: str, after: int, limit: int | None, numbers: list[int]
) -> None:
    await store.commit([birth(), Write(ONE, 0, TURNS)])

    found = await store.records(ONE, turn=TurnId(turn), after=after, limit=limit)

    assert [record.seq for record in found] == numbers


async def test_records_of_some_kinds_come_session_by_session(store: Store) -> None:
    news = in_turn(2, None, "child_ended"), in_turn(3, None, "child_started")
    other = attrs.evolve(news[0], session_id=TWO)
    await store.commit([birth(TWO), birth(ONE), Write(TWO, 0, (other,)), Write(ONE, 0, news)])

    found = await store.records_of(["child_started", "child_ended"])

    assert [(one.session_id, one.seq) for one in found] == [(ONE, 2), (ONE, 3), (TWO, 2)]
    assert found[:2] == list(news)


@pytest.mark.parametrize("kinds", [[], ["nonsense"], ["plan'; DROP TABLE records; --"]], ids=str)
async def test_of_kinds_that_nobody_wrote_there_are_none(store: Store, kinds: list[str]) -> None:
    await store.commit([birth(), more(ONE, 2)])

    assert await store.records_of(kinds) == []
    assert await numbers_of(store) == [1, 2]


async def test_raw_records_are_what_lies_there(store: Store) -> None:
    await store.commit([birth(ONE), birth(TWO), Write(ONE, 0, (in_turn(2, "t", text="é\0"),))])

    raw = await store.raw_records(ONE)

    assert [(one.position, one.seq) for one in raw] == [(1, 1), (3, 2)]
    last = raw[1]
    assert (last.session_id, last.at, last.turn_id, last.kind) == (ONE, 2.0, "t", "plan")
    assert json.loads(last.body) == {"text": "é\0"}
    assert await store.raw_records(NOBODY) == []


async def test_a_raw_row_is_what_lies_there(store: Store) -> None:
    key = SessionKey("echo", "here", "me")
    await store.commit([birth(ONE, Plan(agent="echo", key=key)), birth(TWO)])
    stored = await claim(store, ONE)

    raw = await store.raw_row(ONE)

    assert stored is not None
    assert raw is not None
    assert (raw.session_id, raw.epoch, raw.key, raw.root) == (ONE, 1, str(key), ONE)
    assert decode(raw.row, Session) == stored.row
    await store.commit([Write(ONE, 1, (), stored.row.changed(archived=True))])
    archived = await store.raw_row(ONE)
    assert archived is not None
    assert archived.key is None
    assert await store.raw_row(NOBODY) is None


async def test_whoever_was_committed_is_not_damaged(store: Store) -> None:
    await store.commit([birth(ONE), birth(TWO)])

    assert await store.damaged() == []
    assert await store.damaged(besides={ONE}) == []


# Snapshots -------------------------------------------------------------------------------


async def test_a_row_is_kept_when_the_records_pass_a_multiple(store: Store) -> None:
    await store.commit([birth(), more(ONE, *range(2, 200), row=row(title="before"))])
    assert await store.snapshot(ONE, at=199) is None

    await store.commit([more(ONE, *range(200, 206), row=row(title="there"))])
    await store.commit([more(ONE, *range(206, 399), row=row(title="after"))])

    assert await store.snapshot(ONE, at=204) is None
    assert await store.snapshot(ONE, at=205) == (205, row(title="there"))
    assert await store.snapshot(ONE, at=2**62) == (205, row(title="there"))


async def test_a_snapshot_goes_with_its_session(store: Store) -> None:
    await store.commit([birth(), more(ONE, *range(2, 201), row=row())])

    await store.delete(ONE)
    await store.commit([birth()])

    assert await store.snapshot(ONE, at=1_000) is None


async def test_records_without_a_row_make_no_snapshot(store: Store) -> None:
    await store.commit([birth(), more(ONE, *range(2, 202))])

    assert await store.snapshot(ONE, at=1_000) is None


# Rows that fit ---------------------------------------------------------------------------


async def test_only_rows_that_fit_are_given(store: Store) -> None:
    names = [SessionId(f"s_{number:03}") for number in range(450)]
    writes = [
        Write(name, 0, (), row(name, archived=not place % 3)) for place, name in enumerate(names)
    ]
    await store.commit(writes)

    wanted = Filter(archived=True)
    found = [stored async for stored in store.rows(after=10, fitting=wanted)]

    assert [stored.row.id for stored in found] == [
        name for place, name in enumerate(names) if place >= 10 and not place % 3
    ]


# Words -----------------------------------------------------------------------------------


def spoken(seq: int, text: str, session_id: SessionId = ONE) -> Record:
    return Record(session_id, seq, 2.0, None, "user_text", {"text": text, "part": None})


async def test_what_was_said_is_found_by_its_words_the_last_first(store: Store) -> None:
    lines = (spoken(2, "red green"), spoken(3, "green blue"), spoken(4, "GREEN, red!"))
    await store.commit([birth(), Write(ONE, 0, lines)])

    found = await store.search("green Red")

    assert [(hit.position, hit.seq, hit.kind) for hit in found] == [
        (4, 4, "user_text"),
        (2, 2, "user_text"),
    ]
    assert found[0].snippet == "[GREEN], [red]!"


async def test_a_search_can_be_of_one_session_and_in_pages(store: Store) -> None:
    await store.commit([birth(ONE), birth(TWO)])
    for seq in range(2, 6):
        await store.commit([Write(ONE, 0, (spoken(seq, "here"),))])
        await store.commit([Write(TWO, 0, (spoken(seq, "here", TWO),))])

    first = await store.search("here", session_id=ONE, limit=3)
    rest = await store.search("here", session_id=ONE, limit=3, before=first[-1].position)

    assert [(hit.session_id, hit.seq) for hit in (*first, *rest)] == [
        (ONE, 5),
        (ONE, 4),
        (ONE, 3),
        (ONE, 2),
    ]


@pytest.mark.parametrize("kind", ["thought", "tool_call", "input_accepted"])
async def test_only_what_was_said_is_found(store: Store, kind: Any) -> None:  # noqa: ANN401
    await store.commit([birth(), Write(ONE, 0, (in_turn(2, None, kind, text="here"),))])

    assert await store.search("here") == []


async def test_what_was_deleted_is_not_found(store: Store) -> None:
    await store.commit([birth(ONE), birth(TWO)])
    await store.commit(
        [Write(ONE, 0, (spoken(2, "here"),)), Write(TWO, 0, (spoken(2, "here", TWO),))]
    )

    await store.delete(ONE)

    assert [hit.session_id for hit in await store.search("here")] == [TWO]


async def test_what_was_refused_is_not_found(store: Store) -> None:
    await store.commit([birth()])

    await store.commit([Write(ONE, 0, (spoken(2, "here"), spoken(4, "here")))])

    assert await store.search("here") == []


# Sizes, copies, processes ----------------------------------------------------------------


async def test_sizes_are_counted_in_bytes(store: Store) -> None:
    await store.commit([birth(ONE), birth(TWO), more(ONE, 2), more(TWO, 2)])
    before = await store.sizes()

    await store.commit([Write(ONE, 0, (said(ONE, 3, {"text": "漢" * 1_000}),))])

    after = await store.sizes()
    assert 3_000 <= after[ONE] - before[ONE] < 3_200
    assert after[TWO] == before[TWO] > 0


async def test_what_is_deleted_has_no_size(store: Store) -> None:
    await store.commit([birth(ONE), birth(TWO)])

    await store.delete(ONE)

    assert set(await store.sizes()) == {TWO}


async def test_a_copy_is_made_or_refused_and_changes_nothing(store: Store, tmp_path: Path) -> None:
    await store.commit([birth(), more(ONE, 2)])
    before = await everything(store)

    with contextlib.suppress(ConfigError):  # what is in memory cannot be copied
        assert await store.backup(tmp_path / "copy.db") > 0
    with pytest.raises(ConfigError):
        await store.backup(tmp_path)

    assert await everything(store) == before


BASH = Process(ONE, 17, 5_000, "boot-1")


async def test_a_process_is_known_from_its_note_until_it_is_forgotten(store: Store) -> None:
    other = attrs.evolve(BASH, start_time=6_000, session_id=TWO)
    await store.note_process(BASH)
    await store.note_process(other)

    assert sorted(await store.processes(), key=lambda one: one.start_time) == [BASH, other]
    await store.forget_process(BASH)

    assert await store.processes() == [other]


async def test_a_note_twice_is_one_and_forgetting_what_nobody_noted_is_fine(store: Store) -> None:
    await store.forget_process(BASH)
    await store.note_process(BASH)
    await store.note_process(BASH)

    assert await store.processes() == [BASH]


async def test_the_same_process_noted_for_another_session_is_that_ones(store: Store) -> None:
    await store.note_process(BASH)

    await store.note_process(attrs.evolve(BASH, session_id=TWO))

    assert await store.processes() == [attrs.evolve(BASH, session_id=TWO)]


async def test_a_probe_changes_nothing(store: Store) -> None:
    await store.commit([birth(), more(ONE, 2)])
    before = await everything(store)

    await store.probe()

    assert await everything(store) == before


# What spoils nobody else's write ---------------------------------------------------------


def odd(**changes: Any) -> Write:  # noqa: ANN401 - the fields of a record
    return Write(ONE, 0, (attrs.evolve(said(ONE, 2), **changes),))


POISON = {
    "half a character in the turn": odd(turn_id="\ud800"),
    "half a character in the kind": odd(kind="\ud800"),
    "half a character in the text": odd(kind="user_text", body={"text": "\ud800"}),
    "a time that is none": odd(at=math.nan),
    "a time without end": odd(at=math.inf),
    "a time beyond all": odd(at=10**30),
    "a time that is a text": odd(at="x"),
    "a record of somebody else": odd(session_id=TWO),
    "half a character in a key": more(ONE, 2, kept=receipt(ONE, "\ud800")),
    "a row's time beyond all": more(ONE, 2, row=row(updated_at=10**400)),
}


@pytest.mark.parametrize("poison", POISON.values(), ids=POISON.keys())
async def test_poison_is_refused_and_harms_nobody_else(store: Store, poison: Write) -> None:
    await store.commit([birth(ONE), birth(TWO)])
    before = await store.read(ONE)

    answers = await store.commit([birth(THREE), poison, more(TWO, 2)])

    assert answers[0] is answers[2] is None
    assert isinstance(answers[1], NotStorable)
    assert await store.read(ONE) == before
    assert [len(await store.records(one)) for one in (ONE, TWO, THREE)] == [1, 2, 1]


HARMLESS = {
    "a long text": "x" * 10_000_000 + " y",
    "nothing": "\0",
    "the largest": 2**63 - 1,
    "no letters": "😀\u202e\u200d\ufeff\ufffe",
    "quotes": "'; DROP TABLE records; --\" \\",
}


@pytest.mark.parametrize("value", HARMLESS.values(), ids=HARMLESS.keys())
async def test_what_is_odd_but_whole_is_kept_as_it_is(store: Store, value: Any) -> None:  # noqa: ANN401
    text = value if isinstance(value, str) else str(value)
    record = attrs.evolve(spoken(2, text), body={"text": text, "part": None, "value": value})

    assert await store.commit([birth(), Write(ONE, 0, (record,)), birth(TWO)]) == [None] * 3
    assert await store.records(ONE, after=1) == [record]
