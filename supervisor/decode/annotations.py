"""Reading of annotations: which JSON values an annotation accepts.

The strict decoder, the light decoder and the OpenAPI document use the same functions, so that
they agree on what is accepted.
"""

from __future__ import annotations

import enum
import functools
import types
import typing
from collections.abc import Callable, Mapping, Sequence
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
    hints = typing.get_type_hints(made)
    return {field.name: _substitute(hints[field.name], arguments) for field in attrs.fields(made)}


def _substitute(hint: Any, arguments: Mapping[Any, Any]) -> Any:  # noqa: ANN401 - annotations
    if hint in arguments:
        return arguments[hint]
    variables: Any = getattr(hint, "__parameters__", ())
    return hint[tuple(arguments[one] for one in variables)] if variables else hint


def is_object(kind: Any) -> bool:  # noqa: ANN401 - any annotation
    """Return whether the annotation has named fields."""
    return attrs.has(get_origin(kind) or kind) or is_partial(kind) or typing.is_typeddict(kind)


def is_str_enum(kind: object) -> bool:
    """Return whether the annotation is an enum of strings."""
    return isinstance(kind, type) and issubclass(kind, enum.StrEnum)


def is_mapping(kind: object) -> bool:
    """Return whether the annotation is a mapping whose names are the caller's."""
    origin = get_origin(kind)
    return isinstance(origin, type) and issubclass(origin, Mapping)


def is_collection(kind: object) -> bool:
    """Return whether the annotation is a list, a tuple of any length or a frozenset."""
    origin = get_origin(kind)
    return isinstance(origin, type) and issubclass(origin, Sequence | frozenset)


def is_partial(kind: object) -> bool:
    """Return whether the annotation is some fields of a class."""
    return get_origin(kind) is Partial
