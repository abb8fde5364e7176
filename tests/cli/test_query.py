"""`understudy query`: only reading, within limits, and harmless on a terminal."""

from __future__ import annotations

import contextlib
import csv
import io
import os
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from supervisor.core.errors import SupervisorError
from supervisor.store.sqlite import query
from supervisor.store.sqlite.query import InvalidQuery, QueryLimitExceeded, open_query
from tests.cli.conftest import HOSTILE, Kept
from tests.store.fixtures.make import load
from tests.support.cli_runner import Caller, on_a_terminal

FORBIDDEN = [
    "ATTACH '{folder}/other.db' AS other",
    "PRAGMA user_version",
    "PRAGMA journal_mode = DELETE",
    "PRAGMA query_only = 0",
    "PRAGMA wal_checkpoint(TRUNCATE)",
    "INSERT INTO sessions (id) VALUES ('x')",
    "INSERT INTO words (words) VALUES ('optimize') RETURNING 1",
    "UPDATE sessions SET phase = 'idle' RETURNING id",
    "DELETE FROM records",
    "WITH x AS (SELECT 1) DELETE FROM records",
    "REPLACE INTO meta VALUES ('a', 'b')",
    "CREATE TABLE x (y)",
    "CREATE TEMP TABLE x (y)",
    "CREATE TEMP VIEW x AS SELECT 1",
    "DROP TABLE records",
    "ALTER TABLE records RENAME TO x",
    "VACUUM",
    "VACUUM INTO '{folder}/copy.db'",
    "REINDEX",
    "ANALYZE",
    "BEGIN",
    "BEGIN IMMEDIATE",
    "COMMIT",
    "SAVEPOINT x",
    "DETACH main",
    "EXPLAIN DELETE FROM records",
    "SELECT load_extension('x')",
    "SELECT readfile('/etc/passwd')",
    "SELECT writefile('{folder}/x', 'y')",
    "SELECT edit('x')",
    "SELECT fts3_tokenizer('simple')",
    "SELECT * FROM pragma_user_version",
    "SELECT * FROM pragma_database_list",
    "SELECT 1; DELETE FROM records",
    "SELEC 1",
    "",
    ";",
    "-- nothing",
    "SELECT * FROM nowhere",
    "SELECT 'open",
    "SELECT \x00",
    "SELECT ?",
    "SELECT :name",
]
COUNTING = "WITH RECURSIVE c(x) AS (SELECT 1 {union} SELECT x + 1 FROM c) SELECT {what} FROM c"


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("query") / "state.db"
    load(6, path)
    return path


def content(path: Path) -> list[str]:
    with contextlib.closing(sqlite3.connect(path)) as connection:
        return list(connection.iterdump())


@pytest.mark.parametrize("sql", FORBIDDEN)
def test_a_statement_that_does_not_only_read_is_refused(sql: str, store: Path) -> None:
    before, files = store.read_bytes(), sorted(store.parent.iterdir())

    with (
        pytest.raises(InvalidQuery) as refused,
        open_query(store, sql.format(folder=store.parent)) as result,
    ):
        list(result)

    assert refused.value.hint
    assert store.read_bytes() == before
    left = {path for path in store.parent.iterdir() if path.suffix not in (".db-wal", ".db-shm")}
    assert left == {path for path in files if path.suffix not in (".db-wal", ".db-shm")}


WORDS = st.sampled_from(
    [
        "SELECT",
        "INSERT",
        "DELETE",
        "UPDATE",
        "ATTACH",
        "PRAGMA",
        "FROM",
        "WHERE",
        "sessions",
        "records",
        "kept",
        "words",
        "meta",
        "*",
        "1",
        "'x'",
        "(",
        ")",
        ",",
        ";",
        "=",
        "AS",
        "UNION",
        "ALL",
        "WITH",
        "RECURSIVE",
        "VALUES",
        "INTO",
        "SET",
        "RETURNING",
        "DROP",
        "TABLE",
        "MATCH",
        "?",
    ]
)


