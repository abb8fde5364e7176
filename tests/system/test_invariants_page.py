"""The invariants page names existing tests and files."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/explanation/invariants.md"


def cited(pattern: str) -> set[str]:
    return set(re.findall(pattern, PAGE.read_text()))


def test_every_test_named_by_the_page_exists() -> None:
    sources = [path.read_text() for path in (ROOT / "tests").rglob("test_*.py")]
    there = {name for source in sources for name in re.findall(r"def (test_\w+)\(", source)}

    assert cited(r"`(test_\w+)`") - there == set()


def test_every_file_named_by_the_page_exists() -> None:
    named = cited(r"`((?:supervisor|tests)/[\w/.]+)`")

    assert {path for path in named if not (ROOT / path).exists()} == set()
    assert named
