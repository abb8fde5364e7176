"""Commands about what is kept, on a file."""

import stat
from pathlib import Path

import pytest
import trio

import supervisor
from tests.cli.calling import Caller
from tests.cli.conftest import Kept


def test_what_is_exported_can_be_imported(call: Caller, kept: Kept, tmp_path: Path) -> None:
    lines = tmp_path / "anna.jsonl"
    written = call("export", "anna", "--format", "jsonl", "-o", lines, "--state", kept.path)
    made = call("import", lines, "--state", kept.path, "--json")

    assert (written.code, written.out, made.code) == (0, "", 0)
    shown = call("show", made.json["id"], "-t", "--state", kept.path, "--json").json
    assert [message["text"][:5] for message in shown["transcript"]] == ["roses", "roses"]


def test_an_exported_file_is_for_its_owner_alone(call: Caller, kept: Kept, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    call("export", "anna", "--format", "html", "-o", page, "--state", kept.path)

    assert stat.S_IMODE(page.stat().st_mode) == 0o600
    assert [path.name for path in tmp_path.iterdir() if "unfinished" in path.name] == []


def test_export_prints_if_no_file_is_named(call: Caller, kept: Kept) -> None:
    assert "tulips" in call("export", "over", "--state", kept.path).out
    data = call("export", "over", "--state", kept.path, "--json").json
    assert data["format"] == "markdown"
    assert "tulips" in data["text"]


def test_export_covers_secrets_if_asked(call: Caller, tmp_path: Path) -> None:
    path = tmp_path / "secret.db"
    said = call("run", "password=hunter2hunter2", "--state", path)
    session = call("ps", "--state", path, "--json").json["items"][0]["id"]

    assert said.code == 0
    assert "hunter2" in call("export", session, "--state", path).out
    assert "hunter2" not in call("export", session, "--redact", "--state", path).out


def test_export_into_a_folder_that_is_not_there_is_said(call: Caller, kept: Kept) -> None:
    done = call("export", "anna", "-o", "/nowhere/at/all.md", "--state", kept.path)

    assert done.code == 1
    assert "No such file or directory" in done.err


def test_a_file_that_cannot_be_imported_is_said_with_its_line(
    call: Caller, kept: Kept, tmp_path: Path
) -> None:
    bad = tmp_path / "bad.jsonl"
    bad.write_text("not json\n")

    done = call("import", bad, "--state", kept.path)

    assert done.code == 1
    assert "line 1" in done.err


def test_import_makes_the_store_if_there_is_none(call: Caller, kept: Kept, tmp_path: Path) -> None:
    lines, other = tmp_path / "x.jsonl", tmp_path / "other.db"
    call("export", "anna", "--format", "jsonl", "-o", lines, "--state", kept.path)

    done = call("import", lines, lines, "--state", other, "--agent", "scripted", "--json")

    assert [info["agent"] for info in done.json_lines] == ["scripted", "scripted"]


def test_replay_shows_a_session_as_it_was(call: Caller, kept: Kept) -> None:
    assert call("replay", "over", "--at", 3, "--state", kept.path, "--json").json["turns"] == 0
    assert "phase    starting" in call("replay", "over", "--at", 3, "--state", kept.path).out
    assert call("replay", "over", "--at", 999, "--state", kept.path).code == 3


def test_records_that_are_whole_are_said_to_be(call: Caller, kept: Kept) -> None:
    done = call("repair", "anna", "--state", kept.path)

    assert (done.code, done.out) == (0, f"The records of {kept.anna} are whole.\n")


def test_repair_finds_a_gap_and_exits_with_1(call: Caller, kept: Kept) -> None:
    import sqlite3  # noqa: PLC0415 - to break something

    with sqlite3.connect(kept.path) as connection:
        connection.execute("DELETE FROM records WHERE session_id = ? AND seq = 2", (kept.anna,))
    connection.close()

    done = call("repair", "anna", "--state", kept.path)

    assert done.code == 1
    assert "gap" in done.out
    assert call("repair", "anna", "--state", kept.path, "--json").json["problems"]


def test_who_was_at_work_when_a_file_was_left_needs_a_supervisor_first(
    call: Caller, kept: Kept
) -> None:
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
    assert "was at work when the file was left" in done.err
    assert "have a supervisor open the file once" in done.err


def test_a_row_that_cannot_be_read_is_seen_and_made_anew(call: Caller, kept: Kept) -> None:
    import sqlite3  # noqa: PLC0415 - to break something

    with sqlite3.connect(kept.path) as connection:
        connection.execute("UPDATE sessions SET row = '{' WHERE id = ?", (kept.anna,))
    connection.close()
    state = ("--state", kept.path)

    listed = call("ps", "--all", *state)
    assert f"{kept.anna} cannot be read" in listed.err
    assert f"understudy repair {kept.anna}" in listed.err
    assert call("ps", "--all", *state, "--json").json["damaged"] == [kept.anna]
    looked = call("repair", kept.anna[-6:], *state)
    assert (looked.code, "bad_json" in looked.out) == (0, True)
    assert "--write makes its row anew." in looked.err
    assert "Its row was made anew." in call("repair", kept.anna, "--write", *state).err
    assert call("repair", "anna", *state).out == f"The records of {kept.anna} are whole.\n"


def test_a_backup_is_restored_and_what_was_there_is_kept(
    call: Caller, kept: Kept, tmp_path: Path
) -> None:
    copy = tmp_path / "copy.db"
    assert call("backup", copy, "--state", kept.path).code == 0
    call("cleanup", "--keep-last", 0, "--state", kept.path)
    assert kept.over not in call("ps", "--all", "--state", kept.path).out

    done = call("restore", copy, "--state", kept.path, "--json").json

    assert kept.over in call("ps", "--all", "--state", kept.path).out
    assert Path(done["before"]).exists()


def test_a_backup_overwrites_nothing(call: Caller, kept: Kept) -> None:
    done = call("backup", kept.path, "--state", kept.path)

    assert done.code == 1
    assert "is there already" in done.err


def test_cleanup_says_what_would_go_and_leaves_it(call: Caller, kept: Kept) -> None:
    done = call("cleanup", "--keep-last", 0, "--dry-run", "--state", kept.path)

    assert kept.over in done.out
    assert "1 session would go" in done.err
    assert kept.over in call("ps", "--all", "--state", kept.path).out


def test_cleanup_takes_only_what_is_over(call: Caller, kept: Kept) -> None:
    done = call("cleanup", "--older-than", "0s", "--state", kept.path, "--json").json

    assert list(done["deleted"]) == [kept.over]


@pytest.mark.parametrize("option", [("--older-than", "yesterday"), ("--max-bytes", "much")])
def test_a_rule_that_means_nothing_is_wrong_usage(option: tuple[str, str], call: Caller) -> None:
    assert call("cleanup", *option).code == 2


def test_what_changes_a_file_is_refused_while_a_supervisor_has_it_open(
    call: Caller, kept: Kept
) -> None:
    async def main() -> str:
        async with supervisor.open(kept.path):
            done = await trio.to_thread.run_sync(lambda: call("cleanup", "--state", kept.path))
            assert done.code == 1
            return done.err

    assert "has state.db open" in trio.run(main)


def test_nobody_is_woken_by_what_changes_a_file(call: Caller, tmp_path: Path) -> None:
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
