"""The pieces of the soak: tests with the mark `soak`, a few of one function in each."""

from __future__ import annotations

import hashlib
import itertools
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

import attrs

ROOT: Final = Path(__file__).parents[2]
# So that a piece takes a few minutes at most, and starting pytest is a small part of it.
MAX_TESTS_OF_A_PIECE: Final = 5
NO_TESTS_COLLECTED: Final = 5


@attrs.frozen
class Piece:
    """Some tests of one function, which are run by one process."""

    name: str
    tests: tuple[str, ...]


def collect(paths: Sequence[str] = ()) -> list[Piece]:
    """Return all pieces below the paths; raise RuntimeError with pytest's output if it fails."""
    listed = subprocess.run(
        [sys.executable, "-m", "pytest", "--collect-only", "-q", "-m", "soak", *paths],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if listed.returncode not in (0, NO_TESTS_COLLECTED):
        raise RuntimeError(f"pytest cannot collect the tests:\n{listed.stdout}{listed.stderr}")
    return cut(line for line in listed.stdout.splitlines() if "::" in line)


def cut(tests: Iterable[str], size: int = MAX_TESTS_OF_A_PIECE) -> list[Piece]:
    """Return the tests in pieces, in order; a piece has tests of one function only."""
    pieces: list[Piece] = []
    for function, found in itertools.groupby(tests, key=lambda test: test.partition("[")[0]):
        members = tuple(found)
        parts = [members[start : start + size] for start in range(0, len(members), size)]
        for number, part in enumerate(parts, start=1):
            name = function if len(parts) == 1 else f"{function} {number}/{len(parts)}"
            pieces.append(Piece(name, part))
    return pieces


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
