"""`understudy export --format sqlite`: one session, a tree or all of them, as a database."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import stat
from pathlib import Path
from typing import Any

import pytest
from sqlite_utils import Database

from supervisor import Session, SessionNotFound
from supervisor.store.export import sqlite_export
from tests.cli.conftest import Kept
from tests.support.cli_runner import Caller


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return tmp_path / "out.db"


def rows(path: Path, sql: str) -> list[tuple[Any, ...]]:
    with contextlib.closing(sqlite3.connect(path)) as connection:
        return connection.execute(sql).fetchall()


def export(call: Caller, kept: Kept, target: Path, *arguments: object) -> None:
    done = call("export", *arguments, "--format", "sqlite", "-o", target, "--state", kept.path)
    assert done.code == 0, done.err


def test_all_sessions_are_exported(call: Caller, kept: Kept, target: Path) -> None:
    export(call, kept, target, "--all")

    assert rows(target, "SELECT id FROM sessions ORDER BY created_at") == [
        (kept.anna,),
        (kept.parent,),
        (kept.child,),
        (kept.over,),
    ]
    assert rows(target, "PRAGMA foreign_key_check") == []
    assert rows(target, "PRAGMA integrity_check") == [("ok",)]
    assert stat.S_IMODE(target.stat().st_mode) == 0o600
    assert not list(target.parent.glob("*unfinished*"))


def test_one_session_is_exported_without_a_link_to_its_parent(
    call: Caller, kept: Kept, target: Path
) -> None:
    export(call, kept, target, kept.child)

    assert rows(target, "SELECT id, parent, root FROM sessions") == [
        (kept.child, None, kept.parent)
    ]


def test_a_tree_is_exported_with_its_links(call: Caller, kept: Kept, target: Path) -> None:
    export(call, kept, target, "parent", "--tree")

    assert rows(target, "SELECT id, parent FROM sessions ORDER BY depth") == [
        (kept.parent, None),
        (kept.child, kept.parent),
    ]


def test_turns_messages_and_tool_calls_are_rows(call: Caller, kept: Kept, target: Path) -> None:
    export(call, kept, target, "parent")

    assert rows(target, "SELECT number, source, outcome FROM turns") == [(1, "user", "completed")]
    roles = rows(target, "SELECT role, text FROM messages WHERE role <> 'user' ORDER BY id")
    assert roles == [("agent", "hello"), ("thought", "deep")]
    calls = "SELECT name, tool_calls.outcome, number FROM tool_calls JOIN turns ON turn = turns.id"
    assert rows(target, calls) == [("bash", "completed", 1)]
    summary = rows(target, "SELECT turns, messages, tool_calls FROM session_summary")
    assert summary == [(1, 3, 1)]


def test_messages_are_found_by_full_text_search(call: Caller, kept: Kept, target: Path) -> None:
    export(call, kept, target, "--all")

    with contextlib.closing(sqlite3.connect(target)) as connection:
        found = Database(connection).table("messages").search('TULIPS AND "', quote=True)
        assert {row["session_id"] for row in found} == set()
        found = Database(connection).table("messages").search("TULIPS", quote=True)
        assert {row["session_id"] for row in found} == {kept.over}


def test_an_existing_file_is_replaced_only_by_a_complete_export(
    call: Caller, kept: Kept, target: Path
) -> None:
    target.write_text("something else")

    export(call, kept, target, "anna")

    assert rows(target, "SELECT count(*) FROM sessions") == [(1,)]


def test_secrets_are_covered_in_the_database(call: Caller, tmp_path: Path, target: Path) -> None:
    path = tmp_path / "secret.db"
    call("run", "password=hunter2hunter2 \u2028 second", "--state", path)

    call("export", "--all", "--redact", "--format", "sqlite", "-o", target, "--state", path)

    assert rows(target, "SELECT count(*) FROM messages") == [(2,)]
    assert b"hunter2" not in target.read_bytes()


def test_the_report_is_json_if_asked(call: Caller, kept: Kept, target: Path) -> None:
    where = ["-o", target, "--state", kept.path]

    done = call("export", "--all", "--format", "sqlite", "--json", *where)

    assert done.json == {
        "sessions": 4,
        "format": "sqlite",
        "path": str(target),
        "bytes": target.stat().st_size,
    }


@pytest.mark.parametrize(
    "arguments",
    [
        ["anna", "--format", "sqlite"],
        ["--format", "sqlite", "-o", "x.db"],
        ["anna", "--all", "--format", "sqlite", "-o", "x.db"],
        ["--all", "--tree", "--format", "sqlite", "-o", "x.db"],
        ["--all"],
        ["anna", "--tree"],
        [],
    ],
)
def test_arguments_that_do_not_fit_are_wrong_usage(
    arguments: list[str], call: Caller, kept: Kept
) -> None:
    done = call("export", *arguments, "--state", kept.path)

    assert done.code == 2
    assert not Path("x.db").exists()


def test_a_damaged_session_is_left_out_with_a_warning(
    call: Caller, kept: Kept, target: Path
) -> None:
    with contextlib.closing(sqlite3.connect(kept.path)) as connection, connection:
        damaged = "UPDATE records SET body = '{' WHERE session_id = ? AND seq = 3"
        assert connection.execute(damaged, (kept.over,)).rowcount == 1
    where = ["-o", target, "--state", kept.path]

    done = call("export", "--all", "--format", "sqlite", *where)

    assert done.code == 1
    assert f"session {kept.over} is left out" in done.err
    assert rows(target, "SELECT count(*) FROM sessions") == [(3,)]


# Targets and faults ----------------------------------------------------------------------


def refused(call: Caller, kept: Kept, target: Path, form: str = "sqlite") -> str:
    arguments = ["--all"] if form == "sqlite" else [kept.anna]
    done = call("export", *arguments, "--format", form, "-o", target, "--state", kept.path)
    assert done.code == 2
    return done.err


@pytest.mark.parametrize("form", ["sqlite", "markdown"])
def test_an_export_never_replaces_a_store(call: Caller, kept: Kept, form: str) -> None:
    before = kept.path.read_bytes()

    assert "is an understudy store" in refused(call, kept, kept.path, form)

    assert kept.path.read_bytes() == before


@pytest.mark.parametrize("ending", [".lock", "-wal", "-shm"])
def test_an_export_never_replaces_the_file_beside_a_lock_or_log(
    call: Caller, kept: Kept, target: Path, ending: str
) -> None:
    target.write_bytes(b"")
    target.with_name(target.name + ending).write_bytes(b"")

    assert "is an understudy store" in refused(call, kept, target)


def test_an_export_never_replaces_a_device_or_pipe(call: Caller, kept: Kept, target: Path) -> None:
    os.mkfifo(target)

    assert "is not a regular file" in refused(call, kept, target)

    assert target.is_fifo()


def test_an_export_follows_a_link(call: Caller, kept: Kept, target: Path) -> None:
    link = target.with_name("link.db")
    link.symlink_to(target)
    export(call, kept, link, "--all")

    assert link.is_symlink()
    assert len(rows(target, "SELECT id FROM sessions")) == 4


def test_an_earlier_export_is_replaced(call: Caller, kept: Kept, target: Path) -> None:
    export(call, kept, target, "--all")
    export(call, kept, target, kept.anna)

    assert rows(target, "SELECT id FROM sessions") == [(kept.anna,)]


def test_a_session_deleted_during_the_export_is_left_out(
    call: Caller, kept: Kept, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    exported = Session.export

    async def export_or_miss(session: Session, *arguments: Any, **options: Any) -> str:  # noqa: ANN401 - as `export`
        if session.id == kept.over:
            raise SessionNotFound(f"session {session.id} does not exist", hint="see list()")
        return await exported(session, *arguments, **options)

    monkeypatch.setattr(Session, "export", export_or_miss)
    done = call("export", "--all", "--format", "sqlite", "-o", target, "--state", kept.path)

    assert done.code == 0
    assert f"session {kept.over} is left out: it was deleted meanwhile" in done.err
    assert len(rows(target, "SELECT id FROM sessions")) == 3


def test_a_full_disk_is_an_error_of_the_system(
    call: Caller, kept: Kept, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise sqlite3.OperationalError("database or disk is full")

    monkeypatch.setattr(sqlite_export, "_add_session", fail)
    done = call("export", "--all", "--format", "sqlite", "-o", target, "--state", kept.path)

    assert done.code == 1
    assert "cannot write the database: database or disk is full" in done.err
    assert "bug" not in done.err
    assert "unfinished" not in done.err
    assert list(target.parent.glob("*unfinished*")) == []
