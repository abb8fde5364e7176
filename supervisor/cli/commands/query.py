"""`understudy query`: run a SELECT on the store file."""

from __future__ import annotations

import base64
import csv
import io
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from supervisor.cli.columns import Cell
from supervisor.cli.failures import require_file
from supervisor.cli.options import Count, input_text, json_option, state_option
from supervisor.cli.output import Screen
from supervisor.cli.safe import safe
from supervisor.cli.target import load_configuration

if TYPE_CHECKING:
    from supervisor.store.sqlite.query import QueryResult, Value

# Characters of a value in the table; CSV and JSON have all of it.
_MAX_CELL_CHARACTERS = 200


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
    from supervisor.store.sqlite.query import open_query  # noqa: PLC0415 - late

    if as_csv and as_json:
        raise click.UsageError("--csv and --json exclude each other.")
    screen = Screen(as_json=as_json)
    path = state or load_configuration(None).daemon.database
    require_file(path)
    with open_query(Path(path), input_text((sql,)), limit=limit) as result:
        if as_json:
            _print_json(screen, result)
        elif as_csv:
            _print_csv(screen, result)
        else:
            _print_table(screen, result)
    if result.is_truncated:
        screen.warn(f"only the first {limit} rows are shown; --limit shows more")
    return 0


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
    rows = [[Cell(_text(value)[:_MAX_CELL_CHARACTERS]) for value in row] for row in result]
    screen.table(result.columns, rows, shrinkable=range(len(result.columns)))


def _text(value: Value) -> str:
    if value is None:
        return ""
    if isinstance(value, bytes):
        return f"x'{value.hex()}'"
    return str(value)
