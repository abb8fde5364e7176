"""A store that release 0.1.0 wrote (schema version 5) opens, runs, exports and imports.

The supervisor that wrote it was killed: its full-text index is marked stale, and it has replies to
a create, an input and a spawn under idempotency keys.
"""

from __future__ import annotations

import contextlib
import sqlite3
from pathlib import Path
from typing import Any

import pytest

import supervisor
from supervisor import IdempotencyConflict, Supervisor
from supervisor.core.ids import SessionId
from supervisor.offline import open_for_reading
from supervisor.store.sqlite import schema
from supervisor.store.sqlite.files import open_reader
from supervisor.store.sqlite.read import stored_reply
from supervisor.store.sqlite.store import open_sqlite

FIXTURES = Path(__file__).parent / "fixtures"
DUMP = FIXTURES / "release_0_1_0.sql"
EXPORT = FIXTURES / "release_0_1_0.jsonl"
PARENT = SessionId("s_6miih7klc5w4_1")
CHILD = SessionId("s_6miih7klc5w4_11")
OTHER = SessionId("s_6miih7klc5w4_28")


@supervisor.agent("worker")
async def worker(turn: supervisor.Turn) -> None:
    await turn.say("done")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "state.db"
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.executescript(DUMP.read_text())
    return path


def rows(path: Path, sql: str) -> list[tuple[Any, ...]]:
    with contextlib.closing(sqlite3.connect(path)) as connection:
        return connection.execute(sql).fetchall()


async def test_the_store_of_release_0_1_0_is_migrated_after_a_copy(path: Path) -> None:
    async with open_sqlite(path):
        pass

    assert rows(path, "PRAGMA user_version") == [(schema.VERSION,)]
    assert rows(path.with_name("state.db.v5"), "PRAGMA user_version") == [(5,)]
    names = [name for (name,) in rows(path, "SELECT name FROM _sqlite_migrations ORDER BY id")]
    assert names == [f"version_{number}" for number in range(1, schema.VERSION + 1)]


async def test_0_1_0_replies_have_a_scope_and_an_owner(path: Path) -> None:
    async with open_sqlite(path):
        pass

    assert rows(path, "SELECT scope, owner, key FROM kept ORDER BY scope") == [
        ("create", "", "made-parent"),
        ("session", PARENT, "said-once"),
        ("spawn", PARENT, "spawned-once"),
    ]


async def test_the_stale_index_of_release_0_1_0_stays_marked(path: Path) -> None:
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
        schema.migrate(connection)

        assert connection.execute("SELECT * FROM meta").fetchall() == [("stale_index", "1")]


async def test_a_marked_index_is_optimized_by_the_next_supervisor(path: Path) -> None:
    async with supervisor.open(path, agents=[worker]):
        pass

    assert rows(path, "SELECT * FROM meta") == []


async def create_again(sup: Supervisor, **options: Any) -> supervisor.Session:  # noqa: ANN401
    return await sup.create(
        "worker",
        key="worker:mail:anna",
        name="parent",
        title="The parent",
        idempotency_key="made-parent",
        **options,
    )


async def test_requests_of_release_0_1_0_are_repeated_without_a_second_effect(path: Path) -> None:
    async with supervisor.open(path, agents=[worker]) as sup:
        parent = await create_again(sup, tags=["post"])
        result = await parent.prompt("How many lines?", idempotency_key="said-once")
        child = await parent.spawn(
            "echo",
            "hello from the parent",
            role="helper",
            lifetime="detached",
            idempotency_key="spawned-once",
        )

        assert (parent.id, child.id) == (PARENT, CHILD)
        assert result.text == "Three lines in café.txt"
        assert (await parent.info()).turns == 1
        with pytest.raises(IdempotencyConflict):
            await create_again(sup, tags=["other"])


async def test_sessions_of_release_0_1_0_are_listed_searched_and_continued(path: Path) -> None:
    async with supervisor.open(path, agents=[worker]) as sup:
        listed = {info.id: info.parent for info in (await sup.list()).items}
        assert listed == {PARENT: None, CHILD: PARENT, OTHER: None}
        assert {hit.session_id for hit in (await sup.search("ROSES")).items} == {OTHER}
        assert (await sup.search("zebra")).items == ()

        assert (await sup.session(PARENT).prompt("and now?")).text == "done"
        await sup.delete(OTHER)
        assert (await sup.search("roses")).items == ()


async def test_a_0_1_0_session_with_control_characters_stays_usable(path: Path) -> None:
    with contextlib.closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(
            "UPDATE sessions SET row = json_set(row, '$.name', 'a\nb', '$.workspace', '/x\ny',"
            " '$.key.peer', 'an\nna') WHERE id = ?",
            (PARENT,),
        )

    async with supervisor.open(path, agents=[worker]) as sup:
        info = await sup.session(PARENT).info()
        assert (info.name, info.workspace, str(info.key)) == ("a\nb", "/x\ny", "worker:mail:an\nna")
        assert (await sup.session(PARENT).prompt("and now?")).text == "done"
        assert (await (await sup.session(PARENT).fork()).info()).name == "a b"


async def test_a_deleted_owner_takes_its_replies_with_it(path: Path) -> None:
    async with open_sqlite(path) as store:
        await store.delete(PARENT)

    assert rows(path, "SELECT * FROM kept") == []


@pytest.mark.parametrize("form", ["markdown", "html", "jsonl"])
async def test_a_session_of_release_0_1_0_is_exported(path: Path, form: Any) -> None:  # noqa: ANN401
    async with supervisor.open(path, agents=[worker]) as sup:
        text = await sup.session(PARENT).export(form)

    assert "café.txt" in text


async def test_a_0_1_0_session_has_the_records_of_its_export(path: Path) -> None:
    async with open_for_reading(str(path)) as sup:
        text = await sup.session(PARENT).export("jsonl")

    released = EXPORT.read_text().splitlines()[1:]
    assert text.splitlines()[1 : 1 + len(released)] == released


async def test_an_export_of_release_0_1_0_is_imported() -> None:
    async with supervisor.open(agents=[worker]) as sup:
        session = await sup.import_(EXPORT)

        said = [message.text for message in await session.transcript()]
        assert said == ["How many lines?", "Three lines in café.txt"]


def test_a_0_1_0_file_opened_read_only_is_not_changed(path: Path) -> None:
    before = path.read_bytes()

    with contextlib.closing(open_reader(path)) as connection:
        reply = stored_reply(connection, f"{PARENT}/spawn", "spawned-once")
        made = stored_reply(connection, "create", "made-parent")
        stale = connection.execute("SELECT count(*) FROM kept").fetchone()

    assert reply is not None
    assert reply.answer == {"session_id": CHILD}
    assert made is not None
    assert made.answer == {"session_id": PARENT}
    assert stale == (3,)
    assert path.read_bytes() == before


def test_migrations_are_recorded_again_when_the_table_disagrees(path: Path) -> None:
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute(
            "CREATE TABLE _sqlite_migrations (id INTEGER PRIMARY KEY, migration_set TEXT,"
            " name TEXT, applied_at TEXT)"
        )
        connection.execute(
            "INSERT INTO _sqlite_migrations (migration_set, name)"
            " VALUES ('understudy', 'version_6')"
        )

        schema.migrate(connection)

        names = connection.execute("SELECT name FROM _sqlite_migrations ORDER BY id").fetchall()
    assert names == [(f"version_{number}",) for number in range(1, schema.VERSION + 1)]
