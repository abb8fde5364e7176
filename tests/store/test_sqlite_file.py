"""The file of a store: names, modes, locks, and files that exist already."""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
import stat
from pathlib import Path
from typing import Any

import pytest
import trio

import supervisor
from supervisor import (
    ConfigError,
    Fenced,
    StoreDegraded,
    StoreTooNew,
    Supervisor,
    SupervisorError,
)
from supervisor.core.ids import SessionId
from supervisor.core.records import Record
from supervisor.store.list_filter import Filter
from supervisor.store.port import Write
from supervisor.store.sqlite import schema
from supervisor.store.sqlite.store import open_sqlite
from tests.support.database_files import use
from tests.support.store_samples import ONE, TWO, creation_write, next_write, receipt, row


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state.db"


def left_in(folder: Path) -> set[str]:
    return {one.name for one in folder.iterdir()}


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


# Names ----------------------------------------------------------------------------------


NAMES = [
    "a b.db",
    "q?mode=memory.db",
    "h#h.db",
    "p%41.db",
    "%00.db",
    "ü漢😀.db",
    "a&b=c.db",
    "new\nline.db",
    "a;b'\".db",
    "file:x.db",
    ":memory:x",
    "-wal",
]


@pytest.mark.parametrize("name", NAMES)
async def test_a_file_may_have_any_name(tmp_path: Path, name: str) -> None:
    made = await use(tmp_path / name)

    assert left_in(tmp_path) == {name, f"{name}.lock"}
    async with supervisor.open(str(tmp_path / name)) as sup:
        assert await sup.exists(made)


@pytest.mark.parametrize("ending", ["-journal", "-wal", "-shm"])
async def test_a_store_never_has_a_name_of_sqlite(tmp_path: Path, ending: str) -> None:
    with pytest.raises(ConfigError, match="SQLite gives a meaning"):
        await use(tmp_path / f"other.db{ending}")
    with pytest.raises(ConfigError, match="SQLite gives a meaning"):
        await supervisor.restore(tmp_path / "backup.db", tmp_path / f"other.db{ending}")

    assert left_in(tmp_path) == set()


async def test_a_file_name_that_is_not_text_works_or_is_refused(tmp_path: Path) -> None:
    with contextlib.suppress(ConfigError):
        await use(os.fsdecode(os.fsencode(tmp_path) + b"/st\xff.db"))


@pytest.mark.parametrize("name", [Path(":memory:"), "./:memory:"], ids=str)
async def test_only_the_exact_name_means_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str | Path
) -> None:
    monkeypatch.chdir(tmp_path)

    with contextlib.suppress(ConfigError):
        await use(name)
        assert ":memory:" in left_in(tmp_path)


async def test_leading_slashes_are_not_a_host(path: Path) -> None:
    await use(f"/{path}")

    assert left_in(path.parent) == {"state.db", "state.db.lock"}


async def test_a_relative_path_is_independent_of_later_directory_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    async with supervisor.open("state.db") as sup:
        session = await sup.create("echo")
        monkeypatch.chdir(tmp_path / "elsewhere")

        async with trio.open_nursery() as nursery:
            for _ in range(8):
                nursery.start_soon(sup.list)
        await session.prompt("hello")

    assert left_in(tmp_path / "elsewhere") == set()


async def test_the_home_directory_can_be_abbreviated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))

    await use("~/state.db")

    assert left_in(tmp_path) == {"state.db", "state.db.lock"}


NO_FILES = ["no/state.db", ".", "..", "/", "x" * 300, "folder", "folder/", "pipe", "/dev/null"]


