"""The contract of every store: deletion."""

from __future__ import annotations

import pytest

from supervisor.core.errors import Fenced, NotStorable
from supervisor.store.port import Store
from tests.support.store_samples import (
    ONE,
    THREE,
    TWO,
    UNKNOWN,
    claim,
    creation_write,
    next_write,
    numbers_of,
    receipt,
    row,
    rows_of,
    visible_data_of,
)

# Deleting --------------------------------------------------------------------------------


async def test_a_deletion_leaves_nothing(store: Store) -> None:
    await store.commit([creation_write().changed(stored_reply=receipt()), next_write(ONE, 2)])

    await store.delete(ONE)

    assert await store.read(ONE) is None
    assert await claim(store, ONE) is None
    assert await store.records(ONE) == []
    assert await store.stored_reply(ONE, "key") is None
    assert await visible_data_of(store) == ([], [])


async def test_a_reply_is_deleted_with_its_session(store: Store) -> None:
    await store.commit([creation_write().changed(stored_reply=receipt("create"))])

    await store.delete(ONE)

    assert await store.stored_reply("create", "key") is None


async def test_a_deletion_affects_no_other_session(store: Store) -> None:
    made = creation_write(TWO)
    await store.commit(
        [creation_write(ONE), made.changed(stored_reply=receipt(TWO)), next_write(TWO, 2)]
    )
    await claim(store, TWO)
    before = await store.read(TWO)

    await store.delete(ONE)

    assert await store.read(TWO) == before
    assert await numbers_of(store, TWO) == [1, 2]
    assert await store.stored_reply(TWO, "key") == receipt(TWO)


async def test_deleting_an_unknown_session_or_twice_succeeds(store: Store) -> None:
    await store.commit([creation_write()])

    await store.delete(UNKNOWN)
    await store.delete(ONE)
    await store.delete(ONE)

    assert await visible_data_of(store) == ([], [])


async def test_the_owner_of_a_deleted_session_is_fenced(store: Store) -> None:
    await store.commit([creation_write()])
    await claim(store, ONE)
    await store.delete(ONE)

    (answer,) = await store.commit([next_write(ONE, 2, epoch=1, row=row())])

    assert isinstance(answer, Fenced)
    assert await visible_data_of(store) == ([], [])


async def test_a_number_or_a_position_is_never_reused(store: Store) -> None:
    await store.commit([creation_write(ONE), creation_write(TWO)])
    await store.delete(TWO)

    await store.commit([creation_write(THREE)])

    assert [stored.number for stored in await rows_of(store)] == [1, 3]
    assert [position for position, _ in await store.all_records()] == [1, 3]


async def test_a_deletion_moves_no_other_position(store: Store) -> None:
    await store.commit(
        [creation_write(ONE), creation_write(TWO), next_write(ONE, 2), next_write(TWO, 2)]
    )
    before = await store.all_records()

    await store.delete(ONE)

    assert await store.all_records() == [before[1], before[3]]
    assert await store.all_records(after=2) == [before[3]]
    assert await store.all_records(limit=1) == [before[1]]
    assert await store.all_records(after=2, limit=1) == [before[3]]


# Deletions in a commit -------------------------------------------------------------------


async def test_a_write_can_delete_another_session(store: Store) -> None:
    await store.commit(
        [creation_write(ONE), creation_write(TWO), next_write(TWO, 2, kept=receipt(TWO))]
    )

    write = next_write(ONE, 2, row=row(title="new")).changed(deletes=TWO)
    assert await store.commit([write]) == [None]

    assert [stored.row.id for stored in await rows_of(store)] == [ONE]
    assert await store.records(TWO) == []
    assert await store.stored_reply(TWO, "key") is None
    assert await numbers_of(store, ONE) == [1, 2]


async def test_a_write_after_the_deletion_in_one_commit_is_refused(store: Store) -> None:
    await store.commit([creation_write(ONE), creation_write(TWO)])

    answers = await store.commit([next_write(ONE, 2).changed(deletes=TWO), next_write(TWO, 2)])

    assert answers[0] is None
    assert isinstance(answers[1], NotStorable)
    assert await store.read(TWO) is None


async def test_a_write_before_the_deletion_in_one_commit_is_deleted(store: Store) -> None:
    await store.commit([creation_write(ONE), creation_write(TWO)])

    late = next_write(ONE, 2).changed(deletes=TWO)
    assert await store.commit([next_write(TWO, 2, kept=receipt(TWO)), late]) == [None, None]

    assert await store.records(TWO) == []
    assert await store.stored_reply(TWO, "key") is None


async def test_a_write_can_delete_an_unknown_session(store: Store) -> None:
    await store.commit([creation_write(ONE)])

    assert await store.commit([next_write(ONE, 2).changed(deletes=UNKNOWN)]) == [None]
    assert await numbers_of(store) == [1, 2]


@pytest.mark.parametrize("scope", [ONE, f"{ONE}/spawn", f"{ONE}/"])
async def test_replies_in_the_scope_of_a_deleted_session_are_deleted(
    store: Store, scope: str
) -> None:
    await store.commit(
        [creation_write(ONE), creation_write(TWO).changed(stored_reply=receipt(scope))]
    )

    await store.delete(ONE)

    assert await store.stored_reply(scope, "key") is None


@pytest.mark.parametrize("scope", [f"{ONE}x", f"x/{ONE}", "create", f"{ONE}%", f"{ONE}_", "s_on_"])
async def test_replies_in_other_scopes_are_kept(store: Store, scope: str) -> None:
    await store.commit(
        [creation_write(ONE), creation_write(TWO).changed(stored_reply=receipt(scope))]
    )

    await store.delete(ONE)

    assert await store.stored_reply(scope, "key") == receipt(scope)
