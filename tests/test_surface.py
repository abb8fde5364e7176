"""The package itself: every public name, brought in only when it is asked for."""

import ast
import subprocess
import sys
import typing
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import supervisor
from supervisor.core.creation import PromptOptions, SendOptions, SpawnOptions

TREE = ast.parse(Path(supervisor.__file__).read_text())


def for_type_checkers() -> set[tuple[str, str]]:
    """What a type checker is told: which module each name comes from."""
    return {
        (node.module or "", alias.name)
        for node in ast.walk(TREE)
        if isinstance(node, ast.ImportFrom) and node.level == 1
        for alias in node.names
    }


def test_the_names_for_type_checkers_match_the_lazy_imports() -> None:
    told = {(home, name) for home, names in supervisor._MODULES.items() for name in names}

    assert told == for_type_checkers()
    assert sorted(name for _, name in told) == supervisor.__all__


@pytest.mark.parametrize("name", supervisor.__all__)
def test_every_public_name_is_there(name: str) -> None:
    assert getattr(supervisor, name) is not None
    assert name in dir(supervisor)


def test_an_unknown_name_raises_attribute_error() -> None:
    with pytest.raises(AttributeError, match="nonsense"):
        supervisor.nonsense  # noqa: B018 - asked for, to see what happens


def test_importing_the_package_imports_nothing_heavy() -> None:
    look = "import sys, supervisor; print(*sorted(sys.modules))"
    loaded = subprocess.run(
        [sys.executable, "-c", look], check=True, capture_output=True, text=True
    ).stdout.split()

    assert not {"trio", "attrs", "attr", "sqlite3", "orjson", "cattrs"} & set(loaded)


@pytest.mark.parametrize(
    ("method", "options"),
    [
        (supervisor.Session.send, SendOptions),
        (supervisor.Session.prompt, PromptOptions),
        (supervisor.Session.spawn, SpawnOptions),
    ],
)
def test_options_of_an_agents_child_are_those_of_a_session(
    method: Callable[..., Any], options: type
) -> None:
    hints = typing.get_type_hints(method)
    wanted = {name: hint for name, hint in hints.items() if name not in ("agent", "text", "return")}
    if wanted.pop("options", None) is not None:
        wanted |= typing.get_type_hints(supervisor.Options)

    assert typing.get_type_hints(options) == wanted