@pytest.mark.parametrize("name", NO_FILES, ids=lambda name: name[:12])
async def test_a_path_that_cannot_be_a_file_is_refused_without_traces(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    monkeypatch.chdir(tmp_path)

    with pytest.raises(ConfigError) as refused:
        await use(name)

    assert refused.value.hint
    assert left_in(tmp_path) == {"folder", "pipe"}


# Modes ----------------------------------------------------------------------------------


async def test_only_the_owner_can_read_the_files(path: Path, tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        async with supervisor.open(path) as sup:
            await sup.create("echo")
            await sup.backup(tmp_path / "copy.db")
            found = {one.name: stat.S_IMODE(one.stat().st_mode) for one in tmp_path.iterdir()}  # noqa: ASYNC240 - a handful of names
    finally:
        os.umask(before)

    names = ("state.db", "state.db-wal", "state.db-shm", "state.db.lock", "copy.db")
    assert found == dict.fromkeys(names, 0o600)


async def test_a_closed_store_leaves_one_file_and_its_lock(path: Path, tmp_path: Path) -> None:
    await use(path)

    assert left_in(tmp_path) == {"state.db", "state.db.lock"}
    with contextlib.closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


# Existing files -------------------------------------------------------------------------


async def test_an_empty_file_is_not_a_new_store(path: Path) -> None:
    path.touch()  # noqa: ASYNC240 - one file

    with pytest.raises(StoreDegraded, match="it is empty"):
        await use(path)


def a_text(path: Path) -> None:
    path.write_text("dear diary, " * 1_000)


def a_short_text(path: Path) -> None:
    path.write_text("dear diary")


def a_foreign_database(path: Path) -> None:
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE sessions (id TEXT)")
        connection.execute("INSERT INTO sessions VALUES ('mine')")
        connection.commit()


def a_foreign_application_id(path: Path) -> None:
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA user_version = 7")


FOREIGN = [a_text, a_short_text, a_foreign_database, a_foreign_application_id]


@pytest.mark.parametrize("make", FOREIGN, ids=lambda make: make.__name__)
async def test_a_foreign_file_is_refused_and_not_changed(
    path: Path,
    tmp_path: Path,
    make: Any,  # noqa: ANN401 - a function from above
) -> None:
    make(path)
    before, open_before = path.read_bytes(), descriptors()  # noqa: ASYNC240 - small

    with pytest.raises(SupervisorError) as refused:
        await use(path)

    assert refused.value.hint
    assert path.read_bytes() == before  # noqa: ASYNC240 - small
    assert left_in(tmp_path) <= {"state.db", "state.db.lock"}
    assert descriptors() == open_before


async def test_a_newer_file_is_refused_and_not_changed(path: Path, tmp_path: Path) -> None:
    await use(path)
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA journal_mode = DELETE")
        connection.execute("PRAGMA user_version = 99")
    before = path.read_bytes()  # noqa: ASYNC240 - small

    with pytest.raises(StoreTooNew, match="99") as refused:
        await use(path)

    assert "version" in refused.value.hint
    assert path.read_bytes() == before  # noqa: ASYNC240 - small
    assert left_in(tmp_path) == {"state.db", "state.db.lock"}


@pytest.mark.parametrize("share", [0.02, 0.5, 0.9])
async def test_a_truncated_file_is_refused_with_a_hint(path: Path, share: float) -> None:
    await use(path)
    os.truncate(path, int(path.stat().st_size * share))  # noqa: ASYNC240 - small
    before = path.read_bytes()  # noqa: ASYNC240 - small

    with pytest.raises(SupervisorError) as refused:
        await use(path)

    assert "restore" in refused.value.hint
    assert path.read_bytes() == before  # noqa: ASYNC240 - small


async def test_garbage_in_the_lock_file_is_not_a_lock(path: Path) -> None:
    path.with_name("state.db.lock").write_bytes(b"\xff{")

    await use(path)


# Deleting -------------------------------------------------------------------------------


def all_of(path: Path) -> dict[str, list[Any]]:
    """Return every row of every table, also of the index."""
    with contextlib.closing(sqlite3.connect(path)) as connection:
        found = connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'").fetchall()
        return {name: connection.execute(f"SELECT * FROM [{name}]").fetchall() for (name,) in found}  # noqa: S608 - names of tables


def mentions(path: Path, *words: str) -> list[str]:
    return [
        name for name, rows in all_of(path).items() if any(word in repr(rows) for word in words)
    ]


async def test_no_table_mentions_a_deleted_session(path: Path) -> None:
    secrets = ("zebra", "okapi", "lemur", "xylophone")
    async with supervisor.open(path, settings=supervisor.Settings(snapshot_every=3)) as sup:
        kept = await sup.create("echo")
        await kept.prompt("something else")
        gone = await sup.create("echo", name="zebra", tags=["okapi"], idempotency_key="lemur")
        await gone.prompt("xylophone", idempotency_key="lemur")
        await sup.delete(gone.id)

        assert (await sup.search("xylophone")).items == ()
        # The full-text index is optimized later; until then it has no readable text.
        assert set(mentions(path, gone.id, *secrets)) <= {"words_data"}

    assert mentions(path, gone.id, *secrets) == []
    assert mentions(path, "something") != []


async def test_no_text_of_many_deleted_sessions_is_found(path: Path) -> None:
    async with open_sqlite(path) as store:
        names = [SessionId(f"s_{number}") for number in range(50)]
        for name in names:
            record = Record(name, 2, 2.0, None, "user_text", {"text": f"word{name} all"})
            await store.commit(
                [creation_write(name), Write(name, 0, (record,), None, receipt(name))]
            )
        for name in names[:-1]:
            await store.delete(name)

        assert [hit.session_id for hit in await store.search("all")] == [names[-1]]
        assert await store.search(f"word{names[0]}") == []

    assert {
        name: len(rows) for name, rows in all_of(path).items() if not name.startswith("words")
    } == {
        "sessions": 1,
        "records": 2,
        "kept": 1,
        "snapshots": 0,
        "processes": 0,
        "unfinished": 0,
        "meta": 0,
        "_sqlite_migrations": schema.VERSION,
        "sqlite_sequence": 2,
    }


# Reading --------------------------------------------------------------------------------


async def test_another_program_can_read_during_writes(path: Path) -> None:
    async with open_sqlite(path) as store:
        await store.commit([creation_write(ONE)])
        with contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as reader:
            await store.commit([creation_write(TWO), next_write(TWO, 2)])

            found = reader.execute("SELECT session_id, seq, kind, body FROM records").fetchall()

    assert [(whose, seq) for whose, seq, _, _ in found] == [(ONE, 1), (TWO, 1), (TWO, 2)]
    assert json.loads(found[0][3])["agent"] == "echo"


async def test_a_write_of_another_program_is_detected_by_the_next_write(path: Path) -> None:
    async with open_sqlite(path) as store:
        await store.commit([creation_write(ONE)])
        await store.commit([next_write(ONE, 2)])

        with contextlib.closing(sqlite3.connect(path)) as other, other:
            other.execute("UPDATE sessions SET epoch = 7")
        [refusal] = await store.commit([next_write(ONE, 3)])

        assert isinstance(refusal, Fenced)
        assert await store.commit([next_write(ONE, 3, epoch=7)]) == [None]


@pytest.mark.parametrize("at_once", [1, 2, 5])
async def test_a_session_is_found_by_its_current_name_only(path: Path, at_once: int) -> None:
    names = ("first", "second", "second", "first", "third")
    writes = [
        next_write(ONE, seq, row=row(ONE, title=name, tags=(name,)))
        for seq, name in enumerate(names, 2)
    ]
    async with open_sqlite(path) as store:
        await store.commit([creation_write(ONE)])
        for start in range(0, len(writes), at_once):
            batch = writes[start : start + at_once]
            await store.commit(batch)
            now = batch[-1].row
            for name in {*names, "nobody"}:
                for wanted in (Filter(text=name), Filter(tag=name)):
                    found = [one.row async for one in store.rows(matching=wanted)]

                    assert found == ([now] if now is not None and now.title == name else [])


async def test_committed_data_is_there_when_the_file_is_reopened(path: Path) -> None:
    async with open_sqlite(path) as store:
        await store.commit([creation_write(ONE), next_write(ONE, 2, kept=receipt())])
        [claimed] = await store.claim([ONE])

    async with open_sqlite(path) as store:
        assert await store.read(ONE) == claimed
        assert await store.stored_reply(ONE, "key") == receipt()
        assert await store.commit([next_write(ONE, 3, epoch=1)]) == [None]


async def test_stats_report_a_healthy_store(path: Path) -> None:
    async with supervisor.open(path) as sup:
        state = (await sup.stats()).store

    assert isinstance(sup, Supervisor)
    assert (state.degraded, state.problem, state.read_only) == (False, None, False)
