"""Commands that maintain a store file."""

import stat
from pathlib import Path

import pytest
import trio

import supervisor
from tests.cli.conftest import Kept
from tests.support.cli_runner import Caller


def test_an_export_can_be_imported(call: Caller, kept: Kept, tmp_path: Path) -> None:
    lines = tmp_path / "anna.jsonl"
    written = call("export", "anna", "--format", "jsonl", "-o", lines, "--state", kept.path)
    made = call("import", lines, "--state", kept.path, "--json")

    assert (written.code, written.out, made.code) == (0, "", 0)
    shown = call("show", made.json["id"], "-t", "--state", kept.path, "--json").json
    assert [message["text"][:5] for message in shown["transcript"]] == ["roses", "roses"]


def test_an_export_says_that_it_replaces_a_file(call: Caller, kept: Kept, tmp_path: Path) -> None:
    where = ("-o", tmp_path / "anna", "--state", kept.path)
    said = [call("export", "anna", *where).err, call("export", "anna", *where).err]
    said.append(call("export", "anna", "--format", "sqlite", *where).err)

    assert ["in place of the file that was there" in one for one in said] == [False, True, True]


def test_an_exported_file_is_private(call: Caller, kept: Kept, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    call("export", "anna", "--format", "html", "-o", page, "--state", kept.path)

    assert stat.S_IMODE(page.stat().st_mode) == 0o600
    assert [path.name for path in tmp_path.iterdir() if "unfinished" in path.name] == []


def test_export_prints_without_an_output_file(call: Caller, kept: Kept) -> None:
    assert "tulips" in call("export", "over", "--state", kept.path).out
    data = call("export", "over", "--state", kept.path, "--json").json
    assert data["format"] == "markdown"
    assert "tulips" in data["text"]


def test_export_redacts_secrets_with_redact(call: Caller, tmp_path: Path) -> None:
    path = tmp_path / "secret.db"
    said = call("run", "password=hunter2hunter2", "--state", path)
    session = call("ps", "--state", path, "--json").json["items"][0]["id"]

    assert said.code == 0
    assert "hunter2" in call("export", session, "--state", path).out
    assert "hunter2" not in call("export", session, "--redact", "--state", path).out


def test_export_to_a_missing_folder_is_an_error(call: Caller, kept: Kept) -> None:
    done = call("export", "anna", "-o", "/nowhere/at/all.md", "--state", kept.path)

    assert done.code == 3
    assert "error: there is no directory /nowhere/at\n" in done.err


@pytest.mark.parametrize("path", [".", "new/"])
def test_export_to_a_directory_is_refused(call: Caller, kept: Kept, home: Path, path: str) -> None:
    done = call("export", "anna", "-o", path, "--state", kept.path)

    assert done.code == 2
    assert f"{path} is a directory; name a file." in done.err
    assert list(home.iterdir()) == []


def test_a_backup_into_a_missing_folder_is_refused_with_its_path(call: Caller, kept: Kept) -> None:
    done = call("backup", "/nowhere/b.db", "--state", kept.path)

    assert "there is no directory /nowhere\n" in done.err


def test_an_import_for_an_unknown_agent_is_a_warning(
    call: Caller, kept: Kept, tmp_path: Path
) -> None:
    copy = tmp_path / "anna.jsonl"
    call("export", "anna", "--format", "jsonl", "-o", copy, "--state", kept.path)

    done = call("import", copy, "--agent", "nope", "--state", kept.path)
    known = call("import", copy, "--agent", "scripted", "--state", kept.path)

    assert (done.code, known.err) == (0, "")
    assert "warning: agent nope is not configured" in done.err


@pytest.mark.parametrize("command", [["restore", "--state", "new.db"], ["ps", "--state"]])
def test_a_file_of_another_program_has_a_hint_to_name_a_store(
    call: Caller, tmp_path: Path, command: list[str]
) -> None:
    (tmp_path / "page.html").write_text("<html>" * 100)

    assert "hint: name an understudy store\n" in call(*command, tmp_path / "page.html").err


def test_an_invalid_import_file_is_reported_with_its_line(
    call: Caller, kept: Kept, tmp_path: Path
) -> None:
    bad = tmp_path / "bad.jsonl"
    bad.write_text("not json\n")

    done = call("import", bad, "--state", kept.path)

    assert done.code == 1
    assert "line 1" in done.err


def test_import_creates_a_missing_store(call: Caller, kept: Kept, tmp_path: Path) -> None:
    lines, other = tmp_path / "x.jsonl", tmp_path / "other.db"
    call("export", "anna", "--format", "jsonl", "-o", lines, "--state", kept.path)

    done = call("import", lines, lines, "--state", other, "--agent", "scripted", "--json")

    assert [info["agent"] for info in done.json_lines] == ["scripted", "scripted"]


def test_replay_shows_a_session_as_it_was(call: Caller, kept: Kept) -> None:
    assert call("replay", "over", "--at", 3, "--state", kept.path, "--json").json["turns"] == 0
    assert "phase    starting" in call("replay", "over", "--at", 3, "--state", kept.path).out
    assert call("replay", "over", "--at", 999, "--state", kept.path).code == 3


def test_repair_reports_intact_records(call: Caller, kept: Kept) -> None:
    done = call("repair", "anna", "--state", kept.path)

    assert (done.code, done.out) == (0, f"No problems in the records of {kept.anna}.\n")


def test_repair_finds_a_gap_and_exits_with_1(call: Caller, kept: Kept) -> None:
    import sqlite3  # noqa: PLC0415 - to break something

    with sqlite3.connect(kept.path) as connection:
        connection.execute("DELETE FROM records WHERE session_id = ? AND seq = 2", (kept.anna,))
    connection.close()

    done = call("repair", "anna", "--state", kept.path)

    assert done.code == 1
    assert "gap" in done.out
    assert call("repair", "anna", "--state", kept.path, "--json").json["problems"]


def test_repair_is_refused_for_a_session_that_was_running(call: Caller, kept: Kept) -> None:
    import sqlite3  # noqa: PLC0415 - as a backup of a running daemon has it

    with sqlite3.connect(kept.path) as connection:
        connection.execute(
            "UPDATE sessions SET phase = 'idle', row = json_set(row, '$.phase', 'idle')"
            " WHERE id = ?",
            (kept.anna,),
        )
    connection.close()

    done = call("repair", "anna", "--state", kept.path)

    assert done.code == 1
    assert "was active when its supervisor exited" in done.err
    assert "open the store once with a supervisor" in done.err


def test_a_damaged_row_is_reported_and_rebuilt(call: Caller, kept: Kept) -> None:
    import sqlite3  # noqa: PLC0415 - to break something

    with sqlite3.connect(kept.path) as connection:
        connection.execute("UPDATE sessions SET row = '{' WHERE id = ?", (kept.anna,))
    connection.close()
    state = ("--state", kept.path)

    listed = call("ps", "--all", *state)
    assert f"{kept.anna} is damaged" in listed.err
    assert f"understudy repair {kept.anna}" in listed.err
    assert call("ps", "--all", *state, "--json").json["damaged"] == [kept.anna]
    looked = call("repair", kept.anna[-6:], *state)
    assert (looked.code, "bad_json" in looked.out) == (0, True)
    assert "--write rebuilds its row." in looked.err
    assert "The row was rebuilt." in call("repair", kept.anna, "--write", *state).err
    assert call("repair", "anna", *state).out == f"No problems in the records of {kept.anna}.\n"


def test_restore_keeps_the_old_store(call: Caller, kept: Kept, tmp_path: Path) -> None:
    copy = tmp_path / "copy.db"
    assert call("backup", copy, "--state", kept.path).code == 0
    call("cleanup", "--keep-last", 0, "--state", kept.path)
    assert kept.over not in call("ps", "--all", "-q", "--state", kept.path).out

    done = call("restore", copy, "--state", kept.path, "--json").json

    assert kept.over in call("ps", "--all", "-q", "--state", kept.path).out
    assert Path(done["before"]).exists()


def test_a_backup_overwrites_nothing(call: Caller, kept: Kept) -> None:
    done = call("backup", kept.path, "--state", kept.path)

    assert done.code == 1
    assert "exists already" in done.err


def test_an_export_never_has_a_name_of_sqlite(call: Caller, kept: Kept, tmp_path: Path) -> None:
    for form in ("jsonl", "sqlite"):
        place = tmp_path / "other.db-wal"
        done = call("export", kept.anna, "-o", place, "--format", form, "--state", kept.path)

        assert (done.code, "SQLite gives a meaning" in done.err) == (1, True)
        assert not place.exists()


def test_cleanup_dry_run_deletes_nothing(call: Caller, kept: Kept) -> None:
    done = call("cleanup", "--keep-last", 0, "--dry-run", "--state", kept.path)

    assert kept.over in done.out
    assert "1 session would be deleted" in done.err
    assert kept.over in call("ps", "--all", "-q", "--state", kept.path).out


def test_cleanup_deletes_only_stopped_trees(call: Caller, kept: Kept) -> None:
    done = call("cleanup", "--older-than", "0s", "--state", kept.path, "--json").json

    assert list(done["deleted"]) == [kept.over]


@pytest.mark.parametrize("option", [("--older-than", "yesterday"), ("--max-bytes", "much")])
def test_an_invalid_cleanup_rule_is_wrong_usage(option: tuple[str, str], call: Caller) -> None:
    assert call("cleanup", *option).code == 2


def test_changes_are_refused_while_a_supervisor_has_the_file_open(call: Caller, kept: Kept) -> None:
    async def main() -> str:
        async with supervisor.open(kept.path):
            done = await trio.to_thread.run_sync(lambda: call("cleanup", "--state", kept.path))
            assert done.code == 1
            return done.err

    assert "has state.db open" in trio.run(main)


def test_maintenance_of_a_file_starts_no_session(call: Caller, tmp_path: Path) -> None:
    path = tmp_path / "waiting.db"

    async def leave_an_input_behind() -> None:
        settings = supervisor.Settings(exit_seconds=0.0)
        async with supervisor.open(path, settings=settings) as sup:
            session = await sup.create("scripted", name="sleeper")
            await session.send("sleep 60")
            await session.send("say awake")

    trio.run(leave_an_input_behind)
    call("cleanup", "--state", path)

    assert "awake" not in call("log", "sleeper", "--kind", "agent_text", "--state", path).out
    assert call("show", "sleeper", "--state", path, "--json").json["queued"] == 1
