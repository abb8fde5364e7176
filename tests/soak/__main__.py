"""Run the soak: `python -m tests.soak --minutes 20`; see docs/contributing.md."""

from __future__ import annotations

import argparse
import itertools
import math
import os
import signal
import sys
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Final

import trio

from .pieces import ROOT, Piece, code_version, collect
from .report import counts, has_passed, report
from .results import Result, Results
from .runner import run_pieces

STATE: Final = ROOT / ".nox" / "soak.json"
PARENT_SECONDS: Final = 1.0


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
    parser.add_argument("--with-parent", action="store_true", help="stop if the parent ends")
    parser.add_argument("--report", action="store_true", help="run nothing, print the report")
    return parser.parse_args(words)


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def in_order(pieces: Sequence[Piece], results: Results) -> list[Piece]:
    """Return failed pieces first, then unknown ones, then the others, the longest first.

    A piece of a chain counts with the pieces that follow it, which must wait for it.
    """
    following: Counter[str] = Counter()
    seconds: dict[str, float] = {}
    for piece in reversed(pieces):
        known = results.find(piece)
        seconds[piece.name] = seconds.get(piece.name, 0.0) + (known.seconds if known else 0.0)
        if piece.after is not None:
            following[piece.after.name] = following[piece.name] + 1
            seconds[piece.after.name] = seconds[piece.name]

    def rank(piece: Piece) -> tuple[bool, bool, int, float]:
        known = results.find(piece)
        has_failed = known is not None and known.outcome == "failed"
        long = -following[piece.name] if known is None else 0
        return not has_failed, known is not None, long, -seconds[piece.name]

    return sorted(pieces, key=rank)


def line_of(piece: Piece, result: Result) -> str:
    """Return one line: the piece, what it covered, seconds, outcome."""
    return f"{piece.name}  {counts(result.covered)}  {result.seconds:.0f} s  {result.outcome}"


class Soak:
    """One call of the command."""

    def __init__(self, given: argparse.Namespace) -> None:
        self._given = given
        self._results = Results(given.state)
        self._running = code_version()
        # The code with which a piece must have passed; None: any.
        self._version = None if given.any_version else self._running
        self._pieces: list[Piece] = []
        self._signal: int | None = None

    async def run(self) -> int:
        """Run the pieces that are due, print the report, and return the exit status."""
        with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM, signal.SIGHUP) as signals:
            async with trio.open_nursery() as nursery:
                stopped = trio.CancelScope()
                nursery.start_soon(self._stop_on_signal, signals, stopped)
                nursery.start_soon(self._stop_with_parent, os.getppid(), stopped)
                with stopped:
                    self._pieces = await collect(self._given.paths)
                    if not self._given.report:
                        await self._run_due()
                nursery.cancel_scope.cancel()
        if stopped.cancelled_caught:
            say("interrupted; the results of finished pieces are kept")
        say(report(self._pieces, self._results, self._version))
        return self._status()

    async def _run_due(self) -> None:
        results, pieces = self._results, self._pieces
        due = [
            piece
            for piece in pieces
            if self._given.again or not has_passed(results.find(piece), self._version)
        ]
        say(f"{len(pieces)} pieces, {len(pieces) - len(due)} of them passed before")
        numbers = itertools.count(1)
        await run_pieces(
            in_order(due, results),
            results,
            version=self._running,
            jobs=self._given.jobs,
            seconds=60.0 * self._given.minutes,
            on_result=lambda piece, result: say(
                f"{next(numbers)}/{len(due)}  {line_of(piece, result)}"
            ),
        )

    async def _stop_on_signal(self, signals: AsyncIterator[int], stopped: trio.CancelScope) -> None:
        # To the end: a second signal would end this process before its pieces.
        async for number in signals:
            self._signal = self._signal or number
            stopped.cancel()

    async def _stop_with_parent(self, parent: int, stopped: trio.CancelScope) -> None:
        """Stop if the parent ends, with `--with-parent`: nox does not pass a TERM on."""
        if self._given.with_parent:
            while os.getppid() == parent:  # noqa: ASYNC110 - there is no event to wait for
                await trio.sleep(PARENT_SECONDS)
            stopped.cancel()

    def _status(self) -> int:
        if self._signal is not None:
            return 128 + self._signal  # as a shell shows a signal
        found = [self._results.find(piece) for piece in self._pieces]
        return int(any(one is not None and one.outcome == "failed" for one in found))


def main() -> int:
    return trio.run(Soak(arguments()).run, strict_exception_groups=True)


if __name__ == "__main__":
    sys.exit(main())
