"""Where values come from, and what is wrong with some of them.

Rule 1: every value knows its origin, so that whoever wonders about it finds the line to change.
Rule 2: a wrong value is a `Problem`, not the end: all of them are found before anybody is told.
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

_BARE: Final = re.compile(r"[A-Za-z0-9_-]+")


@attrs.frozen
class Origin:
    """Where a value comes from: `name` is that of the preset, file, variable or flag."""

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
            case _:
                return f"{self.kind} {self.name}"


DEFAULT: Final = Origin("default")


@attrs.frozen
class Value:
    """A value that was read, and where it comes from."""

    value: object
    origin: Origin


@attrs.frozen
class Problem:
    """Something wrong in a configuration; `path` is empty if it is a file as a whole."""

    path: str
    problem: str
    hint: str
    origin: Origin

    def __str__(self) -> str:
        what = f"{self.path} {self.problem}" if self.path else self.problem
        return f"{self.origin}: {what}; {self.hint}"


class Wrong(Exception):
    """Raised by whatever reads one value: what is wrong with it, and what to write instead."""

    def __init__(self, problem: str, *, hint: str) -> None:
        super().__init__(problem)
        self.problem = problem
        self.hint = hint


@attrs.frozen(kw_only=True)
class Source:
    """A layer of values: a file, the environment, or the flags.

    Paths that are not absolute begin at `folder`. `is_text` says that it cannot tell a number from
    its digits. A `name` is not needed where each value has its own.
    """

    kind: OriginKind
    name: str = ""
    folder: Path
    home: Path
    is_text: bool = False
    lines: Mapping[KeyPath, int] = attrs.field(factory=dict, repr=False)

    def origin(self, path: KeyPath) -> Origin:
        """Where the value of that path stands in it."""
        name = printable(self.name) if self.name else dotted(path)
        return Origin(self.kind, name, self.lines.get(path))


def dotted(path: KeyPath) -> str:
    """The path as one writes it: names with anything odd in them in quotes, and harmless."""
    return ".".join(part if _BARE.fullmatch(part) else ascii(part) for part in path)


def printable(text: str) -> str:
    """The text, with nothing in it that a terminal would obey."""
    return text if text.isprintable() else ascii(text)[1:-1]


def refusal(problems: Iterable[Problem]) -> ConfigError:
    """One error that says all that is wrong."""
    found = list(problems)
    if len(found) == 1:
        (only,) = found
        what = f"{only.path} {only.problem}" if only.path else only.problem
        return ConfigError(f"{only.origin}: {what}", hint=only.hint)
    listed = "".join(f"\n  {problem}" for problem in found)
    return ConfigError(
        f"the configuration has {len(found)} problems:{listed}\n",
        hint="`understudy config check` looks again",
    )
