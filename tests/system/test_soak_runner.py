"""The runner of the soak: pieces, results that are kept, interrupts, the report."""

from __future__ import annotations

import math
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
import trio

from supervisor.drivers.identity import is_alive
from tests.soak import runner
from tests.soak.__main__ import arguments, in_order
from tests.soak.pieces import ROOT, Piece, SoakTest, code_version, collect, cut
from tests.soak.report import has_passed, report
from tests.soak.results import Result, Results, read_junit
from tests.support.process_programs import known, wait_for

# Only a runner that hangs takes longer to start pytest twice.
START_SECONDS = 300.0
PROGRAM = """
import os
import pathlib
import subprocess
import time

import pytest

pytestmark = pytest.mark.soak
FOLDER = pathlib.Path(__file__).parent

def test_counts(record_property):
    record_property("covered", "20 schedules")

def test_fails(record_property):
    record_property("covered", "3 kills")
    assert False, "on purpose"

class Seed(int):
    def __repr__(self):
        return f"<seed {int(self)}, pct>"

def test_finds_seeds():
    assert [Seed(number) for number in range(1000, 1200)] == []

def test_hangs():
    (FOLDER / "pid").write_text(str(os.getpid()))
    time.sleep(600)

def test_leaves_a_process():
    left = subprocess.Popen(["sleep", "600"], start_new_session=True)
    (FOLDER / "pids").write_text(f"{os.getpid()} {left.pid} ")
    time.sleep(600)

@pytest.mark.soak(in_order=True)
@pytest.mark.parametrize("part", [1, 2, 3])
def test_parts(part):
    (FOLDER / f"part{part}").touch()
    assert part == 1 or (FOLDER / f"part{part - 1}").exists()
    assert part < 2, "on purpose"
"""


@pytest.fixture
def piece(tmp_path: Path) -> Callable[[str], Piece]:
    """Return a function that returns the piece with one test of `PROGRAM`."""
    path = write_program(tmp_path)
    return lambda name: Piece(name, (f"{path}::{name}",))


def write_program(folder: Path) -> Path:
    path = folder / "test_program.py"
    path.write_text(PROGRAM)
    return path


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
    tests = [*(SoakTest(f"a.py::x[{number}]", per_piece=2) for number in range(3))]
    pieces = cut([*tests, SoakTest("a.py::y")])

    assert [(one.name, len(one.tests)) for one in pieces] == [
        ("a.py::x 1/2", 2),
        ("a.py::x 2/2", 1),
        ("a.py::y", 1),
    ]


def test_tests_in_order_are_a_chain_of_pieces() -> None:
    first, second = cut([SoakTest(f"a.py::x[{part}]", in_order=True) for part in (1, 2)])

    assert (first.after, second.after) == (None, first)
    assert (first.tests, second.tests) == (("a.py::x[1]",), ("a.py::x[2]",))


async def test_a_piece_starts_only_after_the_one_before_has_passed(tmp_path: Path) -> None:
    path = write_program(tmp_path)
    pieces = [one for one in await collect([str(path)]) if "test_parts" in one.name]
    assert [one.name[-3:] for one in pieces] == ["1/3", "2/3", "3/3"]

    seen = await run([*reversed(pieces)], Results(tmp_path / "state.json"))

    assert seen == [(pieces[0].name, "passed"), (pieces[1].name, "failed")]


def test_a_terminated_runner_ends_its_piece_and_the_processes_of_the_piece(tmp_path: Path) -> None:
    path, pids = write_program(tmp_path), tmp_path / "pids"
    words = [f"--state={tmp_path / 'state.json'}", f"{path}::test_leaves_a_process"]
    command = [sys.executable, "-m", "tests.soak", *words]

    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as soak:
        try:
            wait_for(lambda: pids.exists() and pids.read_text().endswith(" "), START_SECONDS)
            running = [known(int(pid)) for pid in pids.read_text().split()]
        finally:
            soak.terminate()
        output, _ = soak.communicate()

    assert soak.returncode == 128 + signal.SIGTERM
    assert "1 pieces: 0 passed, 0 failed, 1 not run" in output
    assert [one.pid for one in running if is_alive(one)] == []


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


def test_the_kept_output_has_every_line_that_names_a_seed() -> None:
    filler = "x" * 99 + "\n"
    output = "<seed 338, pct: 1>\n" + filler * 50 + "@seed(7)\n<seed 338, pct: 1>\n" + filler * 150
    lines = runner.kept_output(output).splitlines()

    assert lines == ["<seed 338, pct: 1>", "@seed(7)", *filler.split() * 100]
    assert runner.kept_output(output[-300:]) == output[-300:]
    cut_line = "seed 1" + "y" * runner.OUTPUT_END
    assert runner.kept_output(cut_line) == f"{cut_line}\n{cut_line[6:]}"


async def test_a_failed_piece_names_all_failing_seeds(piece: Callable[[str], Piece]) -> None:
    found = await runner.run_piece(piece("test_finds_seeds"), "v1")

    assert all(f"<seed {seed}, pct>" in found.failures[-1] for seed in range(1000, 1200))


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


def test_a_chain_of_pieces_starts_before_a_single_piece_of_the_same_length(tmp_path: Path) -> None:
    single, first = Piece("a", ("a",)), Piece("b 1/2", ("b1",))
    second, results = Piece("b 2/2", ("b2",), first), Results(tmp_path / "state.json")
    assert in_order([single, first, second], results) == [first, single, second]

    for one in (single, first, second):
        results.add(one, result(one, seconds=5.0))

    assert in_order([single, first, second], results) == [first, single, second]


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

    assert read_junit(tmp_path / "junit.xml", 1) == ({}, ("t.py::x",))


def test_a_test_that_pytest_does_not_find_fails_its_piece(tmp_path: Path) -> None:
    (tmp_path / "junit.xml").write_text("<testsuites><testsuite tests='0'/></testsuites>")

    assert read_junit(tmp_path / "junit.xml", 5) == ({}, ("pytest ran 0 of 5 tests",))


def test_options_have_defaults_that_run_everything() -> None:
    given = arguments([])

    assert (given.paths, given.minutes, given.again, given.report) == ([], math.inf, False, False)
