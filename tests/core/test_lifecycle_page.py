"""The lifecycle in the documentation is the one in the table."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

DRAWING = Path(__file__).parents[2] / "docs" / "lifecycle.py"


@pytest.fixture
def lifecycle() -> ModuleType:
    spec = importlib.util.spec_from_file_location("lifecycle", DRAWING)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_is_drawn_from_the_table(lifecycle: ModuleType) -> None:
    assert lifecycle.PAGE.read_text() == lifecycle.page(), "run `python docs/lifecycle.py`"


def test_the_picture_is_drawn_from_the_table(lifecycle: ModuleType) -> None:
    assert lifecycle.PICTURE.read_text() == lifecycle.picture(), "run `python docs/lifecycle.py`"
