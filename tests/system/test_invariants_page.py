"""The invariants page names existing tests, files and functions."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/explanation/invariants.md"


def cited(pattern: str) -> set[str]:
    return set(re.findall(pattern, PAGE.read_text()))


def defined(source: str) -> set[str]:
    """Return the names of functions, classes and annotated fields, and of record kinds."""
    return {
        name
        for pattern in (r"\bdef (\w+)\(", r"\bclass (\w+)\b", r"^\s+(\w+): ", r'"(\w+)"')
        for name in re.findall(pattern, source, re.MULTILINE)
    }


def test_every_test_named_by_the_page_exists() -> None:
    sources = [path.read_text() for path in (ROOT / "tests").rglob("test_*.py")]
    there = {name for source in sources for name in re.findall(r"def (test_\w+)\(", source)}

    assert cited(r"`(test_\w+)`") - there == set()


def test_every_file_named_by_the_page_exists() -> None:
    named = cited(r"`((?:supervisor|tests)/[\w/.]+)`")

    assert {path for path in named if not (ROOT / path).exists()} == set()
    assert named


def test_every_name_that_the_page_places_in_a_file_is_defined_there() -> None:
    """For example "`claim` in `supervisor/core/rules/agents.py`"."""
    pattern = r"`([\w.]+)`(?: and `[\w.]+`)? in `(supervisor/[\w/]+\.py)`"
    placed: list[tuple[str, str]] = re.findall(pattern, PAGE.read_text())

    assert [
        (name, path)
        for name, path in placed
        if name.rpartition(".")[2] not in defined((ROOT / path).read_text())
    ] == []
    assert len(placed) > 10


def test_every_function_and_class_named_by_the_page_exists() -> None:
    there = {
        name for path in (ROOT / "supervisor").rglob("*.py") for name in defined(path.read_text())
    }
    named = {name for name in cited(r"`([A-Za-z_][\w.]*)`") if not name.startswith("test_")}
    outside = {"fsync"}  # a call of the system

    missing = {name for name in named - outside if not set(name.split(".")) <= there}

    assert missing == set()
