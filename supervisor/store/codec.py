"""Rows and records as JSON: all encoding and decoding of stored data.

Rule 1: decoding is strict: bytes that `encode` did not write are refused, never coerced. A value
        that would be decoded as a different value is not encoded.
Rule 2: objects that many sessions share (terms, limits, permissions) are encoded once.

The hooks are those of `supervisor.decode`, without detailed errors. Rows have their own hook,
because start-up reads all of them.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Mapping, Sequence
from math import isfinite
from types import NoneType
from typing import Any, Final, TypeAlias, TypeVar, get_args, get_type_hints

import attrs
import orjson
from cattrs import Converter
from cattrs.fns import identity
from cattrs.gen import make_dict_structure_fn, make_dict_unstructure_fn, override

from supervisor.core.agent_options import AgentOption
from supervisor.core.facts import AnyRecord
from supervisor.core.ids import SessionId
from supervisor.core.limits import Limits, Lineage, Terms
from supervisor.core.permissions import Permissions
from supervisor.core.records import Record
from supervisor.core.session_values import LastOutcome
from supervisor.core.state import NO_TREE_STATE, Agent, EndedTurn, SessionState, Usage
from supervisor.decode.strict import make_converter

from .port import StoredReply

T = TypeVar("T")
FieldsFunction: TypeAlias = Callable[[Any], dict[str, Any]]


def encode(thing: object) -> bytes:
    """Return a row, a record or a stored reply as JSON."""
    if type(thing) is SessionState:
        return encode_row(thing)
    if type(thing) is Record:
        check_plain(thing.body)
        return orjson.dumps(thing.__dict__)  # a record has no slots
    if type(thing) is StoredReply:
        check_plain(thing.answer)
    return orjson.dumps(thing, default=_to_plain)


def encode_row(session: SessionState) -> bytes:
    """Return a row as JSON; a row is written several times a turn."""
    if not isfinite(session.created_at + session.updated_at + session.last_active_at):
        raise ValueError("the times of a session are not finite")
    # SessionState has no slots (see its docstring), so its fields are available as a dict.
    fixed = _fixed_values(session.__dict__)
    known = _encoded_fixed.get(session.id)
    # A tuple compares the same objects in 200 instructions, a loop over `is` in 6,000.
    if known is None or known[0] != fixed:
        known = _encode_fixed(session.id, fixed)
    return known[1] + orjson.dumps(_changing_fields(session), default=_to_plain)[1:]


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
    "context",
    "family",
    "accepted",
    "generation",
    "last_turn",
)
_FIXED_FIELDS: Final = tuple(
    field.name for field in attrs.fields(SessionState) if field.name not in _CHANGING_FIELDS
)
_fixed_values: Final = operator.itemgetter(*_FIXED_FIELDS)


# Empty values (None, 0, no items) may be left out: for every field that can be empty, empty is the
# default, so decoding restores it. A test checks that.


def _changing_fields(session: SessionState) -> dict[str, Any]:
    """Return the fields that change with most steps, without those that are seldom filled."""
    # Written out: a loop over the names, in C too, took three times as long.
    fields: dict[str, Any] = {
        "updated_at": session.updated_at,
        "last_active_at": session.last_active_at,
        "phase": session.phase,
        "turns": session.turns,
        "messages": session.messages,
        "usage": session.usage,
        "wall_seconds": session.wall_seconds,
        "accepted": session.accepted,
    }
    if session.last_turn is not None:
        fields["last_turn"] = session.last_turn
    if session.context is not None:
        fields["context"] = session.context
    if session.turn is not None:
        fields["turn"] = session.turn
    if session.inputs:
        fields["inputs"] = session.inputs
    if session.tool_calls:
        fields["tool_calls"] = session.tool_calls
    if session.family is not NO_TREE_STATE and session.family:
        fields["family"] = session.family
    if session.generation:
        fields["generation"] = session.generation
    return fields


# By session: the fixed values and their JSON, without the closing brace.
_encoded_fixed: Final[dict[SessionId, tuple[tuple[Any, ...], bytes]]] = {}
# More than are busy together in most stores; an entry takes about 1 KiB.
_MAX_ENCODED_FIXED: Final = 1_024


def _encode_fixed(session_id: SessionId, values: tuple[Any, ...]) -> tuple[tuple[Any, ...], bytes]:
    """Encode the fields that seldom change; return them with their JSON, kept for the next rows."""
    named = zip(_FIXED_FIELDS, values, strict=True)
    present = {name: value for name, value in named if value or value == ""}
    encoded = orjson.dumps(present, default=_to_plain)[:-1] + b","
    if len(_encoded_fixed) >= _MAX_ENCODED_FIXED:
        _encoded_fixed.clear()
    _encoded_fixed[session_id] = known = (values, encoded)
    return known


# Records are stored as JSON lists of their fields in memory, and in columns in a file.
_RECORD_FIELDS: Final = tuple(field.name for field in attrs.fields(Record))


def encode_record(record: AnyRecord) -> bytes:
    """Return a checked record (`write_checks.validate_records`) as a JSON list of its fields."""
    fields = (
        record.session_id,
        record.seq,
        record.at,
        record.turn_id,
        record.kind,
        record.body,
    )
    return compact(orjson.dumps(fields))


def decode_record(data: bytes) -> Record:
    """Return the record that `encode_record` encoded; raise ValueError for other bytes."""
    try:
        fields = dict(zip(_RECORD_FIELDS, orjson.loads(data), strict=True))
        return _converter.structure(fields, Record)
    except Exception as error:
        raise ValueError(f"not a stored Record: {error}") from error


def encode_plain(value: Mapping[str, Any]) -> str:
    """Return plain data as JSON: the body of a record, or a stored reply."""
    check_plain(value)
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


# The types of which every value is plain.
SIMPLE_TYPES: Final = frozenset({str, int, bool, type(None)})
# From this many values on, a pass in C over their types takes less time than a loop.
_MANY_VALUES: Final = 16


def check_plain(value: object) -> None:
    """Raise for values that JSON cannot restore: NaN, tuples, dates, other objects."""
    kind = type(value)
    if kind is dict or kind is list:
        items: Any = value.values() if kind is dict else value  # type: ignore[attr-defined]
        if len(items) >= _MANY_VALUES and SIMPLE_TYPES.issuperset(map(type, items)):
            return
        for item in items:
            if type(item) not in SIMPLE_TYPES:
                check_plain(item)
    elif kind is float:
        if not isfinite(value):  # type: ignore[arg-type]
            raise ValueError(f"{value!r} is not a number that can be stored")
    elif kind not in SIMPLE_TYPES:
        raise TypeError(f"{kind.__name__} cannot be stored")


def decode(data: str | bytes, kind: type[T]) -> T:
    """Return the `kind` that `encode` encoded; raise ValueError for other bytes."""
    try:
        return _converter.structure(orjson.loads(data), kind)
    except Exception as error:
        raise ValueError(f"not a stored {kind.__name__}: {error}") from error


def _to_plain(thing: Any) -> object:  # noqa: ANN401 - any value that orjson does not support
    known = _encoded.get(id(thing))
    if known is not None and known[0] is thing:
        return known[1]
    kind: Any = type(thing)
    if kind in _SHARED:
        return _encode_shared(thing)
    fields = _fields_function(kind)
    if fields is not None:
        return fields(thing)
    if kind is frozenset:
        return sorted(thing)
    raise TypeError(f"{kind.__name__} cannot be stored")


# Frozen, and mostly one object for all sessions. The lineage of a child is its own.
_SHARED: Final = frozenset({Terms, Limits, Permissions, Agent, AgentOption, Lineage, Usage})


# Keyed by identity, which is faster than comparing. The entry holds the object, so its id is not
# reused.
_encoded: Final[dict[int, tuple[object, orjson.Fragment]]] = {}
# Terms, limits and agents of a large store; also a bound of what outlives deleted sessions.
_MAX_SHARED: Final = 1_024


def _encode_shared(thing: Any) -> orjson.Fragment:  # noqa: ANN401 - one of _SHARED
    kind: Any = type(thing)
    fields = _fields_function(kind)
    assert fields is not None
    fragment = orjson.Fragment(compact(orjson.dumps(fields(thing), default=_to_plain)))
    if kind is Lineage and thing.parent is not None:
        return fragment
    if len(_encoded) >= _MAX_SHARED:
        _encoded.clear()
    _encoded[id(thing)] = (thing, fragment)
    return fragment


def compact(data: bytes) -> bytes:
    """Return a copy to keep: what orjson returns holds a buffer of several times its size."""
    return bytes(memoryview(data))


# One object for equal data, so that decoded sessions share it again.
_decoded: Final[dict[tuple[type, bytes], object]] = {}


@functools.cache
def _fields_function(kind: Any) -> FieldsFunction | None:  # noqa: ANN401 - any class
    """Return a function that returns the fields of an attrs class as a dict; None for other types.

    None is left out where it is the default, as in rows. Other defaults are written: they may
    change later, and stored values must not change with them. The order is that of the class,
    because fingerprints of requests depend on it. Values are left as they are: orjson calls
    `_to_plain` for those that it does not support.
    """
    if not attrs.has(kind):
        return None
    as_they_are: dict[str, Any] = {
        field.name: override(unstruct_hook=identity, omit_if_default=False)
        for field in attrs.fields(kind)
    }
    # Generated by cattrs: a loop over the fields took a quarter of the time of encoding a row.
    all_fields = make_dict_unstructure_fn(kind, _converter, **as_they_are)
    optional = tuple(_optional_fields(kind))
    if not optional:
        return all_fields

    def present_fields(thing: Any) -> dict[str, Any]:  # noqa: ANN401 - an attrs object
        fields = all_fields(thing)
        for name in optional:
            if fields[name] is None:
                del fields[name]
        return fields

    return present_fields


@functools.cache
def _optional_fields(kind: Any) -> frozenset[str]:  # noqa: ANN401 - an attrs class
    return frozenset(field.name for field in attrs.fields(kind) if field.default is None)


def _number(value: object, _: object) -> object:
    if type(value) is not float and type(value) is not int:
        raise TypeError(f"{value!r} is not a number")
    return value


def _ended_turn(value: Any, _: object) -> EndedTurn:  # noqa: ANN401 - a hook of cattrs
    fields = dict(zip(attrs.fields_dict(LastOutcome), value, strict=True))
    return attrs.astuple(_converter.structure(fields, LastOutcome))


# The fields of a row that are never empty, so `encode` always writes them.
_REQUIRED_ROW_FIELDS: Final = frozenset(
    {"id", "agent_name", "kind", "lineage", "terms", "permissions", "phase", "usage"}
)


def _row_hook(converter: Converter) -> Any:  # noqa: ANN401 - a hook of cattrs
    """Return the hook for rows: as that of cattrs, with a faster loop over present fields only."""
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
        value.setdefault("options", {})
        return empty.with_changes(value)

    return structure


def _plain_kinds(kind: Any) -> frozenset[type]:  # noqa: ANN401 - of a field
    """Return the types whose values need no cattrs hook."""
    plain = frozenset({_kind_without_none(kind)}) & (SIMPLE_TYPES | {float})
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
    converter.register_structure_hook_func(lambda kind: kind == EndedTurn, _ended_turn)

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
                _decoded[kind, compact(key)] = known
            return known

        return structure_shared if kind in _SHARED else structure_whole

    converter.register_structure_hook_factory(attrs.has, hook_for)
    return converter


_converter: Final = _make_converter()
