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

_INT64: Final = 2**63

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


def exact_integer(value: Any, _: object = int) -> int:  # noqa: ANN401 - plain data
    """Return an integer of 64 bits; raise Mismatch. A hook of cattrs has two parameters."""
    if type(value) is not int:
        require_json_type(int, value)
    if not -_INT64 <= value < _INT64:
        raise Mismatch("is too large", "give an integer of 64 bits")
    return int(value)


def exact_number(value: Any) -> float:  # noqa: ANN401 - plain data
    """Return a number as a float; an integer has 64 bits. Raise Mismatch."""
    if type(value) is not float:
        require_json_type(float, value)
    return float(exact_integer(value) if type(value) is int else value)


def not_a_choice(value: object, choices: Iterable[str]) -> Mismatch:
    """Return the fault of a string that is not one of the choices."""
    known = tuple(choices)
    close = _closest(value, known) if isinstance(value, str) else None
    hint = f"choose one of {', '.join(known)}"
    return Mismatch(f"is {short_repr(value)}", f"did you mean {close}? {hint}" if close else hint)


def _describe(value: object) -> str:
    """Return the value, or only its type if it can have secrets inside."""
    if type(value) in (str, int, float):
        return short_repr(value)
    return _TYPE_NAMES.get(type(value), type(value).__name__)


def suggest(name: str, known: Sequence[str]) -> str:
    """Return the hint for an unknown field: the closest known name, or all known names."""
    close = _closest(name, known)
    if close is not None:
        return f"did you mean {close}?"
    return f"known fields: {', '.join(known)}" if known else "leave it out"


def _closest(name: str, known: Sequence[str]) -> str | None:
    close = difflib.get_close_matches(name[:_MAX_NAME_LENGTH], known, n=1)
    return close[0] if close else None


def format_path(root: str, path: Iterable[str | int]) -> str:
    """Return a path such as `$.limits.max_depth`, `$.tags[2]` or `?limit`."""
    text = "".join(_format_path_part(place) for place in path)
    return root + (text.removeprefix(".") if root == "?" else text)


def _format_path_part(place: str | int) -> str:
    if isinstance(place, int):
        return f"[{place}]"
    is_plain = place.isascii() and place.isidentifier() and len(place) <= _MAX_NAME_LENGTH
    return f".{place}" if is_plain else f"[{short_repr(place)}]"
