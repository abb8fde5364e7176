"""The reference page of the tools is the one of the code."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

from supervisor.mcp_server.tool_list import TOOLS

SCRIPT = Path(__file__).parents[3] / "docs" / "tools.py"


@pytest.fixture
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("tools_page", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_has_every_tool_with_its_arguments_and_its_answer(script: ModuleType) -> None:
    text = script.PAGE.read_text()

    assert script.page(text) == text, "run `python docs/tools.py`"


def test_a_changed_table_would_be_seen(script: ModuleType) -> None:
    text = script.PAGE.read_text()

    changed = text.replace("| `when_busy` |", "| `when` |")

    assert script.page(changed) == text != changed


def test_the_page_names_the_tools_that_only_read(script: ModuleType) -> None:
    readers = ", ".join(f"`{tool.name}`" for tool in TOOLS if tool.is_read_only)

    assert f"the tools that only read: {readers}." in script.PAGE.read_text()
