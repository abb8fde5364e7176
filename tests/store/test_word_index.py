"""The full-text index survives any number of merges, which wear it."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

import supervisor
from supervisor.store.port import Write
from supervisor.store.sqlite import bulk, word_index
from supervisor.store.sqlite.store import open_sqlite
from supervisor.store.sqlite.word_index import MAX_LEVELS, level_count
from supervisor.store.tokenizer import index_tokens, tokenize
from tests.support.store_samples import ONE, creation_write, text_record


@pytest.fixture
async def path(tmp_path: Path) -> Path:
    """Return a store with one session, in which one text is searched for."""
    file = tmp_path / "state.db"
    async with supervisor.open(file) as sup:
        await (await sup.create("echo")).prompt("needle")
    return file


@pytest.fixture
def connection(path: Path) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(path, isolation_level=None)) as opened:
        yield opened


def set_levels(connection: sqlite3.Connection, levels: int) -> None:
    """Give the index this many levels; all are empty, as after merges of an empty index."""
    number = bytes((0x80 | levels >> 7, levels & 0x7F))
    # Cookie, number of levels, no segment, no write; then two numbers for each level.
    structure = bytes(4) + number + bytes(2 + 2 * levels)
    connection.execute("UPDATE words_data SET block = ? WHERE id = 10", (structure,))


async def found(path: Path, text: str) -> int:
    async with supervisor.open(path) as sup:
        return len(await sup.search(text))


def merge_whole_index(connection: sqlite3.Connection) -> None:
    """Merge as after a deletion: a new token, then steps until none is needed."""
    connection.execute("INSERT INTO words (rowid, text) VALUES (1000, 'word')")
    connection.execute("INSERT INTO words (words, rowid, text) VALUES ('delete', 1000, 'word')")
    begin = True
    while bulk.optimize_index(connection, begin=begin):
        begin = False


@pytest.mark.parametrize("levels", [MAX_LEVELS, 2_000, 2_001, 5_000])
async def test_a_worn_index_is_rebuilt_when_the_store_is_opened(path: Path, levels: int) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as opened:
        set_levels(opened, levels)
        assert level_count(opened) == levels

    assert await found(path, "needle") > 0
    with closing(sqlite3.connect(path)) as opened:
        assert level_count(opened) < 10


async def test_an_index_below_the_limit_is_left_alone(path: Path) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as opened:
        set_levels(opened, MAX_LEVELS - 1)

    assert await found(path, "needle") == 0  # `set_levels` has emptied it


async def test_more_merges_than_the_index_has_levels_leave_it_readable(
    connection: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(word_index, "MAX_LEVELS", 20)
    most = 0
    for _ in range(60):
        merge_whole_index(connection)
        most = max(most, level_count(connection))

    assert most <= 21
    connection.execute("INSERT INTO words (words) VALUES ('integrity-check')")
    assert connection.execute("SELECT 1 FROM words WHERE words MATCH 'needle'").fetchall()


async def test_a_large_worn_index_is_neither_merged_nor_rebuilt_at_once(
    connection: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(word_index, "MAX_LEVELS", 0)
    monkeypatch.setattr(word_index, "MAX_RECORDS_AT_ONCE", 1)
    connection.execute("INSERT INTO meta (name, value) VALUES ('stale_index', '1')")
    before = level_count(connection)

    merge_whole_index(connection)
    bulk.optimize_whole_index(connection)

    assert level_count(connection) == before
    assert bulk.is_index_stale(connection)


async def test_the_index_splits_ascii_text_as_the_tokenizer_does(tmp_path: Path) -> None:
    texts = ["".join(map(chr, range(128))), *(f"Ab{chr(code)}cD 9_" for code in range(128))]
    async with open_sqlite(tmp_path / "state.db") as store:
        records = tuple(text_record(each, text) for each, text in enumerate(texts, 2))
        await store.commit([creation_write(), Write(ONE, 0, records)])
    with closing(sqlite3.connect(store.path)) as connection:
        connection.execute("CREATE VIRTUAL TABLE temp.vocab USING fts5vocab(main, words, instance)")
        rows = connection.execute("SELECT doc, offset, term FROM vocab").fetchall()

    assert sorted(rows) == sorted(
        (position, offset, word)
        for position, text in enumerate(texts, 2)
        for offset, word in enumerate(tokenize(text))
    )


async def test_the_words_of_a_deleted_ascii_text_leave_an_index_of_earlier_words(
    tmp_path: Path,
) -> None:
    """An index that an earlier version filled has the words of a text, joined by blanks."""
    text = "Red, GREEN; x_y\0blue!"
    async with open_sqlite(tmp_path / "state.db") as store:
        await store.commit([creation_write()])
    with closing(sqlite3.connect(store.path, isolation_level=None)) as connection:
        connection.execute(
            "INSERT INTO words (rowid, text) VALUES (9, ?)", (" ".join(tokenize(text)),)
        )
        connection.execute(
            "INSERT INTO words (words, rowid, text) VALUES ('delete', 9, ?)", (index_tokens(text),)
        )
        connection.execute("INSERT INTO words (words) VALUES ('optimize')")
        connection.execute("CREATE VIRTUAL TABLE temp.vocab USING fts5vocab(main, words, instance)")

        assert connection.execute("SELECT * FROM vocab").fetchall() == []
