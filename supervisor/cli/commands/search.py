"""`understudy search`: find messages; `understudy query`: run a SELECT on the store file."""

from __future__ import annotations

import base64
import csv
import io
import os
import signal
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from supervisor.cli.async_runner import run_async
from supervisor.cli.daemon_store import find_daemon_store
from supervisor.cli.failures import report, require_file
from supervisor.cli.options import (
    CURSOR,
    Count,
    input_text,
    json_option,
    require_text,
    state_option,
)
from supervisor.cli.output import Screen
from supervisor.cli.safe import safe
from supervisor.cli.session_cells import named_id
from supervisor.cli.target import find_session, load_configuration, open_target
from supervisor.cli.text_format import Cell, cut_note, format_timestamp, truncate
from supervisor.core.text import one_line

if TYPE_CHECKING:
    from supervisor.sessions.maintenance_reports import SearchHit
    from supervisor.store.sqlite.query import QueryResult, Value


@click.command()
@click.argument("words", metavar="TEXT...", nargs=-1, required=True)
@click.option("--session", metavar="ID", help="Only in this session.")
@click.option(
    "--limit",
    default=20,
    show_default=True,
    metavar="COUNT",
    type=Count(1),
    help="Maximum number of messages.",
)
@click.option(
    "--cursor", metavar="NEXT", type=CURSOR, help="Continue a page; --json prints `next`."
)
@state_option
@json_option
def search(
    *,
    words: tuple[str, ...],
    session: str | None,
    limit: int,
    cursor: str | None,
    state: str | None,
    as_json: bool,
) -> int:
    """Find the messages of users and agents that contain all words, newest first."""
    screen = Screen(as_json=as_json)
    text = require_text(" ".join(words))
    work = partial(_search, screen, state, text, session=session, limit=limit, cursor=cursor)
    return run_async(screen, work)


async def _search(
    screen: Screen,
    state: str | None,
    text: str,
    *,
    session: str | None,
    limit: int,
    cursor: str | None,
) -> None:
    async with open_target(screen, state=state, access="read") as sup:
        where = None if session is None else (await find_session(sup, session)).id
        page = await sup.search(text, session=where, limit=limit, cursor=cursor)
    if screen.as_json:
        screen.data(page)
        return
    for hit in page.items:
        _show(screen, hit)
    if page.next is not None:
        screen.note(cut_note("newest", len(page.items), "message"))
    elif not page.items:
        screen.note("No message contains these words. Whole words are matched, in any order.")


def _show(screen: Screen, hit: SearchHit) -> None:
    who = "user" if hit.kind == "user_text" else hit.agent
    title = f"  {hit.title}" if hit.title else ""
    screen.line(
        *screen.fit(
            [
                Cell(named_id(hit.session_id, hit.name), "bold"),
                Cell(f"  {format_timestamp(hit.at)}  {hit.seq}  {who}{title}", "dim"),
            ]
        )
    )
    screen.line("    ", one_line(hit.snippet))


# Columns of a value in a table on a terminal; in a pipe nothing is cut.
_MAX_CELL_WIDTH = 200


# SQLite gets this much longer than its own deadline to return.
_STUCK_SECONDS = 1.0


@click.command()
@click.argument("sql", metavar="SQL")
@click.option("--csv", "as_csv", is_flag=True, help="Print CSV, with a header.")
@click.option(
    "--limit",
    default=10_000,
    show_default=True,
    metavar="COUNT",
    type=Count(1),
    help="Maximum number of rows.",
)
@state_option
@json_option
def query(*, sql: str, as_csv: bool, limit: int, state: str | None, as_json: bool) -> int:
    """Run a SELECT on the store file, and print its rows.

    Only reading is allowed, for at most 30 seconds. It works with and without a running daemon.
    With - the SQL is read from standard input. Without --state it is the store of the daemon. With
    --json every row is printed as an object on a line.
    """
    from supervisor.store.sqlite import query as query_module  # noqa: PLC0415 - late
    from supervisor.store.sqlite.query import open_query  # noqa: PLC0415 - late

    if as_csv and as_json:
        raise click.UsageError("--csv and --json exclude each other.")
    screen = Screen(as_json=as_json)
    path = state or find_daemon_store(load_configuration(None).daemon)
    hint = "`understudy serve` creates the store; --state PATH uses another one"
    require_file(path, hint=hint if state is None else "check the path")
    text = input_text((sql,))
    with (
        _end_if_stuck(screen, query_module.QUERY_SECONDS),
        open_query(Path(path), text, limit=limit, seconds=query_module.QUERY_SECONDS) as result,
    ):
        if as_json:
            _print_json(screen, result)
        elif as_csv:
            _print_csv(screen, result)
        else:
            _print_table(screen, result)
    if result.is_truncated:
        screen.warn(cut_note("first", limit, "row"))
    return 0


@contextmanager
def _end_if_stuck(screen: Screen, seconds: float) -> Iterator[None]:
    """End the process if SQLite does not return in the block, or at Ctrl-C.

    One call of a function such as instr() can take hours. SQLite checks the deadline only between
    its steps, and Python handles a signal only when SQLite returns. A query changes nothing, so the
    process may end at any moment.
    """
    from supervisor.store.sqlite.query import QueryLimitExceeded  # noqa: PLC0415 - late

    ended = threading.Event()

    def watch() -> None:
        if not ended.wait(seconds + _STUCK_SECONDS):
            error = QueryLimitExceeded(
                f"the query ran longer than {seconds:g} s", hint="call functions on shorter values"
            )
            os._exit(report(error, screen))

    is_main = threading.current_thread() is threading.main_thread()
    before = signal.signal(signal.SIGINT, signal.SIG_DFL) if is_main else None
    threading.Thread(target=watch, daemon=True).start()
    try:
        yield
    finally:
        ended.set()
        if is_main:
            signal.signal(signal.SIGINT, before)


def _print_json(screen: Screen, result: QueryResult) -> None:
    for row in result:
        values = (_json_value(value) for value in row)
        screen.data(dict(zip(result.columns, values, strict=True)))


def _json_value(value: Value) -> object:
    if isinstance(value, bytes):  # as Datasette and sqlite-utils write them
        return {"$base64": True, "encoded": base64.b64encode(value).decode()}
    return value


def _print_csv(screen: Screen, result: QueryResult) -> None:
    screen.write(_csv_line(result.columns))
    for row in result:
        screen.write(_csv_line([_text(value) for value in row]))


def _csv_line(values: Sequence[str]) -> str:
    line = io.StringIO()
    csv.writer(line, lineterminator="\n").writerow([safe(value) for value in values])
    return line.getvalue()


def _print_table(screen: Screen, result: QueryResult) -> None:
    rows = [[Cell(_table_text(screen, value)) for value in row] for row in result]
    screen.table(result.columns, rows, shrinkable=range(len(result.columns)))


def _table_text(screen: Screen, value: Value) -> str:
    text = _text(value)
    return truncate(text, _MAX_CELL_WIDTH) if screen.is_terminal else text


def _text(value: Value) -> str:
    if value is None:
        return ""
    if isinstance(value, bytes):
        return f"x'{value.hex()}'"
    return str(value)
