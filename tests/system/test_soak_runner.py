"""The runner of the soak: pieces, results that are kept, interrupts, the report."""

from __future__ import annotations

import math
import os
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
import trio

from tests.soak import runner
from tests.soak.__main__ import arguments, in_order
from tests.soak.pieces import Piece, code_version, cut
from tests.soak.report import has_passed, report
from tests.soak.results import Result, Results, read_junit

PROGRAM = """
import os
import pathlib
import time

import pytest

pytestmark = pytest.mark.soak

def test_counts(record_property):
    record_property("covered", "20 schedules")

def test_fails(record_property):
    record_property("covered", "3 kills")
    assert False, "on purpose"

def test_hangs():
    pathlib.Path(__file__).with_name("pid").write_text(str(os.getpid()))
    time.sleep(600)
"""


@pytest.fixture
def piece(tmp_path: Path) -> Callable[[str], Piece]:
    """Return a function that returns the piece with one test of `PROGRAM`."""
    path = tmp_path / "test_program.py"
    path.write_text(PROGRAM)
    return lambda name: Piece(name, (f"{path}::{name}",))


def result(piece: Piece, outcome: str = "passed", **fields: object) -> Result:
    given = {"seconds": 1.0, "version": "v1", "covered": {"schedules": 20}, **fields}
    return Result(outcome=outcome, tests=piece.tests, **given)  # type: ignore[arg-type]


async def run(
    pieces: Sequence[Piece], results: Results, *, seconds: float = math.inf
) -> list[tuple[str, str]]:
    seen: list[tuple[str, str]] = []
    await runner.run_pieces(
        pieces,
        results,
        version="v1",
        jobs=2,
        seconds=seconds,
        on_result=lambda piece, result: seen.append((piece.name, result.outcome)),
    )
    return seen


def test_a_piece_has_a_few_tests_of_one_function() -> None:
    pieces = cut(["a.py::x[0]", "a.py::x[1]", "a.py::x[2]", "a.py::y"], size=2)

    assert [(one.name, len(one.tests)) for one in pieces] == [
        ("a.py::x 1/2", 2),
        ("a.py::x 2/2", 1),
        ("a.py::y", 1),
    ]


async def test_pieces_run_and_their_results_are_kept(
    tmp_path: Path, piece: Callable[[str], Piece]
) -> None:
    pieces = [piece("test_counts"), piece("test_fails")]
    seen = await run(pieces, Results(tmp_path / "state.json"))

    kept = Results(tmp_path / "state.json")
    passed, failed = (kept.find(one) for one in pieces)
    assert sorted(seen) == [("test_counts", "passed"), ("test_fails", "failed")]
    assert passed is not None
    assert failed is not None
    assert (passed.covered, failed.covered) == ({"schedules": 20}, {"kills": 3})
    assert "on purpose" in failed.failures[-1]


async def test_a_piece_that_hangs_fails(piece: Callable[[str], Piece]) -> None:
    found = await runner.run_piece(piece("test_hangs"), "v1", max_seconds=0.5)

    assert (found.outcome, found.failures[0]) == ("failed", "it was still running after 0.5 s")


async def test_a_piece_that_is_running_at_the_end_has_no_result(
    tmp_path: Path, piece: Callable[[str], Piece]
) -> None:
    results, hanging, pid = Results(tmp_path / "state.json"), piece("test_hangs"), tmp_path / "pid"

    with trio.fail_after(60):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(run, [hanging], results)
            while not (pid.exists() and pid.read_text()):  # noqa: ASYNC110 - a fact of a process
                await trio.sleep(0.05)
            nursery.cancel_scope.cancel()

    assert results.find(hanging) is None
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid.read_text()), 0)


async def test_a_piece_that_would_not_end_in_time_is_not_started(
    tmp_path: Path, piece: Callable[[str], Piece]
) -> None:
    results, long = Results(tmp_path / "state.json"), piece("test_hangs")
    results.add(long, result(long, seconds=1000.0))

    assert await run([long], results, seconds=100.0) == []


def test_a_result_counts_only_for_its_tests_and_its_code(tmp_path: Path) -> None:
    old, new = Piece("a", ("a::x",)), Piece("a", ("a::x", "a::y"))
    results = Results(tmp_path / "state.json")
    results.add(old, result(old))

    assert has_passed(results.find(old), "v1")
    assert has_passed(results.find(old), None)
    assert not has_passed(results.find(old), "v2")
    assert results.find(new) is None


def test_failed_and_unknown_pieces_run_first(tmp_path: Path) -> None:
    short, long, failed, unknown = (Piece(name, (name,)) for name in "abcd")
    results = Results(tmp_path / "state.json")
    results.add(short, result(short, seconds=1.0))
    results.add(long, result(long, seconds=9.0))
    results.add(failed, result(failed, "failed"))

    assert in_order([short, long, failed, unknown], results) == [failed, unknown, long, short]


def test_the_report_sums_what_was_covered_and_names_what_is_left(tmp_path: Path) -> None:
    pieces = [Piece(name, (name,)) for name in "abc"]
    results = Results(tmp_path / "state.json")
    results.add(pieces[0], result(pieces[0], seconds=61.0))
    results.add(pieces[1], result(pieces[1], "failed", failures=("b: on purpose",)))

    text = report(pieces, results, "v1")

    assert "| a | 1 | 20 schedules | 61 | passed |" in text
    assert "| c | 1 | | | not run |" in text
    assert "3 pieces: 1 passed, 1 failed, 1 not run; 2 tests in 62 s of work" in text
    assert "covered: 40 schedules\nfailed: b: on purpose\nrun the same command again" in text


def test_the_version_changes_with_every_change_of_the_code(tmp_path: Path) -> None:
    def git(*words: str) -> None:
        author = ("-c", "user.name=a", "-c", "user.email=a@b")
        subprocess.run(["git", *author, *words], cwd=tmp_path, check=True)  # noqa: S607

    assert code_version(tmp_path) == "no commit"
    git("init", "-q")
    (tmp_path / "a").write_text("1")
    git("add", "a")
    git("commit", "-qm", "first")
    clean = code_version(tmp_path)
    (tmp_path / "a").write_text("2")

    assert code_version(tmp_path) != clean == code_version(tmp_path).partition("+")[0]


def test_a_test_that_errors_in_its_fixture_counts_as_failed(tmp_path: Path) -> None:
    (tmp_path / "junit.xml").write_text(
        '<testsuites><testcase file="t.py" name="x"><error/></testcase></testsuites>'
    )

    assert read_junit(tmp_path / "junit.xml") == ({}, ("t.py::x",))


def test_options_have_defaults_that_run_everything() -> None:
    given = arguments([])

    assert (given.paths, given.minutes, given.again, given.report) == ([], math.inf, False, False)
