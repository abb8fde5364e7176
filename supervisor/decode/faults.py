"""Faults of decoding, their texts and their paths."""

from __future__ import annotations

import difflib
import types
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import attrs

from supervisor.core.errors import ConfigError, short_repr

from .annotations import json_types

MAX_INVALID_FIELDS: Final = 20

_MAX_NAME_LENGTH: Final = 40

_TYPE_NAMES: Final[Mapping[type, str]] = {
    str: "a string",
    int: "an integer",
    float: "a number",
    bool: "true or false",
    types.NoneType: "null",
    list: "a list",
    dict: "an object",
}


@attrs.frozen
class InvalidField:
    """One fault: its path, what is wrong, and what to send instead."""

    path: str
    detail: str
    hint: str
    code: str = ConfigError.code


class DecodeError(Exception):
    """Plain data that cannot be decoded, with all faults."""

    def __init__(self, invalid_fields: tuple[InvalidField, ...]) -> None:
        super().__init__("; ".join(f"{field.path}: {field.detail}" for field in invalid_fields))
        self.invalid_fields = invalid_fields


class Mismatch(ValueError):
    """One value that does not have its type; raised by the hooks."""

    def __init__(self, detail: str, hint: str) -> None:
        super().__init__(detail)
        self.detail = detail
        self.hint = hint


def require_json_type(kind: Any, value: object) -> None:  # noqa: ANN401 - any annotation
    """Raise Mismatch unless the value has one of the JSON types of the annotation."""
    wanted = json_types(kind)
    if type(value) not in wanted:
        names = sorted(_TYPE_NAMES[one] for one in wanted - {types.NoneType})
        null = ["null"] if types.NoneType in wanted else []
        raise Mismatch(f"is {_describe(value)}", f"give {' or '.join([*names, *null])}")


def not_a_choice(value: object, choices: Iterable[str]) -> Mismatch:
    """Return the fault of a string that is not one of the choices."""
    return Mismatch(f"is {short_repr(value)}", f"choose one of {', '.join(choices)}")


def _describe(value: object) -> str:
    """Return the value, or only its type if it can have secrets inside."""
    if type(value) in (str, int, float):
        return short_repr(value)
    return _TYPE_NAMES.get(type(value), type(value).__name__)


def suggest(name: str, known: Sequence[str]) -> str:
    """Return the hint for an unknown field: the closest known name, or all known names."""
    close = difflib.get_close_matches(name[:_MAX_NAME_LENGTH], known, n=1)
    if close:
        return f"did you mean {close[0]}?"
    return f"known fields: {', '.join(known)}" if known else "leave it out"


def format_path(root: str, path: Iterable[str | int]) -> str:
    """Return a path such as `$.limits.max_depth`, `$.tags[2]` or `?limit`."""
    text = "".join(_format_path_part(place) for place in path)
    return root + (text.removeprefix(".") if root == "?" else text)


def _format_path_part(place: str | int) -> str:
    if isinstance(place, int):
        return f"[{place}]"
    is_plain = place.isascii() and place.isidentifier() and len(place) <= _MAX_NAME_LENGTH
    return f".{place}" if is_plain else f"[{short_repr(place)}]"
