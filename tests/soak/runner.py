"""Runs of pieces: several at a time, each in its own process, until all are done or time is up."""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Final

import trio

from . import processes
from .pieces import ROOT, Piece
from .results import Outcome, Result, Results, read_junit

# A piece that takes longer hangs.
MAX_PIECE_SECONDS: Final = 1800.0
# The end of the output of a failed piece that is kept, in characters.
OUTPUT_END: Final = 10_000
# A line that names a seed: `<seed 338, pct: ...>`, `seed=338`, `@seed(338)`.
_NAMES_SEED: Final = re.compile(r"\bseeds?\b.*\d", re.IGNORECASE)

OnResult = Callable[[Piece, Result], None]


async def run_pieces(
    pieces: Sequence[Piece],
    results: Results,
    *,
    version: str,
    jobs: int,
    seconds: float,
    on_result: OnResult,
) -> None:
    """Run the pieces and keep their results; stop after `seconds`, or when cancelled.

    A piece that was running then has no result. A piece that took longer than the time that is
    left, the last time it ran, is not started.
    """
    waiting, running = list(pieces), list[Piece]()
    a_piece_ended = trio.lowlevel.ParkingLot()
    deadline = trio.current_time() + seconds

    def may_start(piece: Piece) -> bool:
        known, before = results.find(piece), piece.after
        if known is not None and known.seconds >= deadline - trio.current_time():
            return False
        if before is None:
            return True
        result = results.find(before)
        is_settled = before not in waiting and before not in running
        return is_settled and result is not None and result.outcome == "passed"

    async def work() -> None:
        while True:
            piece = next(filter(may_start, waiting), None)
            if piece is not None:
                await run_one(piece)
            elif running:
                await a_piece_ended.park()
            else:
                return

    async def run_one(piece: Piece) -> None:
        waiting.remove(piece)
        running.append(piece)
        result = await run_piece(piece, version)
        running.remove(piece)
        results.add(piece, result)
        on_result(piece, result)
        a_piece_ended.unpark_all()

    with trio.move_on_at(deadline):
        async with trio.open_nursery() as nursery:
            for _ in range(jobs):
                nursery.start_soon(work)


async def run_piece(
    piece: Piece, version: str, *, max_seconds: float = MAX_PIECE_SECONDS
) -> Result:
    """Run the tests of a piece in a process of their own; no process is left after it.

    If it is cancelled, the process and those that it started are ended.
    """
    began = trio.current_time()
    with tempfile.TemporaryDirectory() as folder:
        report, output = Path(folder) / "junit.xml", Path(folder) / "output"
        with trio.move_on_after(max_seconds) as limit:
            await _run_to_end(_command(piece, report), output)
        seconds = trio.current_time() - began
        covered: dict[str, int] = {}
        failures: tuple[str, ...]
        if limit.cancelled_caught:
            failures = (f"it was still running after {max_seconds:g} s",)
        elif not report.exists():
            failures = ("pytest ended without a report",)
        else:
            covered, failures = read_junit(report, len(piece.tests))
        if failures:
            failures = (*failures, kept_output(output.read_text(errors="replace")))
    outcome: Outcome = "failed" if failures else "passed"
    return Result(outcome, round(seconds, 1), piece.tests, version, covered, failures)


def kept_output(output: str) -> str:
    """Return the end of the output, and before it all earlier lines that name a seed, once each."""
    start = max(0, len(output) - OUTPUT_END)
    # A line that is cut by the start of the end counts as earlier.
    first_whole = output.find("\n", start) if start else 0
    earlier = output[:first_whole] if first_whole >= 0 else output
    named = dict.fromkeys(filter(_NAMES_SEED.search, earlier.splitlines()))
    return "\n".join([*named, output[start:]])


async def _run_to_end(command: list[str], output: Path) -> None:
    with output.open("wb") as out:
        run = partial(
            trio.run_process,
            command,
            cwd=ROOT,
            stdout=out,
            stderr=subprocess.STDOUT,
            check=False,
            start_new_session=True,
            deliver_cancel=processes.stop,
        )
        async with trio.open_nursery() as nursery:
            process: trio.Process = await nursery.start(run)
        await processes.kill_left(process.pid)


def _command(piece: Piece, report: Path) -> list[str]:
    # `xunit1` has the properties of a test and its file.
    options = ["-q", "-m", "soak", "-p", "no:cacheprovider", "-o", "junit_family=xunit1"]
    # A long list of failing seeds is shown whole.
    whole = ["-o", "verbosity_assertions=2"]
    return [sys.executable, "-m", "pytest", *options, *whole, f"--junitxml={report}", *piece.tests]
