"""Runs of pieces: several at a time, each in its own process, until all are done or time is up."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import trio

from .pieces import ROOT, Piece
from .results import Outcome, Result, Results, read_junit

# A piece that takes longer hangs.
MAX_PIECE_SECONDS: Final = 3600.0
# An interrupted pytest has this long for its fixtures, then its whole group is killed.
STOP_SECONDS: Final = 10.0

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
    waiting = list(pieces)
    deadline = trio.current_time() + seconds

    def fits(piece: Piece) -> bool:
        known = results.find(piece)
        return known is None or known.seconds < deadline - trio.current_time()

    async def work() -> None:
        while (piece := next(filter(fits, waiting), None)) is not None:
            waiting.remove(piece)
            result = await run_piece(piece, version)
            results.add(piece, result)
            on_result(piece, result)

    with trio.move_on_at(deadline):
        async with trio.open_nursery() as nursery:
            for _ in range(jobs):
                nursery.start_soon(work)


async def run_piece(
    piece: Piece, version: str, *, max_seconds: float = MAX_PIECE_SECONDS
) -> Result:
    """Run the tests of a piece in a process of their own; a cancelled run ends the process."""
    began = trio.current_time()
    with tempfile.TemporaryDirectory() as folder:
        report, output = Path(folder) / "junit.xml", Path(folder) / "output"
        with output.open("wb") as out, trio.move_on_after(max_seconds) as limit:
            await trio.run_process(
                _command(piece, report),
                cwd=ROOT,
                stdout=out,
                stderr=subprocess.STDOUT,
                check=False,
                start_new_session=True,
                deliver_cancel=_stop_group,
            )
        seconds = trio.current_time() - began
        covered: dict[str, int] = {}
        failures: tuple[str, ...]
        if limit.cancelled_caught:
            failures = (f"it was still running after {max_seconds:g} s",)
        elif not report.exists():
            failures = ("pytest ended without a report",)
        else:
            covered, failures = read_junit(report)
        if failures:
            failures = (*failures, output.read_text(errors="replace")[-10_000:])
    outcome: Outcome = "failed" if failures else "passed"
    return Result(outcome, round(seconds, 1), piece.tests, version, covered, failures)


def _command(piece: Piece, report: Path) -> list[str]:
    # `xunit1` has the properties of a test and its file.
    options = ["-q", "-m", "soak", "-p", "no:cacheprovider", "-o", "junit_family=xunit1"]
    return [sys.executable, "-m", "pytest", *options, f"--junitxml={report}", *piece.tests]


async def _stop_group(process: trio.Process) -> None:
    """Interrupt pytest, and kill its whole group if that is not enough."""
    process.send_signal(signal.SIGINT)
    with trio.move_on_after(STOP_SECONDS):
        await process.wait()
        return
    os.killpg(process.pid, signal.SIGKILL)
