"""Results of pieces, kept in a file, so that a soak goes on where it was interrupted.

Rule 1: the file is replaced after every piece; an interrupt loses only pieces that were running.
Rule 2: a result belongs to the code and to the tests it was obtained with.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final, Literal
from xml.etree import ElementTree as ET

import attrs

from .pieces import Piece

Outcome = Literal["passed", "failed"]

# The name of the property by which a test says what it covered: `500 schedules`.
COVERED: Final = "covered"


@attrs.frozen
class Result:
    """The outcome of one piece."""

    outcome: Outcome
    seconds: float
    tests: tuple[str, ...]
    version: str
    # Counts by unit, for example of schedules or kills.
    covered: dict[str, int]
    # The failed tests, or why pytest made no report.
    failures: tuple[str, ...] = ()


class Results:
    """The last result of every piece."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._results: dict[str, Result] = {}
        if path.exists():
            for name, found in json.loads(path.read_text()).items():
                fields: dict[str, Any] = {
                    **found,
                    "tests": tuple(found["tests"]),
                    "failures": tuple(found["failures"]),
                }
                self._results[name] = Result(**fields)

    def find(self, piece: Piece) -> Result | None:
        """Return the last result of the piece; None if its tests are others now."""
        result = self._results.get(piece.name)
        return result if result is not None and result.tests == piece.tests else None

    def add(self, piece: Piece, result: Result) -> None:
        """Keep a result, and write the file."""
        self._results[piece.name] = result
        self._path.parent.mkdir(parents=True, exist_ok=True)
        draft = self._path.with_suffix(".new")
        texts = {name: attrs.asdict(one) for name, one in self._results.items()}
        draft.write_text(json.dumps(texts, indent=1))
        draft.replace(self._path)


def read_junit(report: Path, tests: int) -> tuple[dict[str, int], tuple[str, ...]]:
    """Return what the tests covered, and what failed, from pytest's report of that many tests."""
    covered: Counter[str] = Counter()
    failed: list[str] = []
    finished = 0
    for case in ET.parse(report).iter("testcase"):  # noqa: S314 - our own file
        finished += case.find("skipped") is None
        if case.find("failure") is not None or case.find("error") is not None:
            failed.append(f"{case.get('file')}::{case.get('name')}")
        covered.update(_counts(case.iter("property")))
    if finished < tests:
        failed.append(f"pytest ran {finished} of {tests} tests")
    return dict(covered), tuple(failed)


def _counts(properties: Iterable[ET.Element]) -> Counter[str]:
    counts: Counter[str] = Counter()
    for one in properties:
        if one.get("name") == COVERED:
            number, _, unit = one.get("value", "").partition(" ")
            counts[unit] += int(number)
    return counts
