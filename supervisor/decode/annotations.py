"""Reading of annotations: the JSON values that each accepts, and the faults of other values.

The strict decoder, the light decoder and the OpenAPI document use the same functions, so that they
agree on what is accepted.
"""

from __future__ import annotations

import enum
import functools
import types
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import (
    Annotated,
    Any,
    Final,
    Generic,
    Literal,
    NewType,
    TypeAlias,
    TypeVar,
    get_args,
    get_origin,
)

import attrs

from supervisor.core.errors import ConfigError, short_repr

T = TypeVar("T")

# Raises a SupervisorError for a value that is not allowed.
Check: TypeAlias = Callable[[Any], object]

UNIONS: Final = (typing.Union, types.UnionType)

JSON_TYPES: Final[frozenset[type]] = frozenset({str, int, float, bool, types.NoneType, list, dict})

_SCALARS: Final[Mapping[object, frozenset[type]]] = {
    str: frozenset({str}),
    int: frozenset({int}),
    float: frozenset({float, int}),
    bool: frozenset({bool}),
    types.NoneType: frozenset({types.NoneType}),
    None: frozenset({types.NoneType}),
    Any: JSON_TYPES,
    object: JSON_TYPES,
}


class Partial(Generic[T]):
    """Some fields of an attrs class, as a mapping of the given fields. All have defaults."""


@attrs.frozen
class Checked:
    """Metadata of an `Annotated` type: a check of the decoded value; None is not checked."""

    check: Check


def alternatives(kind: Any) -> tuple[Any, ...]:  # noqa: ANN401 - any annotation
    """Return the members of a union; for any other annotation, the annotation alone."""
    return get_args(kind) if get_origin(kind) in UNIONS else (kind,)


@functools.cache
def json_types(kind: Any) -> frozenset[type]:  # noqa: ANN401 - any annotation
    """Return the Python types of the JSON values that an annotation accepts."""
    kind = plain_kind(kind)
    if kind in _SCALARS:
        return _SCALARS[kind]
    origin = get_origin(kind)
    if origin in UNIONS:
        return frozenset().union(*(json_types(one) for one in get_args(kind)))
    if origin is Literal or is_str_enum(kind):
        return frozenset({str})
    if is_collection(kind):
        return frozenset({list})
    if is_mapping(kind) or is_object(kind):
        return frozenset({dict})
    raise TypeError(f"{kind!r} cannot be decoded from JSON")


def plain_kind(kind: Any) -> Any:  # noqa: ANN401 - any annotation
    """Return an annotation without `Annotated` and `NewType`."""
    while True:
        if get_origin(kind) is Annotated:
            kind = get_args(kind)[0]
        elif isinstance(kind, NewType):
            kind = kind.__supertype__
        else:
            return kind


def field_kinds(kind: Any) -> dict[str, Any]:  # noqa: ANN401 - an attrs class
    """Return the annotations of the fields of a class, with type variables replaced."""
    made = get_origin(kind) or kind
    variables: Any = getattr(made, "__parameters__", ())
    arguments = dict(zip(variables, get_args(kind), strict=False))
    # Resolved by `attrs.resolve_types` if the names are not those of the class's module.
    is_resolved = "__attrs_types_resolved__" in vars(made)
    hints = (
        {field.name: field.type for field in attrs.fields(made)}
        if is_resolved
        else typing.get_type_hints(made)
    )
    return {field.name: _substitute(hints[field.name], arguments) for field in attrs.fields(made)}


def _substitute(hint: Any, arguments: Mapping[Any, Any]) -> Any:  # noqa: ANN401 - annotations
    if hint in arguments:
        return arguments[hint]
    variables: Any = getattr(hint, "__parameters__", ())
    return hint[tuple(arguments[one] for one in variables)] if variables else hint


def is_object(kind: Any) -> bool:  # noqa: ANN401 - any annotation
    """Return True if the annotation has named fields."""
    return attrs.has(get_origin(kind) or kind) or is_partial(kind) or typing.is_typeddict(kind)


def is_str_enum(kind: object) -> bool:
    """Return True if the annotation is an enum of strings."""
    return isinstance(kind, type) and issubclass(kind, enum.StrEnum)


def is_mapping(kind: object) -> bool:
    """Return True if the annotation is a mapping whose keys the caller chooses."""
    origin = get_origin(kind)
    return isinstance(origin, type) and issubclass(origin, Mapping)


def is_collection(kind: object) -> bool:
    """Return True if the annotation is a list, a tuple of any length or a frozenset."""
    origin = get_origin(kind)
    return isinstance(origin, type) and issubclass(origin, Sequence | frozenset)


def is_partial(kind: object) -> bool:
    """Return True if the annotation is `Partial`: some fields of a class."""
    return get_origin(kind) is Partial


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
    """One fault: its path, the problem, and what to send instead."""

    path: str
    detail: str
    hint: str
    code: str = ConfigError.code


class DecodeError(Exception):
    """Plain data cannot be decoded; the error lists all faults."""

    def __init__(self, invalid_fields: tuple[InvalidField, ...]) -> None:
        super().__init__("; ".join(f"{field.path}: {field.detail}" for field in invalid_fields))
        self.invalid_fields = invalid_fields


class Mismatch(ValueError):
    """One value does not have the type of its annotation; raised by the cattrs hooks."""

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
    """Return the integer; raise Mismatch unless it is an integer that fits 64 bits.

    The second parameter is the type, which cattrs passes to a hook.
    """
    if type(value) is not int:
        require_json_type(int, value)
    if not -_INT64 <= value < _INT64:
        raise Mismatch("is too large", "give an integer of 64 bits")
    return int(value)


def exact_number(value: Any) -> float:  # noqa: ANN401 - plain data
    """Return the number as a float.

    Raise Mismatch if it is not a number, or an integer that does not fit 64 bits.
    """
    if type(value) is not float:
        require_json_type(float, value)
    return float(exact_integer(value) if type(value) is int else value)


def not_a_choice(value: object, choices: Iterable[str]) -> Mismatch:
    """Return the fault for a string that is not one of the choices."""
    known = tuple(choices)
    close = _closest(value, known) if isinstance(value, str) else None
    hint = f"choose one of {', '.join(known)}"
    return Mismatch(f"is {short_repr(value)}", f"did you mean {close}? {hint}" if close else hint)


def _describe(value: object) -> str:
    """Return the value as text, or only its type if it may contain secrets."""
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
    from difflib import get_close_matches  # noqa: PLC0415 - only for a mistake

    close = get_close_matches(name[:_MAX_NAME_LENGTH], known, n=1)
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
