"""A decoder without cattrs, for short commands.

cattrs costs a short command about 45 ms: 30 to import it and 15 to generate the hooks of `Info`.
This decoder reads the answers of our own daemon and the values of the configuration; it reports the
first fault only, and ignores unknown fields, because a newer server may add some. It accepts
infinity, which TOML has and JSON does not; the validator of a setting may still refuse it.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any, Literal, TypeAlias, TypeVar, get_args, get_origin

import attrs

from supervisor.core.errors import SupervisorError

from .annotations import (
    UNIONS,
    DecodeError,
    InvalidField,
    Mismatch,
    exact_integer,
    exact_number,
    field_kinds,
    format_path,
    is_collection,
    is_mapping,
    is_str_enum,
    json_types,
    not_a_choice,
    plain_kind,
    require_json_type,
)

T = TypeVar("T")


# The way to a value: that of the value around it, and its name or index there. None for the whole.
_Path: TypeAlias = "tuple[_Path, str | int] | None"


def decode_light(kind: type[T], value: object) -> T:
    """Return plain data as a `kind`; raise DecodeError with the first fault."""
    made: T = _decode(kind, value, None)
    return made


def _decode(kind: Any, value: Any, path: _Path) -> Any:  # noqa: ANN401 - a `kind`
    try:
        require_json_type(kind, value)
        kind = plain_kind(kind)
        if get_origin(kind) in UNIONS:
            kind = plain_kind(next(one for one in get_args(kind) if type(value) in json_types(one)))
        return _decode_plain(kind, value, path)
    except Mismatch as fault:
        field = InvalidField(_format(path), fault.detail, fault.hint)
    except SupervisorError as error:
        field = InvalidField(_format(path), error.args[0], error.hint, error.code)
    raise DecodeError((field,))


def _format(path: _Path) -> str:
    places: list[str | int] = []
    while path is not None:
        path, place = path
        places.append(place)
    return format_path("$", reversed(places))


def _decode_plain(kind: Any, value: Any, path: _Path) -> Any:  # noqa: ANN401 - as above
    if get_origin(kind) is Literal or is_str_enum(kind):
        choices = get_args(kind) or tuple(kind)
        if value not in choices:
            raise not_a_choice(value, choices)
        return choices[choices.index(value)]
    if is_collection(kind):
        item_kind, origin = get_args(kind)[0], get_origin(kind)
        make = origin if origin in (list, frozenset) else tuple
        return make([_decode(item_kind, one, (path, at)) for at, one in enumerate(value)])
    if is_mapping(kind):
        item_kind = get_args(kind)[1]
        return {name: _decode(item_kind, one, (path, name)) for name, one in value.items()}
    if attrs.has(get_origin(kind) or kind):
        nested = _nested_field(kind)
        return (
            _decode_object(kind, value, path)
            if nested is None
            else _decode_tree(kind, value, path, nested)
        )
    if kind is float:
        return exact_number(value)
    return exact_integer(value) if kind is int else value


def _decode_object(
    kind: Any,  # noqa: ANN401 - an attrs class
    value: Mapping[str, Any],
    path: _Path,
    made: Mapping[str, Any] | None = None,
) -> Any:  # noqa: ANN401 - a `kind`
    """Return the object; `made` has fields that are decoded already."""
    kinds = _field_kinds(kind)
    fields = dict(made or {})
    for name, item in value.items():
        if name in kinds and name not in fields:
            fields[name] = _decode(kinds[name], item, (path, name))
    whole = get_origin(kind) or kind
    for field in attrs.fields(whole):
        if field.default is attrs.NOTHING and field.name not in fields:
            raise Mismatch(f"required field missing: {field.name}", "give it")
    return whole(**fields)


def _decode_tree(kind: Any, value: Any, path: _Path, nested: str) -> Any:  # noqa: ANN401 - as above
    """Return an object with objects of its own class in the field `nested`, of any depth.

    All objects are listed, each before those inside it, and decoded from the last to the first;
    so the depth is not limited by the stack.
    """
    listed: list[tuple[Any, _Path]] = [(value, path)]
    for item, at in listed:  # grows meanwhile
        if type(item) is dict and type(inside := item.get(nested)) is list:
            listed += [(one, ((at, nested), place)) for place, one in enumerate(inside)]
    made: dict[int, Any] = {}
    for item, at in reversed(listed):
        made[id(item)] = _decode_node(kind, item, at, nested, made)
    return made[id(value)]


def _decode_node(
    kind: Any,  # noqa: ANN401 - an attrs class
    value: Any,  # noqa: ANN401 - plain data
    path: _Path,
    nested: str,
    made: Mapping[int, Any],
) -> Any:  # noqa: ANN401 - a `kind`
    """Return one object of a tree; `made` has the objects inside it, by the id of their data."""
    try:
        require_json_type(kind, value)
        inside = value.get(nested)
        if type(inside) is not list:
            return _decode_object(kind, value, path)
        return _decode_object(kind, value, path, {nested: tuple(made[id(one)] for one in inside)})
    except Mismatch as fault:
        raise DecodeError((InvalidField(_format(path), fault.detail, fault.hint),)) from None


# A list has hundreds of objects of one class.
_field_kinds = functools.cache(field_kinds)


@functools.cache
def _nested_field(kind: Any) -> str | None:  # noqa: ANN401 - an attrs class
    """Return the field with objects of the class itself; None for most classes."""
    for name, one in _field_kinds(kind).items():
        if is_collection(one) and get_args(one)[0] is kind:
            return name
    return None
