"""Run one SELECT of a user on the store file, read-only and within limits.

Rule 1: the connection cannot write, and its authorizer allows only reading: no PRAGMA,
        no ATTACH, no transaction, no function that reaches outside the file.
Rule 2: time, memory and result size are bounded, so that a query cannot stop the machine.
Rule 3: `sqlite_utils.Database.query` is not used: it opens a savepoint, which rule 1 refuses.
"""

from __future__ import annotations

import contextlib
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, TypeAlias

from supervisor.core.errors import SupervisorError

from . import schema
from .files import degraded_error, open_reader, resolve_path

QUERY_SECONDS: Final = 30.0
MAX_ROWS: Final = 10_000
MAX_RESULT_BYTES: Final = 64 * 1024**2
_MAX_VALUE_BYTES: Final = 16 * 1024**2
# SQLite's own memory, for sorting and recursion. A limit of the process, and the process is the
# command's.
_MAX_HEAP_BYTES: Final = 512 * 1024**2
# A LIKE pattern with many wildcards takes exponential time inside one step, which no deadline ends.
_MAX_PATTERN_BYTES: Final = 128
# Steps of SQLite's virtual machine between two checks of the clock; about 0.1 ms.
_STEPS_PER_CHECK: Final = 10_000

_ALLOWED_ACTIONS: Final = frozenset(
    {
        sqlite3.SQLITE_SELECT,
        sqlite3.SQLITE_READ,
        sqlite3.SQLITE_FUNCTION,
        sqlite3.SQLITE_RECURSIVE,
    }
)
# Those that load code, read or write files, or change the tokenizer. None is in a usual build of
# the library, but a build may add them.
_FORBIDDEN_FUNCTIONS: Final = frozenset(
    {"load_extension", "readfile", "writefile", "edit", "fts3_tokenizer", "lsdir", "fsdir"}
)

Value: TypeAlias = int | float | str | bytes | None
Row: TypeAlias = tuple[Value, ...]


class InvalidQuery(SupervisorError):
    """The SQL has an error, or is not a single SELECT."""


class QueryLimitExceeded(SupervisorError):
    """A query took too long, too much memory, or its result is too large."""


class QueryResult:
    """The columns of a result, and an iterator that reads its rows on demand."""

    def __init__(self, cursor: sqlite3.Cursor, run: _Run, limit: int) -> None:
        self.columns = _unique_names([column[0] for column in cursor.description])
        # Set when the iteration ends: whether the query has more rows than `limit`.
        self.is_truncated = False
        self._cursor = cursor
        self._run = run
        self._limit = limit

    def __iter__(self) -> Iterator[Row]:
        size = 0
        for _ in range(self._limit):
            row = self._next()
            if row is None:
                return
            size += sum(_size(value) for value in row)
            if size > MAX_RESULT_BYTES:
                raise QueryLimitExceeded(
                    f"the result is larger than {MAX_RESULT_BYTES // 1024**2} MiB",
                    hint="select fewer columns or rows",
                )
            yield row
        self.is_truncated = self._next() is not None

    def _next(self) -> Row | None:
        with self._run.errors():
            row: Row | None = self._cursor.fetchone()
            return row


@contextlib.contextmanager
def open_query(
    path: Path, sql: str, *, limit: int = MAX_ROWS, seconds: float = QUERY_SECONDS
) -> Iterator[QueryResult]:
    """Run a SELECT on a store file and yield its result.

    Works with and without a running supervisor, on files of every version, and changes nothing.
    Raise `ConfigError` for a file that is not a store, `InvalidQuery` if the SQL is not a valid
    SELECT, `QueryLimitExceeded` if a limit is reached, and `StoreDegraded` if the file cannot be
    read. Ctrl-C raises `KeyboardInterrupt`.
    """
    path = resolve_path(path)
    schema.refuse_unless_ours(path, may_be_new=True)
    run = _Run(path, seconds)
    with run.errors():
        connection = open_reader(path)
    with contextlib.closing(connection):
        with run.errors():
            run.restrict(connection)
            cursor = connection.execute(sql)
        if cursor.description is None:
            raise InvalidQuery(
                "the SQL returns no rows", hint="write a SELECT; only reading is allowed"
            )
        yield QueryResult(cursor, run, limit)


