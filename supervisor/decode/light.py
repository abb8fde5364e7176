"""A decoder without cattrs, for short commands.

cattrs costs a short command about 45 ms: 30 to import it and 15 to generate the hooks of `Info`.
This decoder reads the answers of our own daemon and the values of the configuration; it reports the
first fault only, and ignores unknown fields, because a newer server may add some. It accepts
infinity, which TOML has and JSON does not; the validator of a setting may still refuse it.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any, Literal, TypeVar, get_args, get_origin

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


def decode_light(kind: type[T], value: object) -> T:
    """Return plain data as a `kind`; raise DecodeError with the first fault."""
    made: T = _decode(kind, value, ())
    return made


def _decode(kind: Any, value: Any, path: tuple[str | int, ...]) -> Any:  # noqa: ANN401 - a `kind`
    try:
        require_json_type(kind, value)
        kind = plain_kind(kind)
        if get_origin(kind) in UNIONS:
            kind = plain_kind(next(one for one in get_args(kind) if type(value) in json_types(one)))
        return _decode_plain(kind, value, path)
    except Mismatch as fault:
        field = InvalidField(format_path("$", path), fault.detail, fault.hint)
    except SupervisorError as error:
        field = InvalidField(format_path("$", path), error.args[0], error.hint, error.code)
    raise DecodeError((field,))


def _decode_plain(kind: Any, value: Any, path: tuple[str | int, ...]) -> Any:  # noqa: ANN401 - as above
    if get_origin(kind) is Literal or is_str_enum(kind):
        choices = get_args(kind) or tuple(kind)
        if value not in choices:
            raise not_a_choice(value, choices)
        return choices[choices.index(value)]
    if is_collection(kind):
        item_kind, origin = get_args(kind)[0], get_origin(kind)
        make = origin if origin in (list, frozenset) else tuple
        return make([_decode(item_kind, one, (*path, at)) for at, one in enumerate(value)])
    if is_mapping(kind):
        item_kind = get_args(kind)[1]
        return {name: _decode(item_kind, one, (*path, name)) for name, one in value.items()}
    if attrs.has(get_origin(kind) or kind):
        return _decode_object(kind, value, path)
    if kind is float:
        return exact_number(value)
    return exact_integer(value) if kind is int else value


def _decode_object(kind: Any, value: Mapping[str, Any], path: tuple[str | int, ...]) -> Any:  # noqa: ANN401 - as above
    kinds = _field_kinds(kind)
    made = {
        name: _decode(kinds[name], item, (*path, name))
        for name, item in value.items()
        if name in kinds
    }
    whole = get_origin(kind) or kind
    for field in attrs.fields(whole):
        if field.default is attrs.NOTHING and field.name not in made:
            raise Mismatch(f"required field missing: {field.name}", "give it")
    return whole(**made)


# A list has hundreds of objects of one class.
_field_kinds = functools.cache(field_kinds)
