"""`python -m tests.bench`: measure the rows, print JSON lines, then a table.

The JSON lines go to standard output and the table to standard error, so that a pipe gets only
JSON; with `--json PATH` the lines go to that file and the table to standard output. The exit code
is 0 when everything asked for was measured or said why not, 1 under `--strict` when a figure was
missed or could not be measured, 2 for arguments that make no sense.
"""

import argparse
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from tests.bench import (
    acp,
    ask,
    cli,
    durable,
    floods,
    http,
    instructions,
    memory,
    processes,
    reading,
    screens,
    sessions,
    start,
    tell,
    tools,
    trees,
)
from tests.bench._measure import measure
from tests.bench._row import Row
from tests.bench._table import Result, json_line, table

# A new file of rows is added here and nowhere else.
GROUPS = (
    tell,
    ask,
    start,
    memory,
    sessions,
    trees,
    durable,
    instructions,
    floods,
    reading,
    acp,
    processes,
    http,
    tools,
    cli,
    screens,
)
ROWS: tuple[Row, ...] = tuple(row for group in GROUPS for row in group.ROWS)
PAIRS = 15
QUICK_PAIRS = 3


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.bench", description="Understudy beside its peers."
    )
    parser.add_argument("--list", action="store_true", help="name the rows and measure nothing")
    parser.add_argument(
        "--only",
        action="append",
        metavar="NAME",
        help="rows whose title contains NAME; may be repeated",
    )
    parser.add_argument(
        "--pairs", type=at_least_one, metavar="N", help=f"pairs per row (default {PAIRS})"
    )
    parser.add_argument(
        "--quick",
        action="store_true",
        help=f"{QUICK_PAIRS} pairs per row: does it run, not how fast",
    )
    parser.add_argument("--json", type=Path, metavar="PATH", help="write the JSON lines there")
    parser.add_argument("--strict", action="store_true", help="exit 1 when a figure is not reached")
    options = parser.parse_args(arguments)
    options.rows = chosen_rows(options.only)
    if not options.rows:
        parser.error(f"no row matches {' or '.join(options.only)}; --list names them")
    return options


def at_least_one(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{number} pairs make no figure; ask for 1 or more")
    return number


def chosen_rows(names: Sequence[str] | None) -> list[Row]:
    return [row for row in ROWS if names is None or any(name in row.title for name in names)]


def result_of(row: Row, *, pairs: int) -> Result:
    obstacle = row.obstacle()
    if obstacle is not None:
        return Result(row, None, obstacle)
    if row.max_pairs is not None:
        pairs = min(pairs, row.max_pairs)
    return Result(row, measure(row, pairs=pairs))


def measure_all(rows: Sequence[Row], *, pairs: int, lines: TextIO) -> list[Result]:
    """Each line is written as soon as it is known: an interrupted run keeps what it measured."""
    results = []
    for number, row in enumerate(rows, start=1):
        print(f"[{number}/{len(rows)}] {row.title}", file=sys.stderr, flush=True)
        results.append(result_of(row, pairs=pairs))
        print(json_line(results[-1]), file=lines, flush=True)
    return results


@contextmanager
def line_file(path: Path | None) -> Iterator[TextIO]:
    if path is None:
        yield sys.stdout
    else:
        with path.open("w", encoding="utf-8") as lines:
            yield lines


def exit_code(results: Sequence[Result]) -> int:
    return 1 if any(result.row.reach and not result.reached for result in results) else 0


def main(arguments: Sequence[str] | None = None) -> int:
    options = parse(arguments)
    if options.list:
        for row in options.rows:
            sys.stdout.write(f"{row.title}  ({row.reach or 'info'})\n")
        return 0
    pairs = options.pairs or (QUICK_PAIRS if options.quick else PAIRS)
    with line_file(options.json) as lines:
        results = measure_all(options.rows, pairs=pairs, lines=lines)
    print(f"\n{table(results)}", file=sys.stdout if options.json else sys.stderr)
    return exit_code(results) if options.strict else 0


if __name__ == "__main__":
    sys.exit(main())
