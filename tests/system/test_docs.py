"""The documentation lists exactly the public names of the code."""

import re
from pathlib import Path
from types import ModuleType

import pytest

import actors
import actors.testing
import supervisor

ROOT = Path(__file__).parents[2]
REFERENCE = Path(__file__).parents[2] / "docs/reference"
ENTRY = re.compile(r"^\.\. (?:auto|py:)(?:class|exception|function|type):: (\w+)", re.MULTILINE)
ERROR = re.compile(r"^\| `(\w+)` \| `(\w+)` \|$", re.MULTILINE)


def names_listed(page: str, module: str) -> list[str]:
    """Return the names that a page documents between `py:module:: MODULE` and the next module."""
    text = (REFERENCE / page).read_text()
    _, _, after = text.partition(f"py:module:: {module}\n")
    return ENTRY.findall(after.partition("py:module::")[0])


@pytest.mark.parametrize(
    "module", [actors, actors.testing, supervisor], ids=lambda module: module.__name__
)
def test_the_reference_lists_exactly_the_public_names(module: ModuleType) -> None:
    page = module.__name__.partition(".")[0] + ".md"

    listed = names_listed(page, module.__name__)

    assert sorted(listed) == sorted(module.__all__)


def test_the_reference_lists_every_error_with_its_code() -> None:
    listed = ERROR.findall((REFERENCE / "supervisor.md").read_text())

    errors = [
        error
        for name in supervisor.__all__
        if isinstance(error := getattr(supervisor, name), type)
        and issubclass(error, supervisor.SupervisorError)
        and error is not supervisor.SupervisorError
    ]

    assert sorted(listed) == sorted((error.code, error.__name__) for error in errors)


def test_every_file_linked_by_the_readme_exists() -> None:
    """Sphinx checks only the links inside docs/."""
    links = re.findall(r"\]\((?!https?:)([^)#]+)", (ROOT / "README.md").read_text())

    assert len(links) > 20
    assert [link for link in links if not (ROOT / link).is_file()] == []
