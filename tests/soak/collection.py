"""Plug-in of pytest that lists the soak tests, with the arguments of their marks.

`@pytest.mark.soak(per_piece=2)` runs two tests of a function in one piece. With
`@pytest.mark.soak(in_order=True)` each test is a piece, which starts after the one before passed.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

import pytest

OPTION: Final = "--soak-list"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(OPTION, type=Path, required=True, help="file for the list, as JSON")


def pytest_collection_finish(session: pytest.Session) -> None:
    listed = [{"id": _id(item), **_arguments(item)} for item in session.items]
    session.config.getoption(OPTION).write_text(json.dumps(listed))


def _id(item: pytest.Item) -> str:
    """Return the id by which pytest finds the test from the current directory."""
    here = Path.cwd()
    path = item.path.relative_to(here) if item.path.is_relative_to(here) else item.path
    return f"{path}::{item.nodeid.partition('::')[2]}"


def _arguments(item: pytest.Item) -> dict[str, object]:
    mark = item.get_closest_marker("soak")
    return {} if mark is None else dict(mark.kwargs)
