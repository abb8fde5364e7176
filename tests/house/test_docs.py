"""The documentation says what the code has, no more and no less."""

import re
from pathlib import Path
from types import ModuleType

import pytest

import actors
import actors.testing

REFERENCE = Path(__file__).parents[2] / "docs/reference"
ENTRY = re.compile(r"^\.\. (?:auto|py:)(?:class|exception|function|type):: (\w+)", re.MULTILINE)


def names_listed(page: str, module: str) -> list[str]:
    """The names that a page documents between `py:module:: MODULE` and the next module."""
    text = (REFERENCE / page).read_text()
    _, _, after = text.partition(f"py:module:: {module}\n")
    return ENTRY.findall(after.partition("py:module::")[0])


@pytest.mark.parametrize("module", [actors, actors.testing], ids=lambda module: module.__name__)
def test_the_reference_lists_exactly_the_public_names(module: ModuleType) -> None:
    listed = names_listed("actors.md", module.__name__)

    assert sorted(listed) == sorted(module.__all__)
