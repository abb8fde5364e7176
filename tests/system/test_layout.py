"""The layout: shallow folders, short modules, each class name once, no module name thrice."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = ("supervisor", "actors")
# supervisor/package/folder/file.py
MAX_DEPTH = 4
MAX_SAME_MODULE_NAME = 2
MAX_LINES = 400
ENTRY_POINTS = ("__init__.py", "__main__.py")


def sources(package: str) -> list[Path]:
    return sorted((ROOT / package).rglob("*.py"))


def repeated(names: list[str], most: int) -> list[str]:
    return sorted(name for name, count in Counter(names).items() if count > most)


@pytest.mark.parametrize("package", PACKAGES)
def test_no_file_lies_deeper_than_package_folder_file(package: str) -> None:
    deep = [path for path in sources(package) if len(path.relative_to(ROOT).parts) > MAX_DEPTH]

    assert deep == []


def long_modules(paths: list[Path]) -> list[str]:
    return [path.name for path in paths if len(path.read_text().splitlines()) > MAX_LINES]


@pytest.mark.parametrize("package", PACKAGES)
def test_no_module_has_more_than_400_lines(package: str) -> None:
    assert long_modules(sources(package)) == []


def test_a_long_module_would_be_seen(tmp_path: Path) -> None:
    (tmp_path / "full.py").write_text("x = 1\n" * MAX_LINES)
    (tmp_path / "too_long.py").write_text("x = 1\n" * (MAX_LINES + 1))

    assert long_modules(sorted(tmp_path.iterdir())) == ["too_long.py"]


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


# Attributes ------------------------------------------------------------------------------

MAX_CHAIN = 3
# `_exit` and `_current_frames` are documented functions of the standard library.
LIBRARY_NAMES = frozenset({"os._exit", "sys._current_frames"})


def imported_names(tree: ast.Module) -> set[str]:
    return {
        (name.asname or name.name).partition(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in node.names
    }


def long_chains(source: str) -> list[str]:
    """Return attribute chains on an object that have more than three links.

    A chain that starts at an imported name (a module, a class) is not meant.
    """
    tree = ast.parse(source)
    imported, inner, found = imported_names(tree), set[ast.AST](), list[str]()
    for node in ast.walk(tree):  # outer nodes come before inner ones
        if not isinstance(node, ast.Attribute) or node in inner:
            continue
        length, start = 0, node
        while isinstance(start, ast.Attribute):
            inner.add(start)
            length, start = length + 1, start.value  # type: ignore[assignment]
        is_imported = isinstance(start, ast.Name) and start.id in imported
        if length > MAX_CHAIN and not is_imported:
            found.append(ast.unparse(node))
    return found


def defined_names(tree: ast.Module) -> set[str]:
    """Return the names that the module defines: functions, fields, and attributes of `self`."""
    names: set[str] = set()
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                names.add(node.name)
            case ast.Name(ctx=ast.Store()):
                names.add(node.id)
            case ast.Attribute(value=ast.Name(id="self" | "cls"), ctx=ast.Store()):
                names.add(node.attr)
    return names


def foreign_privates(source: str) -> list[str]:
    """Return private attributes of other objects that this module does not define itself."""
    tree = ast.parse(source)
    own = defined_names(tree)
    return [
        ast.unparse(node)
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and node.attr.startswith("_")
        and not node.attr.endswith("_")  # __name__, and _value2member_map_ of an enum
        and node.attr not in own
        and ast.unparse(node.value) not in ("self", "cls", "super()")
    ]


def test_no_attribute_chain_has_more_than_three_links() -> None:
    found = {str(path): long_chains(path.read_text()) for path in sources("supervisor")}

    assert {path: chains for path, chains in found.items() if chains} == {}


def test_no_module_reads_or_writes_a_private_attribute_of_another() -> None:
    found = {
        str(path): set(foreign_privates(path.read_text())) - LIBRARY_NAMES
        for path in sources("supervisor")
    }

    assert {path: names for path, names in found.items() if names} == {}


def test_a_long_chain_and_a_foreign_private_would_be_seen() -> None:
    source = "import os\nself.a.b.c.d()\nself.a.b.c = os.a.b.c.d\nother._y = self._x"

    assert long_chains(source) == ["self.a.b.c.d"]
    assert foreign_privates(source) == ["other._y"]


# Libraries -------------------------------------------------------------------------------


def imported_libraries(source: str) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Import():
                found |= {name.name.partition(".")[0] for name in node.names}
            case ast.ImportFrom(module=str(module), level=0):
                found.add(module.partition(".")[0])
    return found - set(sys.stdlib_module_names) - set(PACKAGES)


def test_the_imported_libraries_are_the_dependencies() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    declared = {re.split(r"[\[<>=]", one)[0].replace("-", "_") for one in project["dependencies"]}
    paths = [path for package in PACKAGES for path in sources(package)]

    assert set().union(*(imported_libraries(path.read_text()) for path in paths)) == declared
