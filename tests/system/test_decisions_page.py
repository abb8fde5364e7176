"""The index of decisions lists every page, and every page has the agreed shape."""

import re
import runpy
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted((ROOT / "docs/decisions").glob("[0-9]*.md"))
REFERENCE = re.compile(r"\bdecision (\d+)\b", re.IGNORECASE)


@pytest.fixture(scope="module")
def script() -> dict[str, Any]:
    return runpy.run_path(str(ROOT / "docs/decisions.py"))


def test_the_index_equals_the_output_of_the_script(script: dict[str, Any]) -> None:
    assert (ROOT / "docs/decisions/index.md").read_text() == script["page"]()


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem[:4])
def test_a_decision_page_has_its_sections_in_order(path: Path, script: dict[str, Any]) -> None:
    headings = re.findall(r"^## (.+)$", path.read_text(), re.MULTILINE)

    assert tuple(headings) == script["SECTIONS"]


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem[:4])
def test_a_decision_page_has_a_known_area_and_its_own_number(
    path: Path, script: dict[str, Any]
) -> None:
    decision = script["read"](path)

    assert decision.area in script["AREAS"]
    assert path.name.startswith(f"{decision.number:04}-")


def test_no_decision_number_is_used_twice() -> None:
    numbers = [path.name[:4] for path in PAGES]

    assert len(set(numbers)) == len(numbers)


def test_every_referenced_decision_has_a_page_or_was_dropped(
    script: dict[str, Any],
) -> None:
    known = {decision.number for decision in script["decisions"]()} | {11, 22, 68}
    files = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    files += [p for name in ("actors", "supervisor") for p in (ROOT / name).rglob("*.py")]

    cited = {int(number) for path in files for number in REFERENCE.findall(path.read_text())}

    assert cited - known == set()
