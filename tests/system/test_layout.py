"""The layout: shallow folders, each class name once, no module name more than twice."""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = ("supervisor", "actors")
# supervisor/package/folder/file.py
MAX_DEPTH = 4
MAX_SAME_MODULE_NAME = 2
ENTRY_POINTS = ("__init__.py", "__main__.py")


def sources(package: str) -> list[Path]:
    return sorted((ROOT / package).rglob("*.py"))


def repeated(names: list[str], most: int) -> list[str]:
    return sorted(name for name, count in Counter(names).items() if count > most)


@pytest.mark.parametrize("package", PACKAGES)
def test_no_file_lies_deeper_than_package_folder_file(package: str) -> None:
    deep = [path for path in sources(package) if len(path.relative_to(ROOT).parts) > MAX_DEPTH]

    assert deep == []


@pytest.mark.parametrize("package", PACKAGES)
def test_a_class_name_is_defined_once(package: str) -> None:
    classes = [
        node.name
        for path in sources(package)
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ClassDef)
    ]

    assert repeated(classes, 1) == []


def test_a_module_name_is_used_at_most_twice() -> None:
    names = [path.name for path in sources("supervisor") if path.name not in ENTRY_POINTS]

    assert repeated(names, MAX_SAME_MODULE_NAME) == []


@pytest.mark.parametrize("package", PACKAGES)
def test_every_folder_is_a_package_with_a_docstring(package: str) -> None:
    folders = {path.parent for path in sources(package)}

    for folder in folders:
        init = folder / "__init__.py"
        assert init.exists(), f"import-linter does not look into {folder}"
        assert ast.get_docstring(ast.parse(init.read_text())), f"{init} states no rules"


def test_a_repeated_name_would_be_seen() -> None:
    assert repeated(["Turn", "Call", "Turn"], 1) == ["Turn"]
