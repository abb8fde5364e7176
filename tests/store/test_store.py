"""The contract of every store: commits, numbers, epochs, claims and refusals."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import attrs
import pytest

from supervisor.core.creation import SessionSpec
from supervisor.core.errors import Fenced, NotStorable
from supervisor.core.fold import replay
from supervisor.core.ids import SessionId
from supervisor.core.limits import Terms
from supervisor.core.state import Phase
from supervisor.store.port import Store, Write
from tests.support.store_samples import (
    ONE,
    PLAN,
    THREE,
    TWO,
    UNKNOWN,
    claim,
    creation_write,
    differences,
    next_write,
    numbers_of,
    plan_record,
    random_session,
    receipt,
    row,
    rows_of,
    visible_data_of,
)

# Commits ---------------------------------------------------------------------------------


async def test_committed_data_can_be_read(store: Store) -> None:
    made = creation_write()

    assert await store.commit([made]) == [None]

    stored = await store.read(ONE)
    assert stored is not None
    assert (stored.row, stored.epoch, stored.last_seq, stored.number) == (made.row, 0, 1, 1)
    assert await store.records(ONE) == list(made.records)


async def test_an_empty_commit_succeeds(store: Store) -> None:
    assert await store.commit([]) == []
    assert await visible_data_of(store) == ([], [])


async def test_an_unknown_session_has_no_data(store: Store) -> None:
    assert await store.read(UNKNOWN) is None
    assert await store.records(UNKNOWN) == []
    assert await visible_data_of(store) == ([], [])


async def test_a_later_row_replaces_the_earlier(store: Store) -> None:
    await store.commit([creation_write()])

    await store.commit([next_write(ONE, 2, row=row(phase=Phase.IDLE))])
    await store.commit([next_write(ONE, row=row(phase=Phase.STOPPED))])

    stored = await store.read(ONE)
    assert stored is not None
    assert stored.row == row(phase=Phase.STOPPED)
    assert (stored.last_seq, stored.number) == (2, 1)


async def test_records_without_a_row_leave_the_row_unchanged(store: Store) -> None:
    made = creation_write()
    await store.commit([made])

    await store.commit([next_write(ONE, 2, 3)])

    stored = await store.read(ONE)
    assert stored is not None
    assert stored.row == made.row
    assert await numbers_of(store) == [1, 2, 3]


async def test_one_commit_may_have_many_sessions_and_many_writes_of_each(store: Store) -> None:
    writes = [
        creation_write(ONE),
        creation_write(TWO),
        next_write(ONE, 2),
        next_write(TWO, 2, 3),
        next_write(ONE, 3),
    ]

    assert await store.commit(writes) == [None] * 5

    assert await numbers_of(store, ONE) == [1, 2, 3]
    assert await numbers_of(store, TWO) == [1, 2, 3]


async def test_stored_data_is_independent_of_the_written_objects(store: Store) -> None:
    body = {"list": [1]}
    record = plan_record(ONE, 2, body)
    await store.commit([creation_write(), Write(ONE, 0, (record,))])

    body["list"].append(2)
    (await store.records(ONE))[1].body["list"].append(3)

    assert (await store.records(ONE))[1].body == {"list": [1]}


# What is read equals what was written ----------------------------------------------------


async def test_a_row_is_read_with_its_types(store: Store) -> None:
    for number, (session, _, _) in enumerate(random_session(3, 60)):
        changed = attrs.evolve(session, id=SessionId(f"s_{number}"), name=f"name {number}")
        await store.commit([Write(changed.id, 0, (), changed)])

        stored = await store.read(changed.id)

        assert stored is not None
        assert differences(stored.row, changed) == []


async def test_a_record_is_read_with_its_types(store: Store) -> None:
    body: dict[str, object] = {
        "": None,
        "b": True,
        "i": 1,
        "f": 1.0,
        "t": "é\x00😀\n",
        "l": [{"x": [[]]}],
        "d": {},
    }
    written = [*creation_write(ONE, PLAN).records, plan_record(ONE, 2, body)]
    await store.commit([Write(ONE, 0, tuple(written), creation_write(ONE, PLAN).row)])

    assert differences(await store.records(ONE), written) == []
    assert differences(await store.all_records(), list(enumerate(written, 1))) == []


@pytest.mark.parametrize("number", [0.0, -0.0, 1e-300, 0.1, 1e300, 2**63 - 1, -(2**63)])
async def test_a_number_is_read_exactly(store: Store, number: float) -> None:
    await store.commit(
        [creation_write(), Write(ONE, 0, (plan_record(ONE, 2, {"number": number}),))]
    )

    assert repr((await store.records(ONE))[1].body["number"]) == repr(number)


async def test_a_session_without_idle_suspension_is_read(store: Store) -> None:
    plan = SessionSpec(agent="echo", terms=Terms(suspend_after_seconds=None))
    made = creation_write(ONE, plan)

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
    await store.commit([creation_write()])
    before = await visible_data_of(store)

    (answer,) = await store.commit(
        [next_write(ONE, *numbers, row=row(title="new"), kept=receipt())]
    )

    assert isinstance(answer, NotStorable)
    assert answer.hint
    assert await visible_data_of(store) == before
    assert await store.stored_reply(ONE, "key") is None


@pytest.mark.parametrize("numbers", [(0,), (2,), (1, 3)])
async def test_the_records_of_a_new_session_start_at_one(
    store: Store, numbers: tuple[int, ...]
) -> None:
    (answer,) = await store.commit([next_write(ONE, *numbers, row=row())])

    assert isinstance(answer, NotStorable)
    assert await visible_data_of(store) == ([], [])


async def test_a_refused_write_can_be_corrected(store: Store) -> None:
    await store.commit([creation_write()])
    await store.commit([next_write(ONE, 3)])

    assert await store.commit([next_write(ONE, 2, 3)]) == [None]
    assert await numbers_of(store) == [1, 2, 3]


# Epochs ----------------------------------------------------------------------------------


async def test_a_claim_raises_the_epoch_and_returns_the_session(store: Store) -> None:
    await store.commit([creation_write()])
    before = await store.read(ONE)

    first, second = await claim(store, ONE), await claim(store, ONE)

    assert before is not None
    assert first == attrs.evolve(before, epoch=1)
    assert second == attrs.evolve(before, epoch=2) == await store.read(ONE)


async def test_a_claim_of_an_unknown_session_creates_nothing(store: Store) -> None:
    assert await claim(store, UNKNOWN) is None
    assert await visible_data_of(store) == ([], [])
    assert await store.commit([creation_write(UNKNOWN)]) == [None]


async def test_a_claim_raises_no_other_epoch(store: Store) -> None:
    await store.commit([creation_write(ONE), creation_write(TWO)])

    await claim(store, ONE)

    assert await store.commit([next_write(TWO, 2)]) == [None]


@pytest.mark.parametrize("epoch", [0, 1, 3, -1])
async def test_a_write_of_another_epoch_is_fenced_and_leaves_nothing(
    store: Store, epoch: int
) -> None:
    await store.commit([creation_write()])
    await claim(store, ONE)
    await claim(store, ONE)
    before = await visible_data_of(store)

    write = next_write(ONE, 2, epoch=epoch, row=row(title="new"), kept=receipt())
    (answer,) = await store.commit([write])

    assert isinstance(answer, Fenced)
    assert answer.hint
    assert await visible_data_of(store) == before
    assert await store.stored_reply(ONE, "key") is None


async def test_a_wrong_epoch_is_fenced_before_other_checks(store: Store) -> None:
    await store.commit([creation_write()])
    await claim(store, ONE)

    (answer,) = await store.commit([next_write(ONE, 7, epoch=0)])

    assert isinstance(answer, Fenced)


async def test_the_new_owner_continues_after_the_old_owner(store: Store) -> None:
    await store.commit([creation_write(), next_write(ONE, 2)])
    await claim(store, ONE)

    assert await store.commit([next_write(ONE, 3, epoch=1)]) == [None]
    assert await numbers_of(store) == [1, 2, 3]


async def test_a_session_cannot_start_in_a_later_epoch(store: Store) -> None:
    (answer,) = await store.commit([creation_write().changed(epoch=1)])

    assert isinstance(answer, Fenced)
    assert await visible_data_of(store) == ([], [])


# Linked writes ---------------------------------------------------------------------------


async def test_linked_writes_are_stored_together(store: Store) -> None:
    await store.commit([creation_write(ONE)])
    other = creation_write(TWO).changed(stored_reply=receipt(TWO))

    write = next_write(ONE, 2, row=row(archived=True), kept=receipt(ONE), also=other)
    assert await store.commit([write]) == [None]

    assert [stored.row for stored in await rows_of(store)] == [row(archived=True), other.row]
    assert [record.session_id for _, record in await store.all_records()] == [ONE, ONE, TWO]
    assert await store.stored_reply(ONE, "key") == receipt(ONE)
    assert await store.stored_reply(TWO, "key") == receipt(TWO)


GOOD = next_write(ONE, 2, row=row(title="new"), kept=receipt(ONE))
ALSO_GOOD = next_write(TWO, 2, row=row(TWO, title="new"), kept=receipt(TWO))


def fenced(write: Write) -> Write:
    return write.changed(epoch=write.epoch + 1)


def with_a_gap(write: Write) -> Write:
    return write.changed(records=(plan_record(write.session_id, 3),))


def unencodable(write: Write) -> Write:
    return write.changed(records=(plan_record(write.session_id, 2, {"x": object()}),))


def with_a_bad_row(write: Write) -> Write:
    return write.changed(row=row(write.session_id, title="\ud800"))


def with_a_bad_reply(write: Write) -> Write:
    return write.changed(stored_reply=receipt(write.session_id, answer={1: 2}))


Spoil: TypeAlias = Callable[[Write], Write]
FAULTS: list[Spoil] = [fenced, with_a_gap, unencodable, with_a_bad_row, with_a_bad_reply]
with_every_fault = pytest.mark.parametrize("spoil", FAULTS, ids=lambda spoil: spoil.__name__)


@with_every_fault
@pytest.mark.parametrize("which", ["the one", "the other"])
async def test_linked_writes_are_all_refused_if_one_is(
    store: Store, spoil: Spoil, which: str
) -> None:
    await store.commit([creation_write(ONE), creation_write(TWO)])
    before = await visible_data_of(store)

    if which == "the one":
        write = spoil(GOOD).changed(linked_write=ALSO_GOOD)
    else:
        write = GOOD.changed(linked_write=spoil(ALSO_GOOD))
    (answer,) = await store.commit([write])

    assert isinstance(answer, Fenced if spoil is fenced else NotStorable)
    assert await visible_data_of(store) == before
    assert await store.stored_reply(ONE, "key") is None
    assert await store.stored_reply(TWO, "key") is None


async def test_more_than_two_writes_can_be_linked(store: Store) -> None:
    chain = creation_write(ONE).changed(
        linked_write=creation_write(TWO).changed(linked_write=creation_write(THREE)),
    )

    assert await store.commit([chain]) == [None]

    assert [stored.row.id for stored in await rows_of(store)] == [ONE, TWO, THREE]


@with_every_fault
async def test_a_refused_write_deletes_nothing(store: Store, spoil: Spoil) -> None:
    await store.commit([creation_write(ONE), creation_write(TWO)])
    before = await visible_data_of(store)

    (answer,) = await store.commit([spoil(GOOD).changed(deletes=TWO)])

    assert answer is not None
    assert await visible_data_of(store) == before


# One bad write among good ones -----------------------------------------------------------


@with_every_fault
async def test_a_refused_write_does_not_affect_other_sessions(store: Store, spoil: Spoil) -> None:
    await store.commit([creation_write(ONE), creation_write(TWO)])

    answers = await store.commit([creation_write(THREE), spoil(GOOD), ALSO_GOOD])

    assert answers[0] is answers[2] is None
    assert isinstance(answers[1], Fenced if spoil is fenced else NotStorable)
    assert await numbers_of(store, ONE) == [1]
    assert await numbers_of(store, TWO) == [1, 2]
    assert await numbers_of(store, THREE) == [1]


LATER = {
    "its next number": next_write(ONE, 3),
    "the same number": next_write(ONE, 2),
    "only a row": next_write(ONE, row=row(title="later")),
    "only an answer": next_write(ONE, kept=receipt(ONE)),
}


@pytest.mark.parametrize("later", LATER.values(), ids=LATER.keys())
async def test_later_writes_of_a_refused_session_are_refused(store: Store, later: Write) -> None:
    await store.commit([creation_write(ONE), creation_write(TWO)])
    before = await visible_data_of(store)

    answers = await store.commit([unencodable(next_write(ONE, 2)), later])

    assert [type(answer) for answer in answers] == [NotStorable, NotStorable]
    assert await visible_data_of(store) == before
    assert await store.stored_reply(ONE, "key") is None


async def test_a_late_write_of_the_old_owner_is_fenced(store: Store) -> None:
    await store.commit([creation_write()])
    await claim(store, ONE)

    answers = await store.commit([next_write(ONE, 2, epoch=0), next_write(ONE, 2, epoch=1)])

    assert isinstance(answers[0], Fenced)
    assert answers[1] is None
    assert await numbers_of(store) == [1, 2]


async def test_records_of_an_unknown_session_are_refused(store: Store) -> None:
    answers = await store.commit([creation_write(ONE), next_write(UNKNOWN, 1), creation_write(TWO)])

    assert answers[0] is answers[2] is None
    assert isinstance(answers[1], NotStorable)
    assert [stored.row.id for stored in await rows_of(store)] == [ONE, TWO]
    assert await store.records(UNKNOWN) == []


# Many claims at once ---------------------------------------------------------------------


async def test_many_claims_are_answered_in_order(store: Store) -> None:
    await store.commit([creation_write(ONE), creation_write(TWO), creation_write(THREE)])

    found = await store.claim([THREE, UNKNOWN, ONE])

    assert [None if one is None else (one.row.id, one.epoch) for one in found] == [
        (THREE, 1),
        None,
        (ONE, 1),
    ]
    assert [stored.epoch for stored in await rows_of(store)] == [1, 0, 1]


async def test_an_empty_claim_succeeds(store: Store) -> None:
    await store.commit([creation_write()])

    assert await store.claim([]) == []
    assert [stored.epoch for stored in await rows_of(store)] == [0]


async def test_the_last_of_two_claims_in_one_call_owns_the_session(store: Store) -> None:
    await store.commit([creation_write()])

    first, second = await store.claim([ONE, ONE])

    assert first is not None
    assert second is not None
    assert (first.epoch, second.epoch) == (1, 2)
    answers = await store.commit([next_write(ONE, 2, epoch=1), next_write(ONE, 2, epoch=2)])
    assert isinstance(answers[0], Fenced)
    assert answers[1] is None
