"""The contract of every store: reading, snapshots, search, sizes and processes."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

import attrs
import pytest
import trio

from supervisor.core.creation import SessionSpec
from supervisor.core.errors import ConfigError
from supervisor.core.ids import CallId, SessionId, SessionKey, TurnId
from supervisor.core.records import Record
from supervisor.core.state import SessionState
from supervisor.store.codec import decode
from supervisor.store.list_filter import Filter
from supervisor.store.port import ProcessEntry, Store, Write
from tests.support.store_samples import (
    ONE,
    THREE,
    TWO,
    UNKNOWN,
    claim,
    creation_write,
    next_write,
    numbers_of,
    plan_record,
    receipt,
    row,
    rows_of,
    text_record,
    visible_data_of,
)

# Reading ---------------------------------------------------------------------------------

PAGES = [(after, limit) for after in (0, 2, 5, 1_000_000) for limit in (None, 0, 1, 5, 1_000_000)]
with_pages = pytest.mark.parametrize(("after", "limit"), PAGES)


@with_pages
async def test_records_are_read_from_any_number_on(
    store: Store, after: int, limit: int | None
) -> None:
    await store.commit(
        [
            creation_write(ONE),
            creation_write(TWO),
            next_write(ONE, 2, 3),
            next_write(TWO, 2),
            next_write(ONE, 4, 5),
        ]
    )

    found = [record.seq for record in await store.records(ONE, after=after, limit=limit)]

    assert found == [1, 2, 3, 4, 5][after:][:limit]


@with_pages
async def test_all_records_are_read_from_any_position_on(
    store: Store, after: int, limit: int | None
) -> None:
    await store.commit([creation_write(ONE), creation_write(TWO), next_write(ONE, 2)])
    await store.commit([next_write(TWO, 2), next_write(ONE, 3)])

    found = await store.all_records(after=after, limit=limit)

    whole = [(1, ONE, 1), (2, TWO, 1), (3, ONE, 2), (4, TWO, 2), (5, ONE, 3)]
    assert [(at, record.session_id, record.seq) for at, record in found] == whole[after:][:limit]


async def test_a_refused_write_uses_no_position(store: Store) -> None:
    await store.commit([creation_write(ONE), next_write(ONE, 3), creation_write(TWO)])

    found = await store.all_records()

    assert [record.session_id for _, record in found] == [ONE, TWO]
    assert sorted({position for position, _ in found}) == [position for position, _ in found]


async def test_rows_come_in_creation_order(store: Store) -> None:
    await store.commit([creation_write(TWO), creation_write(ONE)])
    await store.commit(
        [creation_write(THREE), next_write(TWO, 2, row=row(TWO, title="changed last"))]
    )

    rows = await rows_of(store)

    assert [stored.row.id for stored in rows] == [TWO, ONE, THREE]
    assert [stored.number for stored in rows] == [1, 2, 3]
    for stored in rows:
        assert await store.read(stored.row.id) == stored


@pytest.mark.parametrize("after", range(6))
async def test_rows_continue_after_any_number_in_spite_of_deletions(
    store: Store, after: int
) -> None:
    names = [SessionId(f"s_{number}") for number in range(1, 6)]
    await store.commit([creation_write(name) for name in names])
    await store.delete(names[1])

    found = [stored.number for stored in await rows_of(store, after=after)]

    assert found == [number for number in (1, 3, 4, 5) if number > after]


async def test_rows_that_change_during_a_read_are_each_read_once(store: Store) -> None:
    names = [SessionId(f"s_{number:03}") for number in range(250)]
    await store.commit([creation_write(name) for name in names])

    found: list[SessionId] = []
    async for stored in store.rows():
        found.append(stored.row.id)
        if len(found) == 5:
            await store.commit([next_write(names[0], row=row(names[0])), next_write(names[200], 2)])
            await store.commit([creation_write(ONE)])

    assert found[:250] == names
    assert found[250:] in ([], [ONE])


async def test_rows_deleted_during_a_read_do_not_disturb_it(store: Store) -> None:
    names = [SessionId(f"s_{number:03}") for number in range(250)]
    await store.commit([creation_write(name) for name in names])

    found: list[SessionId] = []
    async for stored in store.rows():
        found.append(stored.row.id)
        if len(found) == 5:
            await store.delete(names[1])
            await store.delete(names[249])

    assert found[:249] == names[:249]


async def test_reading_many_rows_yields_to_other_tasks(store: Store, nursery: trio.Nursery) -> None:
    await store.commit([creation_write(SessionId(f"s_{number}")) for number in range(1_000)])
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
    await store.commit([creation_write(), next_write(ONE, 2)])
    first = await visible_data_of(store), await store.read(ONE), await store.records(ONE)

    second = await visible_data_of(store), await store.read(ONE), await store.records(ONE)

    assert first == second


async def test_a_cancelled_commit_is_stored_as_a_whole_or_not_at_all(store: Store) -> None:
    with trio.CancelScope() as scope:
        scope.cancel()
        await store.commit(
            [creation_write(ONE).changed(linked_write=creation_write(TWO), stored_reply=receipt())]
        )

    there = [stored.row.id for stored in await rows_of(store)]
    records = [record.session_id for _, record in await store.all_records()]
    assert there == records
    assert (there, await store.stored_reply(ONE, "key")) in (([], None), ([ONE, TWO], receipt()))


# Turns, kinds and raw data ---------------------------------------------------------------


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
async def test_the_records_of_one_turn_can_be_read(
    store: Store, turn: str, after: int, limit: int | None, numbers: list[int]
) -> None:
    await store.commit([creation_write(), Write(ONE, 0, TURNS)])

    found = await store.records(ONE, turn=TurnId(turn), after=after, limit=limit)

    assert [record.seq for record in found] == numbers


async def test_a_store_says_which_turns_and_calls_a_session_had(store: Store) -> None:
    call = in_turn(2, "a", "tool_call", call_id="call_1")
    await store.commit([creation_write(), creation_write(TWO), Write(ONE, 0, (call,))])
    known, other = CallId("call_1"), CallId("a")

    assert await store.ran(ONE, TurnId("a"), None)
    assert await store.ran(ONE, TurnId("a"), known)
    assert await store.ran(ONE, None, known)
    assert not await store.ran(ONE, TurnId("call_1"), None)
    assert not await store.ran(ONE, TurnId("b"), known)
    assert not await store.ran(ONE, None, other)
    assert not await store.ran(TWO, TurnId("a"), None)


async def test_records_of_kinds_are_ordered_by_session(store: Store) -> None:
    news = in_turn(2, None, "child_ended"), in_turn(3, None, "child_started")
    other = attrs.evolve(news[0], session_id=TWO)
    await store.commit(
        [creation_write(TWO), creation_write(ONE), Write(TWO, 0, (other,)), Write(ONE, 0, news)]
    )

    found = await store.records_of_kinds(["child_started", "child_ended"])

    assert [(one.session_id, one.seq) for one in found] == [(ONE, 2), (ONE, 3), (TWO, 2)]
    assert found[:2] == list(news)


@pytest.mark.parametrize("kinds", [[], ["nonsense"], ["plan'; DROP TABLE records; --"]], ids=str)
async def test_records_of_unused_kinds_are_empty(store: Store, kinds: list[str]) -> None:
    await store.commit([creation_write(), next_write(ONE, 2)])

    assert await store.records_of_kinds(kinds) == []
    assert await numbers_of(store) == [1, 2]


async def test_raw_records_are_undecoded(store: Store) -> None:
    await store.commit(
        [creation_write(ONE), creation_write(TWO), Write(ONE, 0, (in_turn(2, "t", text="é\0"),))]
    )

    raw = await store.raw_records(ONE)

    assert [(one.position, one.seq) for one in raw] == [(1, 1), (3, 2)]
    last = raw[1]
    assert (last.session_id, last.at, last.turn_id, last.kind) == (ONE, 2.0, "t", "plan")
    assert json.loads(last.body) == {"text": "é\0"}
    assert await store.raw_records(UNKNOWN) == []


async def test_a_raw_row_is_undecoded(store: Store) -> None:
    key = SessionKey("echo", "here", "me")
    await store.commit(
        [creation_write(ONE, SessionSpec(agent="echo", key=key)), creation_write(TWO)]
    )
    stored = await claim(store, ONE)

    raw = await store.raw_row(ONE)

    assert stored is not None
    assert raw is not None
    assert (raw.session_id, raw.epoch, raw.key, raw.root) == (ONE, 1, str(key), ONE)
    assert decode(raw.row, SessionState) == stored.row
    await store.commit([Write(ONE, 1, (), stored.row.changed(archived=True))])
    archived = await store.raw_row(ONE)
    assert archived is not None
    assert archived.key is None
    assert await store.raw_row(UNKNOWN) is None


async def test_a_committed_session_is_not_damaged(store: Store) -> None:
    await store.commit([creation_write(ONE), creation_write(TWO)])

    assert await store.damaged() == []
    assert await store.damaged(known_readable={ONE}) == []


# Snapshots -------------------------------------------------------------------------------


async def test_a_snapshot_is_stored_when_the_records_pass_a_multiple(store: Store) -> None:
    await store.commit([creation_write(), next_write(ONE, *range(2, 200), row=row(title="before"))])
    assert await store.snapshot(ONE, at=199) is None

    await store.commit([next_write(ONE, *range(200, 206), row=row(title="there"))])
    await store.commit([next_write(ONE, *range(206, 399), row=row(title="after"))])

    assert await store.snapshot(ONE, at=204) is None
    assert await store.snapshot(ONE, at=205) == (205, row(title="there"))
    assert await store.snapshot(ONE, at=2**62) == (205, row(title="there"))


async def test_a_snapshot_is_deleted_with_its_session(store: Store) -> None:
    await store.commit([creation_write(), next_write(ONE, *range(2, 201), row=row())])

    await store.delete(ONE)
    await store.commit([creation_write()])

    assert await store.snapshot(ONE, at=1_000) is None


async def test_records_without_a_row_store_no_snapshot(store: Store) -> None:
    await store.commit([creation_write(), next_write(ONE, *range(2, 202))])

    assert await store.snapshot(ONE, at=1_000) is None


# Filters ---------------------------------------------------------------------------------


async def test_only_matching_rows_are_returned(store: Store) -> None:
    names = [SessionId(f"s_{number:03}") for number in range(450)]
    writes = [
        Write(name, 0, (), row(name, archived=not place % 3)) for place, name in enumerate(names)
    ]
    await store.commit(writes)

    wanted = Filter(archived=True)
    found = [stored async for stored in store.rows(after=10, matching=wanted)]

    assert [stored.row.id for stored in found] == [
        name for place, name in enumerate(names) if place >= 10 and not place % 3
    ]


# Search ----------------------------------------------------------------------------------


async def test_a_search_returns_texts_with_all_words_latest_first(store: Store) -> None:
    lines = (
        text_record(2, "red green"),
        text_record(3, "green blue"),
        text_record(4, "GREEN, red!"),
    )
    await store.commit([creation_write(), Write(ONE, 0, lines)])

    found = await store.search("green Red")

    assert [(hit.position, hit.seq, hit.kind) for hit in found] == [
        (4, 4, "user_text"),
        (2, 2, "user_text"),
    ]
    assert found[0].snippet == "[GREEN], [red]!"


async def test_a_search_can_be_limited_to_a_session_and_paged(store: Store) -> None:
    await store.commit([creation_write(ONE), creation_write(TWO)])
    for seq in range(2, 6):
        await store.commit([Write(ONE, 0, (text_record(seq, "here"),))])
        await store.commit([Write(TWO, 0, (text_record(seq, "here", TWO),))])

    first = await store.search("here", session_id=ONE, limit=3)
    rest = await store.search("here", session_id=ONE, limit=3, before=first[-1].position)

    assert [(hit.session_id, hit.seq) for hit in (*first, *rest)] == [
        (ONE, 5),
        (ONE, 4),
        (ONE, 3),
        (ONE, 2),
    ]


@pytest.mark.parametrize("kind", ["thought", "tool_call", "input_accepted"])
async def test_only_texts_of_users_and_agents_are_found(store: Store, kind: Any) -> None:  # noqa: ANN401
    await store.commit([creation_write(), Write(ONE, 0, (in_turn(2, None, kind, text="here"),))])

    assert await store.search("here") == []


async def test_deleted_text_is_not_found(store: Store) -> None:
    await store.commit([creation_write(ONE), creation_write(TWO)])
    await store.commit(
        [Write(ONE, 0, (text_record(2, "here"),)), Write(TWO, 0, (text_record(2, "here", TWO),))]
    )

    await store.delete(ONE)

    assert [hit.session_id for hit in await store.search("here")] == [TWO]


async def test_refused_text_is_not_found(store: Store) -> None:
    await store.commit([creation_write()])

    await store.commit([Write(ONE, 0, (text_record(2, "here"), text_record(4, "here")))])

    assert await store.search("here") == []


# Sizes, copies, processes ----------------------------------------------------------------


async def test_sizes_are_in_bytes(store: Store) -> None:
    await store.commit(
        [creation_write(ONE), creation_write(TWO), next_write(ONE, 2), next_write(TWO, 2)]
    )
    before = await store.sizes()

    await store.commit([Write(ONE, 0, (plan_record(ONE, 3, {"text": "漢" * 1_000}),))])

    after = await store.sizes()
    assert 3_000 <= after[ONE] - before[ONE] < 3_200
    assert after[TWO] == before[TWO] > 0


async def test_a_deleted_session_has_no_size(store: Store) -> None:
    await store.commit([creation_write(ONE), creation_write(TWO)])

    await store.delete(ONE)

    assert set(await store.sizes()) == {TWO}


async def test_a_backup_is_made_or_refused_and_changes_nothing(
    store: Store, tmp_path: Path
) -> None:
    await store.commit([creation_write(), next_write(ONE, 2)])
    before = await visible_data_of(store)

    with contextlib.suppress(ConfigError):  # a store in memory cannot be copied
        assert await store.backup(tmp_path / "copy.db") > 0
    with pytest.raises(ConfigError):
        await store.backup(tmp_path)

    assert await visible_data_of(store) == before


BASH = ProcessEntry(ONE, 17, 5_000, "boot-1")


async def test_a_process_is_listed_until_it_is_forgotten(store: Store) -> None:
    other = attrs.evolve(BASH, start_time=6_000, session_id=TWO)
    await store.record_process(BASH)
    await store.record_process(other)

    assert sorted(await store.processes(), key=lambda one: one.start_time) == [BASH, other]
    await store.forget_process(BASH)

    assert await store.processes() == [other]


async def test_recording_twice_and_forgetting_an_unknown_process_succeed(store: Store) -> None:
    await store.forget_process(BASH)
    await store.record_process(BASH)
    await store.record_process(BASH)

    assert await store.processes() == [BASH]


async def test_a_process_recorded_for_another_session_changes_its_owner(store: Store) -> None:
    await store.record_process(BASH)

    await store.record_process(attrs.evolve(BASH, session_id=TWO))

    assert await store.processes() == [attrs.evolve(BASH, session_id=TWO)]


async def test_a_probe_changes_nothing(store: Store) -> None:
    await store.commit([creation_write(), next_write(ONE, 2)])
    before = await visible_data_of(store)

    await store.probe()

    assert await visible_data_of(store) == before
