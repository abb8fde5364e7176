"""The pieces of the soak: tests with the mark `soak`, a few of one function in each."""

from __future__ import annotations

import hashlib
import itertools
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

import attrs
import trio

from . import collection

ROOT: Final = Path(__file__).parents[2]
# Files that outlive a piece: the results, and what a piece leaves for the next one of its chain.
FOLDER: Final = ROOT / ".nox" / "soak"
# So that a piece takes three minutes at most, and starting pytest is a small part of it.
MAX_TESTS_OF_A_PIECE: Final = 5
NO_TESTS_COLLECTED: Final = 5


@attrs.frozen
class SoakTest:
    """A test with the mark `soak`; the other fields are the arguments of the mark."""

    id: str
    per_piece: int = MAX_TESTS_OF_A_PIECE
    in_order: bool = False

    @property
    def function(self) -> str:
        return self.id.partition("[")[0]


@attrs.frozen
class Piece:
    """Some tests of one function, which are run by one process."""

    name: str
    tests: tuple[str, ...]
    # The piece that must have passed before this one starts.
    after: Piece | None = None


async def collect(paths: Sequence[str] = ()) -> list[Piece]:
    """Return all pieces below the paths; raise RuntimeError with pytest's output if it fails."""
    with tempfile.TemporaryDirectory() as folder:
        listed = Path(folder) / "tests.json"
        plugin = ["-p", collection.__name__, f"{collection.OPTION}={listed}"]
        ended = await trio.run_process(
            [sys.executable, "-m", "pytest", "--collect-only", "-q", "-m", "soak", *plugin, *paths],
            cwd=ROOT,
            capture_stdout=True,
            stderr=subprocess.STDOUT,
            check=False,
            start_new_session=True,  # Ctrl-C reaches the runner only
        )
        if ended.returncode not in (0, NO_TESTS_COLLECTED):
            output = ended.stdout.decode(errors="replace")
            raise RuntimeError(f"pytest cannot collect the tests:\n{output}")
        return cut(SoakTest(**found) for found in json.loads(listed.read_text()))


def cut(tests: Iterable[SoakTest]) -> list[Piece]:
    """Return the tests in pieces, in order; a piece has tests of one function only."""
    by_function = itertools.groupby(tests, key=lambda test: test.function)
    return [piece for function, found in by_function for piece in _cut_one(function, [*found])]


def _cut_one(function: str, tests: Sequence[SoakTest]) -> Iterator[Piece]:
    size = 1 if tests[0].in_order else tests[0].per_piece
    parts = [tests[start : start + size] for start in range(0, len(tests), size)]
    last: Piece | None = None
    for number, part in enumerate(parts, start=1):
        name = function if len(parts) == 1 else f"{function} {number}/{len(parts)}"
        after = last if tests[0].in_order else None
        last = Piece(name, tuple(test.id for test in part), after)
        yield last


def code_version(root: Path = ROOT) -> str:
    """Return the commit, and a digest of the uncommitted changes if there are any."""

    def git(*words: str) -> bytes:
        return subprocess.run(
            ["git", *words],  # noqa: S607 - the git of the developer
            cwd=root,
            capture_output=True,
            check=True,
        ).stdout.strip()

    try:
        commit = git("rev-parse", "--short=12", "HEAD").decode()
        changes = git("status", "--porcelain") + git("diff", "HEAD")
    except (OSError, subprocess.CalledProcessError):
        return "no commit"
    return f"{commit}+{hashlib.sha256(changes).hexdigest()[:8]}" if changes else commit
