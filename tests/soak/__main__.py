"""Run the soak: `python -m tests.soak --minutes 20`; see docs/contributing.md."""

from __future__ import annotations

import argparse
import math
import os
import sys
from collections.abc import Sequence
from pathlib import Path

import trio

from .pieces import ROOT, Piece, code_version, collect
from .report import has_passed, report
from .results import Result, Results
from .runner import run_pieces

STATE = ROOT / ".nox" / "soak.json"


def arguments(words: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="nox -s soak --", description=__doc__)
    parser.add_argument("paths", nargs="*", help="files or folders of tests; all by default")
    parser.add_argument("--minutes", type=float, default=math.inf, help="stop after this time")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="pieces at a time")
    parser.add_argument("--state", type=Path, default=STATE, help="file with the results")
    parser.add_argument("--again", action="store_true", help="also run what has passed")
    parser.add_argument(
        "--any-version", action="store_true", help="a piece that passed with other code counts"
    )
    parser.add_argument("--report", action="store_true", help="run nothing, print the report")
    return parser.parse_args(words)


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def in_order(pieces: Sequence[Piece], results: Results) -> list[Piece]:
    """Return failed pieces first, then unknown ones, then the others, the longest first."""

    def rank(piece: Piece) -> tuple[bool, float]:
        known = results.find(piece)
        if known is None:
            return True, -math.inf
        return known.outcome != "failed", -known.seconds

    return sorted(pieces, key=rank)


def main() -> int:
    given = arguments()
    pieces, results, running = collect(given.paths), Results(given.state), code_version()
    version = None if given.any_version else running
    due = [piece for piece in pieces if given.again or not has_passed(results.find(piece), version)]
    done = 0

    def on_result(piece: Piece, result: Result) -> None:
        nonlocal done
        done += 1
        say(f"{done}/{len(due)}  {result.outcome}  {result.seconds:.0f} s  {piece.name}")

    async def run() -> None:
        await run_pieces(
            in_order(due, results),
            results,
            version=running,
            jobs=given.jobs,
            seconds=60.0 * given.minutes,
            on_result=on_result,
        )

    if not given.report:
        say(f"{len(pieces)} pieces, {len(pieces) - len(due)} of them passed before")
        try:
            trio.run(run, strict_exception_groups=True)
        except* KeyboardInterrupt:
            say("interrupted; the results of finished pieces are kept")
    say(report(pieces, results, version))
    found = [results.find(piece) for piece in pieces]
    return 1 if any(one is not None and one.outcome == "failed" for one in found) else 0


if __name__ == "__main__":
    sys.exit(main())
