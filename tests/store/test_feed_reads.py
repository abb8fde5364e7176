"""The contract of every store: reads for feeds over some sessions."""

from __future__ import annotations

import pytest

from supervisor.core.records import Record
from supervisor.store.port import Store, Write
from tests.support.store_samples import ONE, THREE, TWO, UNKNOWN, creation_write, next_write


async def test_records_of_some_sessions_come_in_commit_order_with_positions(store: Store) -> None:
    await store.commit([creation_write(one) for one in (ONE, TWO, THREE)])
    for seq in (2, 3, 4):
        await store.commit([next_write(one, seq) for one in (THREE, TWO, ONE)])
    everything = await store.all_records()

    found = await store.records_by_position({ONE: 1, TWO: 3}, limit=3)

    wanted = [
        (at, record)
        for at, record in everything
        if record.seq > {ONE: 1, TWO: 3}.get(record.session_id, 9)
    ]
    assert found == wanted[:3]


@pytest.mark.parametrize("position", [0, 1, 2, 5, 7, 1_000_000])
async def test_the_number_at_a_position_is_that_of_the_last_record(
    store: Store, position: int
) -> None:
    await store.commit([creation_write(ONE), creation_write(TWO)])
    for seq in (2, 3):
        await store.commit([next_write(TWO, seq), next_write(ONE, seq)])
    before = [record for at, record in await store.all_records() if at <= position]

    assert await store.numbers_at(position, [ONE, TWO, UNKNOWN]) == {
        one: sum(record.session_id == one for record in before) for one in (ONE, TWO, UNKNOWN)
    }


async def test_the_latest_text_is_the_end_of_the_last_message(store: Store) -> None:
    await store.commit([creation_write(ONE), creation_write(TWO)])
    said = [("first", False), ("sec", False), ("ond", True), ("\n", False)]
    records = [
        Record(ONE, seq, 2.0, None, "agent_text", {"text": text, "continues": continues})
        for seq, (text, continues) in enumerate(said, start=2)
    ]
    await store.commit([Write(ONE, 0, tuple(records))])

    found = await store.latest_texts([ONE, TWO, UNKNOWN])

    assert found.keys() == {ONE}
    assert found[ONE].strip().split("\n")[-1] == "second"
