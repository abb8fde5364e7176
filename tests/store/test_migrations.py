"""Older files become newer ones: a copy first, each step wholly or not at all, and never back."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from sqlite_utils import Database

import supervisor
from supervisor import NameTaken, StoreDegraded, StoreTooNew
from supervisor.core.fold import replay
from supervisor.core.ids import InputId, SessionId, SessionKey, TurnId
from supervisor.core.limits import Limits, Lineage
from supervisor.core.state import (
    Agent,
    Capabilities,
    PendingInput,
    Phase,
    SessionState,
    Spending,
    TreeState,
)
from supervisor.store.port import Write
from supervisor.store.sqlite import migrations, schema
from supervisor.store.sqlite.store import open_sqlite
from tests.store.fixtures.make import SESSIONS, dump, fill, fixture_of, load
from tests.support.disk.faults import failing_disk
from tests.support.store_samples import differences

Step: TypeAlias = migrations.Migration
LIVED, ASKED, GONE = SESSIONS
UP = SessionId("s_up")
STEPS, TODAY = migrations.MIGRATIONS, schema.VERSION
RELEASED = range(1, TODAY + 1)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A file that a program of the first version has left."""
    path = tmp_path / "state.db"
    load(1, path)
    return path


def version(path: Path) -> int:
    with contextlib.closing(sqlite3.connect(path)) as connection:
        return schema.version_of(connection)


def columns(path: Path) -> list[str]:
    with contextlib.closing(sqlite3.connect(path)) as connection:
        return [row[1] for row in connection.execute("PRAGMA table_info(sessions)")]


def add_colour(db: Database) -> None:
    db.execute("ALTER TABLE sessions ADD COLUMN colour TEXT")


def add_shape(db: Database) -> None:
    db.execute("ALTER TABLE sessions ADD COLUMN shape TEXT")


def break_down(db: Database) -> None:
    db.execute("DELETE FROM sessions")
    db.execute("ALTER TABLE sessions ADD COLUMN half TEXT")
    raise RuntimeError("the step is wrong")


