"""The contract of every store: storable values and stored replies."""

from __future__ import annotations

import datetime as dt
import math
import uuid
from typing import Any

import attrs
import pytest

from supervisor.core.errors import NotStorable
from supervisor.core.state import SessionState
from supervisor.store.port import Store, StoredReply, Write
from tests.support.store_samples import (
    ONE,
    THREE,
    TWO,
    claim,
    creation_write,
    differences,
    next_write,
    numbers_of,
    plan_record,
    receipt,
    row,
    text_record,
    visible_data_of,
)

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
async def test_a_record_that_would_not_be_read_back_equal_is_refused(
    store: Store, rubbish: object
) -> None:
    await store.commit([creation_write()])
    before = await visible_data_of(store)
    records = (plan_record(ONE, 2), plan_record(ONE, 3, {"in": [rubbish]}), plan_record(ONE, 4))

    (answer,) = await store.commit([Write(ONE, 0, records, row(title="new"), receipt())])

    assert isinstance(answer, NotStorable)
    assert answer.hint
    assert await visible_data_of(store) == before
    assert await store.stored_reply(ONE, "key") is None


@with_all_rubbish
async def test_a_reply_that_would_not_be_read_back_equal_is_refused(
    store: Store, rubbish: object
) -> None:
    made = creation_write().changed(stored_reply=receipt(answer=rubbish))

    (answer,) = await store.commit([made])

    assert isinstance(answer, NotStorable)
    assert await visible_data_of(store) == ([], [])


BAD_ROWS = {
    "text": row(title="\ud800"),
    "custom": row(custom={"k": "\ud800"}),
    "number": row(generation=2**70),
    "time": row(updated_at=math.nan),
    "object": row(name=object()),
    "tag": row(tags=(b"x",)),
}


@pytest.mark.parametrize("bad", BAD_ROWS.values(), ids=BAD_ROWS.keys())
async def test_a_row_that_would_not_be_read_back_equal_is_refused(
    store: Store, bad: SessionState
) -> None:
    await store.commit([creation_write()])
    before = await visible_data_of(store)

    (answer,) = await store.commit([next_write(ONE, 2, row=bad, kept=receipt())])

    assert isinstance(answer, NotStorable)
    assert await visible_data_of(store) == before
    assert await store.stored_reply(ONE, "key") is None


async def test_a_record_that_contains_itself_is_refused(store: Store) -> None:
    body: dict[str, Any] = {}
    body["body"] = body

    answers = await store.commit([creation_write(), Write(ONE, 0, (plan_record(ONE, 2, body),))])

    assert isinstance(answers[1], NotStorable)
    assert await numbers_of(store) == [1]


# Stored replies --------------------------------------------------------------------------


async def test_a_stored_reply_is_read_back(store: Store) -> None:
    kept = StoredReply(ONE, "key", "fingerprint", {"n": 1, "none": None, "list": ["x", 1.5]})

    await store.commit([creation_write().changed(stored_reply=kept)])

    assert differences(await store.stored_reply(ONE, "key"), kept) == []


async def test_a_reply_is_found_by_its_scope_and_key_only(store: Store) -> None:
    await store.commit([creation_write().changed(stored_reply=receipt(ONE, "a"))])

    assert await store.stored_reply(ONE, "b") is None
    assert await store.stored_reply(TWO, "a") is None
    assert await store.stored_reply("a", ONE) is None


async def test_equal_keys_of_different_scopes_do_not_collide(store: Store) -> None:
    await store.commit([creation_write(ONE).changed(stored_reply=receipt(ONE, answer=1))])
    await store.commit([creation_write(TWO).changed(stored_reply=receipt(TWO, answer=2))])

    assert await store.stored_reply(ONE, "key") == receipt(ONE, answer=1)
    assert await store.stored_reply(TWO, "key") == receipt(TWO, answer=2)


async def test_a_reply_survives_a_claim_of_its_session(store: Store) -> None:
    await store.commit([creation_write().changed(stored_reply=receipt())])

    await claim(store, ONE)

    assert await store.stored_reply(ONE, "key") == receipt()


# Unstorable and unusual values -----------------------------------------------------------


def unusual(**changes: Any) -> Write:  # noqa: ANN401 - fields of a record
    return Write(ONE, 0, (attrs.evolve(plan_record(ONE, 2), **changes),))


POISON = {
    "half a character in the turn": unusual(turn_id="\ud800"),
    "half a character in the kind": unusual(kind="\ud800"),
    "half a character in the text": unusual(kind="user_text", body={"text": "\ud800"}),
    "a time that is none": unusual(at=math.nan),
    "a time without end": unusual(at=math.inf),
    "a time beyond all": unusual(at=10**30),
    "a time that is a text": unusual(at="x"),
    "a record of another session": unusual(session_id=TWO),
    "half a character in a key": next_write(ONE, 2, kept=receipt(ONE, "\ud800")),
    "a row's time beyond all": next_write(ONE, 2, row=row(updated_at=10**400)),
}


@pytest.mark.parametrize("poison", POISON.values(), ids=POISON.keys())
async def test_an_unstorable_write_is_refused_and_affects_no_other(
    store: Store, poison: Write
) -> None:
    await store.commit([creation_write(ONE), creation_write(TWO)])
    before = await store.read(ONE)

    answers = await store.commit([creation_write(THREE), poison, next_write(TWO, 2)])

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
async def test_unusual_but_valid_values_are_stored_unchanged(store: Store, value: Any) -> None:  # noqa: ANN401
    text = value if isinstance(value, str) else str(value)
    record = attrs.evolve(text_record(2, text), body={"text": text, "part": None, "value": value})

    assert (
        await store.commit([creation_write(), Write(ONE, 0, (record,)), creation_write(TWO)])
        == [None] * 3
    )
    assert await store.records(ONE, after=1) == [record]