@settings(
    deadline=None,
    max_examples=200,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(sql=st.one_of(st.lists(WORDS, max_size=12).map(" ".join), st.text(max_size=40)))
def test_any_text_leaves_the_store_as_it_is(sql: str, store: Path) -> None:
    before = content(store)

    with (
        contextlib.suppress(SupervisorError),
        open_query(store, sql, limit=5, seconds=2.0) as result,
    ):
        list(result)

    assert content(store) == before


def test_a_query_that_never_ends_is_stopped_at_its_deadline(store: Path) -> None:
    sql = COUNTING.format(union="UNION ALL", what="count(*)")

    with (
        pytest.raises(QueryLimitExceeded, match=r"longer than 0\.2 s"),
        open_query(store, sql, seconds=0.2) as result,
    ):
        list(result)


def test_rows_beyond_the_limit_are_left_out(store: Path) -> None:
    with open_query(store, COUNTING.format(union="UNION ALL", what="x"), limit=7) as result:
        rows = list(result)

    assert rows == [(number,) for number in range(1, 8)]
    assert result.is_truncated


def test_a_result_with_exactly_the_limit_is_not_truncated(store: Path) -> None:
    with open_query(store, "VALUES (1), (2)", limit=2) as result:
        assert list(result) == [(1,), (2,)]

    assert not result.is_truncated


def test_a_value_that_is_too_large_is_refused(store: Path) -> None:
    sql = "SELECT hex(zeroblob(10000000))"

    with pytest.raises(QueryLimitExceeded, match="a value"), open_query(store, sql) as result:
        list(result)


def test_a_result_that_is_too_large_is_refused(
    store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(query, "MAX_RESULT_BYTES", 1024)
    sql = COUNTING.format(union="UNION ALL", what="hex(zeroblob(100))")

    with pytest.raises(QueryLimitExceeded, match="larger than"), open_query(store, sql) as result:
        list(result)


def test_json_and_full_text_tables_can_be_read(store: Path) -> None:
    with open_query(store, "SELECT value FROM json_each('[1, 2]')") as result:
        assert list(result) == [(1,), (2,)]
    with open_query(store, "SELECT rowid FROM words WHERE words MATCH 'москва'") as result:
        assert list(result) == [(36,)]


def test_columns_of_the_same_name_are_numbered(store: Path) -> None:
    with open_query(store, "SELECT 1 a, 2 a, 3 a_2") as result:
        assert result.columns == ["a", "a_2", "a_2_2"]


@pytest.mark.parametrize("version", range(1, 7))
def test_a_file_of_every_version_can_be_queried(tmp_path: Path, version: int) -> None:
    load(version, tmp_path / "old.db")

    with open_query(tmp_path / "old.db", "SELECT scope, owner, key FROM kept") as result:
        assert list(result) == [("session", "s_asked", "key")]


# The command -----------------------------------------------------------------------------


def test_rows_are_printed_as_a_table(call: Caller, kept: Kept) -> None:
    sql = "SELECT id, agent, NULL AS empty FROM sessions WHERE agent = 'scripted'"

    done = call("query", sql, "--state", kept.path)

    assert (done.code, done.err) == (0, "")
    assert [line.split() for line in done.out.splitlines()] == [
        ["id", "agent", "empty"],
        [kept.parent, "scripted"],
    ]


def test_rows_are_printed_as_json_lines(call: Caller, kept: Kept) -> None:
    done = call("query", "SELECT 1 AS n, 'é' AS t, x'00ff' AS b", "--json", "--state", kept.path)

    assert done.json_lines == [{"n": 1, "t": "é", "b": {"$base64": True, "encoded": "AP8="}}]


def test_rows_are_printed_as_csv(call: Caller, kept: Kept) -> None:
    done = call("query", "--csv", "SELECT 'a,\"b' AS x, NULL AS y, 2", "--state", kept.path)

    assert list(csv.reader(io.StringIO(done.out))) == [["x", "y", "2"], ['a,"b', "", "2"]]


@pytest.mark.parametrize("form", [[], ["--json"], ["--csv"]])
def test_control_characters_never_reach_the_output(
    form: list[str], call: Caller, kept: Kept
) -> None:
    sql = f"SELECT '{HOSTILE}' AS \"{HOSTILE}\", json_extract(body, '$.text') FROM records"  # noqa: S608

    done = call("query", sql, *form, "--state", kept.path)

    assert done.code == 0
    assert not {"\x1b", "\x07", "\x9b", "\u202e"} & set(done.out + done.err)


def test_the_sql_is_read_from_standard_input(call: Caller, kept: Kept) -> None:
    assert call("query", "-", "--state", kept.path, stdin="SELECT 42\n").out.split() == ["42", "42"]


def test_a_truncated_result_is_told_as_a_warning(call: Caller, kept: Kept) -> None:
    done = call("query", "SELECT id FROM sessions", "--limit", "1", "--state", kept.path)

    assert done.code == 0
    assert "Only the first row is shown; --limit shows more." in done.err


@pytest.mark.parametrize(
    ("sql", "code", "error"),
    [
        ("DELETE FROM sessions", 2, "invalid_query"),
        ("SELEC", 2, "invalid_query"),
        ("SELECT zeroblob(100000000)", 4, "query_limit_exceeded"),
    ],
)
def test_a_refused_query_has_a_code_and_a_hint(
    sql: str, code: int, error: str, call: Caller, kept: Kept
) -> None:
    done = call("query", sql, "--json", "--state", kept.path)

    assert done.code == code
    assert f'"code":"{error}"' in done.err
    assert '"hint":' in done.err


def test_a_missing_file_exits_with_3(call: Caller, tmp_path: Path) -> None:
    assert call("query", "SELECT 1", "--state", tmp_path / "none.db").code == 3
    assert call("query", "SELECT 1").code == 3


def test_a_file_that_is_not_a_store_is_refused(call: Caller, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("hello" * 100)

    done = call("query", "SELECT 1", "--state", tmp_path / "notes.txt")

    assert done.code == 1
    assert "is not an understudy store" in done.err


def test_csv_and_json_exclude_each_other(call: Caller, kept: Kept) -> None:
    assert call("query", "SELECT 1", "--csv", "--json", "--state", kept.path).code == 2


LONG = "SELECT printf('%.*c', 300, 'x') AS long"


def test_a_long_value_is_complete_in_a_pipe(call: Caller, kept: Kept) -> None:
    assert call("query", LONG, "--state", kept.path).out == f"long\n{'x' * 300}\n"


def test_a_long_value_is_cut_with_a_mark_on_a_terminal(kept: Kept) -> None:
    with on_a_terminal("query", LONG, "--state", kept.path, columns=400) as terminal:
        assert terminal.end() == 0

    assert f"{'x' * 199}…\r\n" in terminal.seen


def test_a_query_before_the_first_start_says_how_to_create_the_store(call: Caller) -> None:
    done = call("query", "SELECT 1")

    assert done.code == 3
    assert "`understudy serve` creates the store" in done.err


# Functions that run long without a step ---------------------------------------------------

# instr() compares 4 million positions with 2 million characters in one call.
STUCK = (
    "SELECT instr(replace(hex(zeroblob(4000000)), '0', 'a'),"
    " replace(hex(zeroblob(2000000)), '0', 'a') || 'b')"
)
PROGRAM = """
import sys
from supervisor.store.sqlite import query
query.QUERY_SECONDS = float(sys.argv.pop(1))
from supervisor.cli import main
main()
"""


def start_stuck_query(path: Path, *, seconds: float) -> subprocess.Popen[str]:
    arguments = [str(seconds), "query", STUCK, "--state", str(path)]
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM, *arguments], stderr=subprocess.PIPE, text=True
    )


def test_a_function_that_does_not_return_ends_with_the_process(kept: Kept) -> None:
    process = start_stuck_query(kept.path, seconds=0.2)

    _, told = process.communicate(timeout=60)

    assert process.returncode == 4
    assert "the query ran longer than 0.2 s" in told


def test_ctrl_c_ends_a_query_in_a_function_that_does_not_return(kept: Kept) -> None:
    process = start_stuck_query(kept.path, seconds=300)
    try:
        # Another second of CPU time after the imports: the function runs.
        while process.poll() is None and cpu_ticks(process.pid) < 2.5 * os.sysconf("SC_CLK_TCK"):
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
    finally:
        process.kill()
        process.wait()

    assert process.returncode == -signal.SIGINT


def cpu_ticks(pid: int) -> int:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])
