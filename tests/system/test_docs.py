"""The documentation lists exactly the public names of the code, and names existing files."""

import re
from pathlib import Path
from types import ModuleType

import pytest

import actors
import actors.testing
import supervisor

ROOT = Path(__file__).parents[2]
REFERENCE = Path(__file__).parents[2] / "docs/reference"
ENTRY = re.compile(
    r"^\.\. (?:auto|py:)(?:class|data|exception|function|type):: (\w+)", re.MULTILINE
)
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


def pages() -> list[Path]:
    """Return README and all pages, without build output and the history of changes."""
    found = [ROOT / "README.md", ROOT / "SECURITY.md", *(ROOT / "docs").rglob("*.md")]
    return [page for page in found if not {"_build", "changelog.d"} & set(page.parts)]


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.name)
def test_every_source_file_named_by_a_page_exists(page: Path) -> None:
    """A path is complete, or starts below `supervisor/`, as in `core/table.py`."""
    named = re.findall(r"`([\w-]+(?:/[\w.-]+)+\.py)`", page.read_text())

    assert [
        path
        for path in named
        if not (ROOT / path).is_file() and not (ROOT / "supervisor" / path).is_file()
    ] == []


def test_the_architecture_page_names_every_package() -> None:
    text = (ROOT / "docs/explanation/architecture.md").read_text()
    packages = [
        path.stem
        for path in (ROOT / "supervisor").iterdir()
        if path.stem not in ("__init__", "__pycache__") and path.suffix in ("", ".py")
    ]

    assert [name for name in packages if f"`supervisor.{name}`" not in text] == []