class _Run:
    """The limits of one query, and the translation of its errors."""

    def __init__(self, path: Path, seconds: float) -> None:
        self._path = path
        self._seconds = seconds
        self._deadline = time.monotonic() + seconds
        self._is_over = False
        # The first thing that the authorizer refused.
        self._refused: str | None = None

    def restrict(self, connection: sqlite3.Connection) -> None:
        """Apply the limits to a connection; afterwards it can only run a SELECT."""
        connection.text_factory = _decode_text
        connection.execute("PRAGMA temp_store = MEMORY")
        connection.execute(f"PRAGMA hard_heap_limit = {_MAX_HEAP_BYTES}")
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _MAX_VALUE_BYTES)
        connection.setlimit(sqlite3.SQLITE_LIMIT_LIKE_PATTERN_LENGTH, _MAX_PATTERN_BYTES)
        connection.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
        # Loads the schema and connects virtual tables, which the authorizer would refuse. Table-
        # valued functions that are not connected here (pragma_table_info, ...) stay refused.
        for table in ("words", "json_each('[]')", "json_tree('[]')"):
            connection.execute(f"SELECT 1 FROM {table} LIMIT 0")  # noqa: S608 - names of ours
        connection.set_progress_handler(self._check_deadline, _STEPS_PER_CHECK)
        connection.set_authorizer(self._authorize)

    def _check_deadline(self) -> int:
        self._is_over = time.monotonic() > self._deadline
        return int(self._is_over)

    def _authorize(
        self,
        action: int,
        first: str | None,
        second: str | None,
        database: str | None,
        trigger: str | None,
    ) -> int:
        del database, trigger
        if action == sqlite3.SQLITE_FUNCTION:
            if (second or "").lower() not in _FORBIDDEN_FUNCTIONS:
                return sqlite3.SQLITE_OK
            self._refused = f"the function {second}()"
        elif action in _ALLOWED_ACTIONS:
            return sqlite3.SQLITE_OK
        elif action == sqlite3.SQLITE_PRAGMA and (first, second) == ("data_version", None):
            return sqlite3.SQLITE_OK  # the full-text index asks for it, and it only reads
        is_schema = first in ("sqlite_master", "sqlite_temp_master")
        name = "this statement" if is_schema else _ACTION_NAMES.get(action, "this statement")
        self._refused = self._refused or name
        return sqlite3.SQLITE_DENY

    @contextlib.contextmanager
    def errors(self) -> Iterator[None]:
        """Turn exceptions of SQLite inside the block into our errors."""
        try:
            yield
        except (sqlite3.Error, sqlite3.Warning, MemoryError, ValueError) as error:
            raise self._translated(error) from error

    def _translated(self, error: Exception) -> BaseException:
        code = getattr(error, "sqlite_errorcode", None)
        if self._refused is not None:
            return InvalidQuery(
                f"{self._refused} is not allowed",
                hint="write a single SELECT; only reading is allowed",
            )
        if code == sqlite3.SQLITE_INTERRUPT and not self._is_over:
            return KeyboardInterrupt()  # raised in the progress handler, where sqlite3 swallows it
        if code == sqlite3.SQLITE_INTERRUPT:
            return QueryLimitExceeded(
                f"the query ran longer than {self._seconds:g} s",
                hint="select less, or copy the store with `understudy backup` and query the copy",
            )
        if code == sqlite3.SQLITE_NOMEM or isinstance(error, MemoryError):
            return QueryLimitExceeded(
                f"the query needs more than {_MAX_HEAP_BYTES // 1024**2} MiB of memory",
                hint="sort, group or recurse over less",
            )
        if code == sqlite3.SQLITE_TOOBIG or isinstance(error, sqlite3.DataError):
            return QueryLimitExceeded(
                f"a value is larger than {_MAX_VALUE_BYTES // 1024**2} MiB",
                hint="select a part of it, for example with substr()",
            )
        trouble = None
        if isinstance(error, sqlite3.Error) and code not in (None, sqlite3.SQLITE_ERROR):
            trouble = degraded_error(error, self._path)
        return trouble or InvalidQuery(
            f"the SQL is not valid: {error}",
            hint="`SELECT name, sql FROM sqlite_schema` lists the tables and their columns",
        )


_ACTION_NAMES: Final = {
    sqlite3.SQLITE_ATTACH: "ATTACH",
    sqlite3.SQLITE_DETACH: "DETACH",
    sqlite3.SQLITE_PRAGMA: "PRAGMA",
    sqlite3.SQLITE_INSERT: "INSERT",
    sqlite3.SQLITE_UPDATE: "UPDATE",
    sqlite3.SQLITE_DELETE: "DELETE",
    sqlite3.SQLITE_TRANSACTION: "a transaction",
    sqlite3.SQLITE_SAVEPOINT: "SAVEPOINT",
    sqlite3.SQLITE_ANALYZE: "ANALYZE",
    sqlite3.SQLITE_REINDEX: "REINDEX",
}


def _decode_text(value: bytes) -> str:
    return value.decode(errors="replace")  # a damaged record does not hide the others


def _size(value: Any) -> int:  # noqa: ANN401 - a value of SQLite
    return len(value) if isinstance(value, str | bytes) else 8


def _unique_names(names: list[str]) -> list[str]:
    """Return the names, with a number added to repeated ones, so that each can be a JSON key."""
    seen: dict[str, int] = {}
    unique: list[str] = []
    for name in names:
        seen[name] = seen.get(name, 0) + 1
        count = seen[name]
        candidate = name if count == 1 else f"{name}_{count}"
        while candidate in unique:
            count += 1
            candidate = f"{name}_{count}"
        unique.append(candidate)
    return unique
