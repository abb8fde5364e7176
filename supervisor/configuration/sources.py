"""Origins of values, and problems.

Rule 1: every value has its origin, which tells the user the line to change.
Rule 2: a wrong value is a `ConfigProblem`; all problems are collected before any is reported.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final, Literal, TypeAlias

import attrs

from supervisor.core.errors import ConfigError

OriginKind: TypeAlias = Literal["default", "preset", "file", "environment", "flag"]

# The names of the tables and of the value, from the top: ("settings", "limits", "max_depth").
KeyPath: TypeAlias = tuple[str, ...]

_BARE_KEY: Final = re.compile(r"[A-Za-z0-9_-]+")


@attrs.frozen
class Origin:
    """Origin of a value; `name` names the preset, file, variable or flag."""

    kind: OriginKind
    name: str = ""
    line: int | None = None

    def __str__(self) -> str:
        match self.kind:
            case "default":
                return "default"
            case "file":
                return self.name if self.line is None else f"{self.name} line {self.line}"
            case "environment":
                return f"${self.name}"
            case "flag" if self.name.startswith("--"):
                return self.name
            case _:
                return f"{self.kind} {self.name}"


DEFAULT: Final = Origin("default")


@attrs.frozen
class Value:
    """A value with its origin."""

    value: object
    origin: Origin


@attrs.frozen
class ConfigProblem:
    """A problem of a configuration; `path` is empty if it concerns a whole file."""

    path: str
    problem: str
    hint: str
    origin: Origin

    @property
    def sentence(self) -> str:
        """The origin and the problem, with the path that it concerns."""
        match self.origin.kind:
            case "environment" if not self.path:
                return f"{self.origin} {self.problem}"
            case "flag" if self.origin.name.startswith("--"):
                return f"{self.origin} {self.problem}"
            case _:
                what = f"{self.path} {self.problem}" if self.path else self.problem
                return f"{self.origin}: {what}"

    def __str__(self) -> str:
        return f"{self.sentence}; {self.hint}"


class InvalidValue(Exception):
    """A value that cannot be used, and what to write instead; raised by readers."""

    def __init__(self, problem: str, *, hint: str) -> None:
        super().__init__(problem)
        self.problem = problem
        self.hint = hint


@attrs.frozen(kw_only=True)
class Source:
    """A layer of values: a file, the environment, or the flags.

    Relative paths start at `folder`. With `is_text`, all values are text, numbers included. `name`
    is empty if each value has a different name: the name in `names`, by path, or the path.
    """

    kind: OriginKind
    name: str = ""
    folder: Path
    home: Path
    is_text: bool = False
    lines: Mapping[KeyPath, int] = attrs.field(factory=dict, repr=False)
    names: Mapping[str, str] = attrs.field(factory=dict, repr=False)

    def origin(self, path: KeyPath) -> Origin:
        """Return the origin of the value at a path."""
        own = self.names.get(dotted(path), dotted(path))
        name = escape_unprintable(self.name) if self.name else own
        return Origin(self.kind, name, self.lines.get(path))


def dotted(path: KeyPath) -> str:
    """Return the path as in TOML: names with other characters are quoted and escaped."""
    return ".".join(part if _BARE_KEY.fullmatch(part) else ascii(part) for part in path)


def escape_unprintable(text: str) -> str:
    """Return the text without control characters."""
    return text if text.isprintable() else ascii(text)[1:-1]


def config_error(problems: Iterable[ConfigProblem]) -> ConfigError:
    """Return one error with all problems."""
    found = list(problems)
    if len(found) == 1:
        (only,) = found
        return ConfigError(only.sentence, hint=only.hint)
    listed = "".join(f"\n  {problem}" for problem in found)
    return ConfigError(
        f"the configuration has {len(found)} problems:{listed}\n",
        hint="fix them, then run `understudy config check`",
    )
