"""Rows and records as JSON: all encoding and decoding of stored data.

Rule 1: decoding is strict: bytes that `encode` did not write are refused, never coerced. A value
        that would be decoded as a different value is not encoded.
Rule 2: objects that many sessions share (terms, limits, permissions) are encoded once.

The hooks are those of `supervisor.decode`, without detailed errors. Rows have their own hook,
because start-up reads all of them.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Mapping, Sequence
from itertools import compress
from operator import not_
from types import NoneType
from typing import Any, Final, TypeAlias, TypeVar, get_args, get_type_hints

import attrs
import orjson
from cattrs import Converter
from cattrs.gen import make_dict_structure_fn

from supervisor.core.ids import SessionId
from supervisor.core.limits import Limits, Lineage, Terms
from supervisor.core.permissions import Permissions
from supervisor.core.records import Record
from supervisor.core.state import Agent, SessionState, Usage
from supervisor.decode.strict import make_converter

from .port import StoredReply

T = TypeVar("T")
FieldTable: TypeAlias = tuple[tuple[str, bool], ...]


def encode(thing: object) -> bytes:
    """Return a row, a record or a stored reply as JSON."""
    # Rows and records are written several times a turn. SessionState has no slots (see its
    # docstring), so its fields are available as a dict.
    if type(thing) is SessionState:
        if not math.isfinite(thing.created_at + thing.updated_at + thing.last_active_at):
            raise ValueError("the times of a session are not finite")
        return _encode_fixed(thing) + _encode_changing(thing)[1:]
    if type(thing) is Record:
        _check_body(thing.body)
        return orjson.dumps(thing.__dict__)  # a record has no slots either
    if type(thing) is StoredReply:
        _check_plain(thing.answer)
    return orjson.dumps(thing, default=_to_plain)


# Fields that change with most steps of a session; the rest is encoded once for many rows.
_CHANGING_FIELDS: Final = (
    "updated_at",
    "last_active_at",
    "phase",
    "turn",
    "inputs",
    "turns",
    "messages",
    "tool_calls",
    "usage",
    "wall_seconds",
    "family",
    "accepted",
    "generation",
)
_FIXED_FIELDS: Final = tuple(
    field.name for field in attrs.fields(SessionState) if field.name not in _CHANGING_FIELDS
)
_changing_values: Final = operator.itemgetter(*_CHANGING_FIELDS)
_fixed_values: Final = operator.itemgetter(*_FIXED_FIELDS)


# Empty values (None, 0, no items) are left out: for every field that can be empty, empty is the
# default, so decoding restores it. A test checks that.


def _encode_changing(session: SessionState) -> bytes:
    """Return the fields that change with most steps, as a JSON object."""
    values = _changing_values(session.__dict__)
    # None of these is a text, so an empty value is false; without a loop in Python.
    present = dict(compress(zip(_CHANGING_FIELDS, values, strict=True), values))
    return orjson.dumps(present, default=_to_plain)


# By session: the fixed values and their JSON, without the closing brace.
_encoded_fixed: Final[dict[SessionId, tuple[tuple[Any, ...], bytes]]] = {}
# More than are busy together in most stores; an entry takes about 1 KiB.
_MAX_ENCODED_FIXED: Final = 1_024


def _encode_fixed(session: SessionState) -> bytes:
    """Return the fields that seldom change, encoded once as long as they are the same objects."""
    values = _fixed_values(session.__dict__)
    known = _encoded_fixed.get(session.id)
    if known is not None and all(map(operator.is_, known[0], values)):
        return known[1]
    named = zip(_FIXED_FIELDS, values, strict=True)
    present = {name: value for name, value in named if value or value == ""}
    encoded = orjson.dumps(present, default=_to_plain)[:-1] + b","
    if len(_encoded_fixed) >= _MAX_ENCODED_FIXED:
        _encoded_fixed.clear()
    _encoded_fixed[session.id] = (values, encoded)
    return encoded


def encode_plain(value: Mapping[str, Any]) -> str:
    """Return plain data as JSON: the body of a record, or a stored reply."""
    _check_body(value)
    return orjson.dumps(value).decode()


def encode_text(text: str) -> str:
    """Return a text as it appears in the result of `encode_texts`."""
    return orjson.dumps(text).decode()


def encode_texts(texts: Sequence[str]) -> str:
    """Return a JSON list of texts, in which an encoded text can be found by a substring search."""
    return orjson.dumps(texts).decode()


def decode_plain(text: str | bytes) -> Mapping[str, Any]:
    """Return the data that `encode_plain` encoded; raise ValueError for other text."""
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise ValueError(f"not JSON: {error}") from error
    if type(value) is not dict:
        raise ValueError(f"not a JSON object but a {type(value).__name__}")
    return value


def _check_body(body: Mapping[str, Any]) -> None:
    """Raise for a body that JSON cannot restore; the values of most bodies are all simple."""
    if type(body) is not dict or not _SIMPLE.issuperset(map(type, body.values())):
        _check_plain(body)


def _check_plain(value: object) -> None:
    """Raise for values that JSON cannot restore: NaN, tuples, dates, other objects."""
    kind = type(value)
    if kind is dict or kind is list:
        items: Any = value.values() if kind is dict else value  # type: ignore[attr-defined]
        # Without a loop in Python over the simple items, which nearly all are.
        for item in compress(items, map(not_, map(_SIMPLE.__contains__, map(type, items)))):
            _check_plain(item)
    elif kind is float:
        if not math.isfinite(value):  # type: ignore[arg-type]
            raise ValueError(f"{value!r} is not a number that can be stored")
    elif kind not in _SIMPLE:
        raise TypeError(f"{kind.__name__} cannot be stored")


_SIMPLE: Final = frozenset({str, int, bool, type(None)})


def decode(data: str | bytes, kind: type[T]) -> T:
    """Return the `kind` that `encode` encoded; raise ValueError for other bytes."""
    try:
        return _converter.structure(orjson.loads(data), kind)
    except Exception as error:
        raise ValueError(f"not a stored {kind.__name__}: {error}") from error


def _to_plain(thing: Any) -> object:  # noqa: ANN401 - any value that orjson does not support
    kind: Any = type(thing)
    if kind in _SHARED:
        known = _encoded.get(id(thing))
        return known[1] if known is not None and known[0] is thing else _encode_shared(thing)
    shape = _field_table(kind)
    if shape is not None:
        return _fields(thing, shape)
    if kind is frozenset:
        return sorted(thing)
    raise TypeError(f"{kind.__name__} cannot be stored")


# Frozen, and mostly one object for all sessions. The lineage of a child is its own.
_SHARED: Final = frozenset({Terms, Limits, Permissions, Agent, Lineage, Usage})


# Keyed by identity, which is faster than comparing. The entry holds the object, so its id is not
# reused.
_encoded: Final[dict[int, tuple[object, orjson.Fragment]]] = {}
# Terms, limits and agents of a large store; also a bound of what outlives deleted sessions.
_MAX_SHARED: Final = 1_024


def _encode_shared(thing: Any) -> orjson.Fragment:  # noqa: ANN401 - one of _SHARED
    kind: Any = type(thing)
    shape = _field_table(kind)
    assert shape is not None
    fragment = orjson.Fragment(_compact(orjson.dumps(_fields(thing, shape), default=_to_plain)))
    if kind is Lineage and thing.parent is not None:
        return fragment
    if len(_encoded) >= _MAX_SHARED:
        _encoded.clear()
    _encoded[id(thing)] = (thing, fragment)
    return fragment


def _compact(data: bytes) -> bytes:
    """Return a copy to keep: what orjson returns holds a buffer of several times its size."""
    return bytes(memoryview(data))


# One object for equal data, so that decoded sessions share it again.
_decoded: Final[dict[tuple[type, bytes], object]] = {}


def _fields(thing: object, shape: FieldTable) -> dict[str, Any]:
    # None is left out where it is the default, as in rows. Other defaults are written: they may
    # change later, and stored values must not change with them.
    return {
        name: value
        for name, is_optional in shape
        if (value := getattr(thing, name)) is not None or not is_optional
    }


# Cached: asking attrs each time took a quarter of the time of encoding a row.
@functools.cache
def _field_table(kind: Any) -> FieldTable | None:  # noqa: ANN401 - any class
    """Return the fields of an attrs class and whether their default is None; else None."""
    if not attrs.has(kind):
        return None
    optional = _optional_fields(kind)
    return tuple((field.name, field.name in optional) for field in attrs.fields(kind))


@functools.cache
def _optional_fields(kind: Any) -> frozenset[str]:  # noqa: ANN401 - an attrs class
    return frozenset(field.name for field in attrs.fields(kind) if field.default is None)


def _number(value: object, _: object) -> object:
    if type(value) is not float and type(value) is not int:
        raise TypeError(f"{value!r} is not a number")
    return value


# The fields of a row that are never empty, so `encode` always writes them.
_REQUIRED_ROW_FIELDS: Final = frozenset(
    {"id", "agent_name", "kind", "lineage", "terms", "permissions", "phase", "usage"}
)


def _row_hook(converter: Converter) -> Any:  # noqa: ANN401 - a hook of cattrs
    """Return the hook for rows, which have many fields, few of them present.

    It does what the hook of cattrs would do, but loops over the present fields only, which is
    faster.
    """
    hints = get_type_hints(SessionState)
    plain = {name: _plain_kinds(kind) for name, kind in hints.items()}
    kinds = {name: _kind_without_none(kind) for name, kind in hints.items()}
    hooks = {name: converter.get_structure_hook(kind) for name, kind in kinds.items()}
    # Absent fields have the values of this one.
    empty = SessionState(id=SessionId(""), agent_name="")

    def structure(value: object, _: object) -> SessionState:
        if type(value) is not dict or not value.keys() >= _REQUIRED_ROW_FIELDS:
            raise TypeError("required fields of the row are missing")
        for name, item in value.items():
            if type(item) not in plain[name]:
                value[name] = hooks[name](item, kinds[name])
        value.setdefault("custom", {})
        return empty.with_changes(value)

    return structure


def _plain_kinds(kind: Any) -> frozenset[type]:  # noqa: ANN401 - of a field
    """Return the types whose values need no cattrs hook."""
    plain = frozenset({_kind_without_none(kind)}) & (_SIMPLE | {float})
    if float in plain:
        plain |= {int}
    return plain if _kind_without_none(kind) is kind else plain | {NoneType}


def _kind_without_none(kind: Any) -> Any:  # noqa: ANN401 - of a field
    """Return the annotation of an optional field without None."""
    kinds = [one for one in get_args(kind) if one is not NoneType]
    return kinds[0] if NoneType in get_args(kind) and len(kinds) == 1 else kind


def _make_converter() -> Converter:
    converter = make_converter(detailed=False)
    # An integer in a field of numbers stays one, so that a row is written as it was read.
    converter.register_structure_hook(float, _number)

    def hook_for(kind: Any) -> Any:  # noqa: ANN401 - types of cattrs hooks
        if kind is SessionState:
            return _row_hook(converter)
        structure = make_dict_structure_fn(kind, converter)
        names = frozenset(field.name for field in attrs.fields(kind) if field.init)
        needed = names - _optional_fields(kind)

        def structure_whole(value: object, wanted: object) -> object:
            if type(value) is not dict or not needed <= value.keys():
                raise TypeError(f"required fields of {kind.__name__} are missing")
            return structure(value, wanted)

        def structure_shared(value: object, wanted: object) -> object:
            if kind is Lineage and type(value) is dict and "parent" in value:
                return structure_whole(value, wanted)
            # Keyed by its JSON: encoding again is much faster than structuring.
            key = orjson.dumps(value)
            known = _decoded.get((kind, key))
            if known is None:
                known = structure_whole(value, wanted)
                if len(_decoded) >= _MAX_SHARED:
                    _decoded.clear()
                _decoded[kind, _compact(key)] = known
            return known

        return structure_shared if kind in _SHARED else structure_whole

    converter.register_structure_hook_factory(attrs.has, hook_for)
    return converter


_converter: Final = _make_converter()
