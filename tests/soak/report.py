"""The report of a soak: what was covered by which piece, how long it took, and what is left."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from .pieces import Piece
from .results import Result, Results


def has_passed(result: Result | None, version: str | None) -> bool:
    """Return True if the piece passed with that version of the code; None: with any."""
    if result is None or result.outcome != "passed":
        return False
    return version is None or result.version == version


def report(pieces: Sequence[Piece], results: Results, version: str | None) -> str:
    """Return the report as Markdown: a line for each piece, then the sums."""
    return "\n".join((*_table(pieces, results, version), "", *_sums(pieces, results, version)))


def _table(pieces: Sequence[Piece], results: Results, version: str | None) -> Iterator[str]:
    yield "| piece | tests | covered | seconds | outcome |"
    yield "|---|--:|---|--:|---|"
    for piece in pieces:
        result = _current(results.find(piece), version)
        name = piece.name.removeprefix("tests/")
        if result is None:
            yield f"| {name} | {len(piece.tests)} | | | not run |"
        else:
            yield (
                f"| {name} | {len(piece.tests)} | {counts(result.covered)}"
                f" | {result.seconds:.0f} | {result.outcome} |"
            )


def _sums(pieces: Sequence[Piece], results: Results, version: str | None) -> Iterator[str]:
    found = [_current(results.find(piece), version) for piece in pieces]
    done = [result for result in found if result is not None]
    failed = [result for result in done if result.outcome == "failed"]
    left = len(pieces) - len(done)
    covered: Counter[str] = Counter()
    for result in done:
        covered.update(result.covered)
    passed = len(done) - len(failed)
    tests = sum(len(result.tests) for result in done)
    yield (
        f"{len(pieces)} pieces: {passed} passed, {len(failed)} failed, {left} not run;"
        f" {tests} tests in {sum(result.seconds for result in done):,.0f} s of work"
        f" (code: {version or 'any'})"
    )
    yield f"covered: {counts(covered) or 'nothing'}"
    for result in failed:
        yield "failed: " + "\n".join(result.failures)
    if left:
        yield "run the same command again for the pieces that are left"


def _current(result: Result | None, version: str | None) -> Result | None:
    is_current = result is not None and (version is None or result.version == version)
    return result if is_current else None


def counts(covered: Mapping[str, int]) -> str:
    """Return the counts as text: `3 kills, 20 schedules`."""
    return ", ".join(f"{number:,} {unit}" for unit, number in sorted(covered.items()))