@pytest.fixture
def later(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Make this the program of a later version, with these steps after today's."""

    def become(*steps: Step) -> None:
        monkeypatch.setattr(schema, "MIGRATIONS", (*STEPS, *steps))
        monkeypatch.setattr(schema, "VERSION", TODAY + len(steps))

    return become


# What was released -----------------------------------------------------------------------


@pytest.mark.parametrize("number", RELEASED)
async def test_a_file_of_every_version_is_read(tmp_path: Path, number: int) -> None:
    load(number, tmp_path / "old.db")

    async with open_sqlite(tmp_path / "old.db") as store:
        stored = [one async for one in store.rows()]
        assert [one.row.id for one in stored] == [LIVED, ASKED]
        assert [one.epoch for one in stored] == [0, 1]
        records = await store.records(LIVED)
        assert differences(replay(records), stored[0].row) == []
        assert [one.seq for one in records] == list(range(1, stored[0].last_seq + 1))
        assert await store.stored_reply(ASKED, "key") is not None
        assert await store.stored_reply(GONE, "key") is None
        assert await store.snapshot(LIVED, at=len(records)) is not None
        assert [hit.session_id for hit in await store.search("grusse москва")] == [ASKED]
        assert [one.pid for one in await store.processes()] == [17]


@pytest.mark.parametrize("number", RELEASED)
async def test_a_supervisor_continues_a_file_of_every_version(tmp_path: Path, number: int) -> None:
    load(number, tmp_path / "old.db")

    async with supervisor.open(tmp_path / "old.db") as sup:
        assert {info.id for info in (await sup.list()).items} >= {LIVED, ASKED}
        session = await sup.create("echo")
        await session.prompt("hello")
        await sup.delete(ASKED)
        assert (await sup.search("Москва")).items == ()


async def test_migrations_make_the_released_schema(tmp_path: Path) -> None:
    async with open_sqlite(tmp_path / "new.db"):
        pass
    load(schema.VERSION, tmp_path / "old.db")

    assert shape(tmp_path / "new.db") == shape(tmp_path / "old.db")


def shape(path: Path) -> list[tuple[str, str]]:
    with contextlib.closing(sqlite3.connect(path)) as connection:
        found = connection.execute("SELECT name, sql FROM sqlite_schema WHERE sql IS NOT NULL")
        return sorted((name, " ".join(sql.split())) for name, sql in found)


async def test_the_fixture_of_this_version_can_be_regenerated(tmp_path: Path) -> None:
    await fill(tmp_path / "one.db")
    await fill(tmp_path / "two.db")

    assert dump(tmp_path / "one.db") == dump(tmp_path / "two.db")
    assert all(fixture_of(number).exists() for number in RELEASED)


async def test_inputs_of_a_file_of_the_first_version_are_found(path: Path) -> None:
    async with open_sqlite(path) as store:
        records = await store.records(LIVED)
        accepted = [one.body["input_id"] for one in records if one.kind == "input_accepted"]
        fates = [await store.records_of_input(LIVED, input_id) for input_id in accepted]

    assert len(accepted) == 3
    assert [fate[0].body["input_id"] for fate in fates] == accepted
    assert version(path) == schema.VERSION
    assert version(path.with_name("state.db.v1")) == 1


async def test_a_damaged_record_does_not_prevent_a_migration(path: Path) -> None:
    with contextlib.closing(sqlite3.connect(path)) as connection, connection:
        damaged = "UPDATE records SET body = '{\"input_id' WHERE kind = 'input_accepted'"
        assert connection.execute(damaged).rowcount == 3

    async with open_sqlite(path) as store:
        assert [one.row.id async for one in store.rows()] == [LIVED, ASKED]

    assert version(path) == schema.VERSION


async def test_a_migration_without_room_for_its_copy_succeeds_later(path: Path) -> None:
    with failing_disk() as disk:
        disk.fill(room_bytes=8_192)
        with pytest.raises(StoreDegraded, match="the disk is full") as refused:
            async with open_sqlite(path):
                pass
        assert refused.value.is_disk_full
        assert version(path) == 1
        disk.heal()

        async with open_sqlite(path):
            pass

    assert version(path) == schema.VERSION
    assert version(path.with_name("state.db.v1")) == 1


# A later step ----------------------------------------------------------------------------


async def test_a_migration_makes_a_backup_first(path: Path, later: Callable[..., None]) -> None:
    later(add_colour, add_shape)

    async with open_sqlite(path) as store:
        assert [one.row.id async for one in store.rows()] == [LIVED, ASKED]

    assert version(path) == TODAY + 2
    assert columns(path)[-2:] == ["colour", "shape"]
    copy = path.with_name("state.db.v1")
    assert version(copy) == 1
    assert "colour" not in columns(copy)
    assert copy.stat().st_mode & 0o777 == 0o600


async def test_the_copy_is_a_store_of_the_earlier_program(
    path: Path, later: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context():
        later(add_colour)
        async with open_sqlite(path):
            pass
    monkeypatch.undo()

    async with open_sqlite(path.with_name("state.db.v1")) as store:
        assert [one.row.id async for one in store.rows()] == [LIVED, ASKED]


async def test_a_new_file_needs_no_copy(tmp_path: Path, later: Callable[..., None]) -> None:
    later(add_colour)

    async with open_sqlite(tmp_path / "new.db"):
        pass

    assert version(tmp_path / "new.db") == TODAY + 1
    assert {one.name for one in tmp_path.iterdir()} == {"new.db", "new.db.lock"}  # noqa: ASYNC240


async def test_a_file_that_is_new_enough_is_not_copied(tmp_path: Path) -> None:
    load(TODAY, tmp_path / "state.db")

    async with open_sqlite(tmp_path / "state.db"):
        pass

    assert {one.name for one in tmp_path.iterdir()} == {"state.db", "state.db.lock"}  # noqa: ASYNC240


async def test_a_failed_migration_step_leaves_the_file_unchanged(
    path: Path, later: Callable[..., None]
) -> None:
    later(break_down)

    with pytest.raises(RuntimeError, match="the step is wrong"):
        async with open_sqlite(path):
            pass

    assert version(path) == TODAY
    assert "half" not in columns(path)
    assert version(path.with_name("state.db.v1")) == 1


async def test_a_migration_that_failed_half_way_can_be_repeated(
    path: Path, later: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    later(add_colour, break_down)
    with pytest.raises(RuntimeError):
        async with open_sqlite(path):
            pass
    assert version(path) == TODAY + 1

    monkeypatch.undo()
    later(add_colour, add_shape)
    async with open_sqlite(path) as store:
        assert [one.row.id async for one in store.rows()] == [LIVED, ASKED]

    assert columns(path)[-2:] == ["colour", "shape"]
    assert version(path.with_name("state.db.v1")) == 1


async def test_an_existing_backup_is_not_overwritten(
    path: Path, later: Callable[..., None]
) -> None:
    copy = path.with_name("state.db.v1")
    copy.write_text("precious")
    later(add_colour)

    async with open_sqlite(path):
        pass

    assert copy.read_text() == "precious"


async def test_without_a_copy_no_step_is_taken(
    path: Path, later: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    later(add_colour)
    monkeypatch.setattr("supervisor.store.sqlite.backup.copy", fail)

    with pytest.raises((OSError, supervisor.SupervisorError)):
        async with open_sqlite(path):
            pass

    assert version(path) == 1


# Never back ------------------------------------------------------------------------------


async def test_an_earlier_version_refuses_a_later_file(
    path: Path, later: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    later(add_colour)
    async with open_sqlite(path):
        pass
    monkeypatch.undo()
    before = path.read_bytes()  # noqa: ASYNC240 - small

    with pytest.raises(
        StoreTooNew, match=f"version {TODAY + 1}, this program knows {TODAY}"
    ) as refused:
        async with supervisor.open(path):
            pass

    assert refused.value.hint
    assert path.read_bytes() == before  # noqa: ASYNC240 - small


# Rows that a start need not read --------------------------------------------------------------


UP = SessionId("s_up")
KEYS = (None, SessionKey("a:b", "c%d", "é", "\x00"), SessionKey("a", "b", "c"))


def rows_of_all_kinds() -> list[SessionState]:
    """Rows that a start has to read, each for one reason, and others."""
    spent = Spending(turns=1)
    waiting = PendingInput(InputId("in_1"), 1, "hello", "queue", "user", 1.0, generation=0)
    changes: list[dict[str, Any]] = [
        {},
        {"archived": True},
        {"name": "x", "limits": Limits(max_children=1)},
        {"name": "y", "stop_reason": "start_failed"},
        {"name": "z", "stop_reason": "start_failed", "turns": 1},
        {"name": "é\0", "lineage": Lineage(parent=UP, root=UP, depth=1, above=(UP,))},
        {"family": TreeState(deleted=spent, deleted_spawns=1)},
        {"family": TreeState(open_children=1)},
        {"limits": Limits(turns=1)},
        {"limits": Limits(tokens=1)},
        {"limits": Limits(cost=0.0)},
        {"limits": Limits(wall_seconds=1.0)},
        {"inputs": (waiting,)},
        {"agent": Agent(Capabilities())},
        {"zombie": TurnId("turn_1")},
        {"lineage": Lineage(expires_at=5.0)},
        {"lineage": Lineage(parent=UP, root=UP, depth=1, above=(UP,))},
    ]
    rows = (
        SessionState(id=SessionId(""), agent_name="echo", phase=phase, key=key, **change)
        for change in changes
        for phase in Phase
        for key in KEYS
    )
    return [
        row.changed(id=f"s_{number}", name=row.name and f"{row.name}{number}")
        for number, row in enumerate(rows)
    ]


def noted(path: Path) -> list[tuple[Any, ...]]:
    with contextlib.closing(sqlite3.connect(path)) as connection:
        columns = "number, resting, key, name, name_scope"
        return connection.execute(f"SELECT {columns} FROM sessions").fetchall()  # noqa: S608


async def test_a_migration_derives_missing_columns_from_the_rows(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    rows = rows_of_all_kinds()
    async with open_sqlite(path) as store:
        assert not any(await store.commit([Write(row.id, 0, (), row) for row in rows]))
    written = noted(path)
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("UPDATE sessions SET row = substr(row, 2) WHERE number = 1")
        drop_names(connection)
        connection.execute("ALTER TABLE sessions DROP COLUMN resting")
        connection.execute("ALTER TABLE sessions DROP COLUMN key")
        connection.execute("DROP INDEX records_of_inputs")
        connection.execute("DROP TABLE unfinished")
        connection.execute("DROP TABLE meta")
        connection.execute("DROP TABLE kept")
        connection.execute("CREATE TABLE kept (scope, key, session_id, fingerprint, answer)")
        connection.execute("PRAGMA user_version = 1")
        connection.commit()

    async with open_sqlite(path):
        pass

    assert noted(path)[1:] == written[1:]
    assert noted(path)[0] == (1, 0, None, None, "")  # which cannot be read
    assert {resting for _, resting, *_ in written} == {0, 1}


def drop_names(connection: sqlite3.Connection) -> None:
    connection.execute("DROP INDEX sessions_by_name")
    connection.execute("DROP INDEX records_of_turns")
    connection.execute("ALTER TABLE sessions DROP COLUMN name")
    connection.execute("ALTER TABLE sessions DROP COLUMN name_scope")


async def test_names_doubled_in_an_old_file_stay_and_are_refused_to_others(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    async with supervisor.open(path) as sup:
        first, second = [await sup.create("echo", name=name) for name in ("same", "other")]
    with contextlib.closing(sqlite3.connect(path)) as connection, connection:
        drop_names(connection)
        connection.execute("UPDATE sessions SET row = json_set(row, '$.name', 'same')")
        connection.execute("PRAGMA user_version = 6")

    async with supervisor.open(path) as sup:
        for session in (first, second):
            await sup.session(session.id).set(title="still writable")
            with pytest.raises(NameTaken):
                await sup.create("echo", name="same")
            await sup.delete(session.id)
        assert (await (await sup.create("echo", name="same")).info()).name == "same"


# Words -----------------------------------------------------------------------------------


async def test_the_index_of_an_older_file_knows_the_words_of_today(tmp_path: Path) -> None:
    path = tmp_path / "old.db"
    load(4, path)
    said = '{"text":"re\u0301sume\u0301","part":null}'
    with contextlib.closing(sqlite3.connect(path)) as connection, connection:
        change = "UPDATE records SET body = ? WHERE kind = 'user_text' AND session_id = ?"
        assert connection.execute(change, (said, ASKED)).rowcount == 1
        assert connection.execute(change, (b"\xff", LIVED)).rowcount > 0

    async with open_sqlite(path) as store:
        assert [hit.session_id for hit in await store.search("resume")] == [ASKED]
        assert await store.search("москва") == []
        await store.delete(ASKED)
        assert await store.search("résumé") == []
