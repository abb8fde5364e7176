"""Bytes and back: the one place that encodes and decodes what is kept.

Rule 1: decoding is strict. What was not written by `encode` is refused, never bent into shape.
        And what would come back as something else is not encoded.
Rule 2: what many sessions share (terms, limits, permissions) is encoded once.
"""

from __future__ import annotations

import collections.abc
import functools
import math
from collections.abc import Callable, Mapping, Sequence
from types import NoneType
from typing import Any, Final, TypeAlias, TypeVar, get_args, get_origin, get_type_hints

import attrs
import orjson
from cattrs import Converter
from cattrs.gen import make_dict_structure_fn

from supervisor.core.ids import SessionId
from supervisor.core.limits import Limits
from supervisor.core.permissions import Permissions
from supervisor.core.records import Record
from supervisor.core.session import Agent, Lineage, Phase, Session, Terms, Usage

from .port import Kept

T = TypeVar("T")
Shape: TypeAlias = tuple[tuple[str, bool], ...]


def encode(thing: object) -> bytes:
    """A row or a record, as JSON."""
    # A session has no slots (see its docstring), so that its fields are at hand as a dict; and
    # these two are written several times a turn.
    if type(thing) is Session:
        if not math.isfinite(thing.created_at + thing.updated_at + thing.last_active_at):
            raise ValueError("a session's times are not finite")
        # What is empty (None, 0, no items) is left out: reading gives the field's default, and for
        # every field that can be empty, empty is the default. A test holds us to that.
        there = {name: value for name, value in thing.__dict__.items() if value or value == ""}
        return orjson.dumps(there, default=_plain)
    if type(thing) is Record:
        _refuse_unless_plain(thing.body)
        return orjson.dumps(
            {
                "session_id": thing.session_id,
                "seq": thing.seq,
                "at": thing.at,
                "turn_id": thing.turn_id,
                "kind": thing.kind,
                "body": thing.body,
            }
        )
    if type(thing) is Kept:
        _refuse_unless_plain(thing.answer)
    return orjson.dumps(thing, default=_plain)


def encode_plain(value: Mapping[str, Any]) -> str:
    """Plain data as JSON: a record's body, or an answer that is kept."""
    _refuse_unless_plain(value)
    return orjson.dumps(value).decode()


def encode_text(text: str) -> str:
    """A text as it stands among those that `encode_texts` gives."""
    return orjson.dumps(text).decode()


def encode_texts(texts: Sequence[str]) -> str:
    """Texts in a row, each of which can be found in it."""
    return orjson.dumps(texts).decode()


def decode_plain(text: str | bytes) -> Mapping[str, Any]:
    """What `encode_plain` made; raises `ValueError` for anything else."""
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise ValueError(f"this is no JSON: {error}") from error
    if type(value) is not dict:
        raise ValueError(f"this is no JSON object, but a {type(value).__name__}")
    return value


def _refuse_unless_plain(value: object) -> None:
    """Raise for what JSON would give back as something else: NaN, tuples, days, other objects."""
    kind = type(value)
    if kind is dict:
        for item in value.values():  # type: ignore[attr-defined]
            if type(item) not in _SIMPLE:
                _refuse_unless_plain(item)
    elif kind is list:
        for item in value:  # type: ignore[attr-defined]
            if type(item) not in _SIMPLE:
                _refuse_unless_plain(item)
    elif kind is float:
        if not math.isfinite(value):  # type: ignore[arg-type]
            raise ValueError(f"{value!r} is no number that can be stored")
    elif kind not in _SIMPLE:
        raise TypeError(f"{kind.__name__} cannot be stored")


_SIMPLE: Final = frozenset({str, int, bool, type(None)})


def decode(data: str | bytes, kind: type[T]) -> T:
    """What `encode` made of a `kind`; raises `ValueError` for anything else."""
    try:
        return _converter.structure(orjson.loads(data), kind)
    except Exception as error:
        raise ValueError(f"these bytes are no {kind.__name__}: {error}") from error


def _plain(thing: Any) -> object:  # noqa: ANN401 - whatever orjson does not know
    kind: Any = type(thing)
    if kind in _SHARED:
        known = _encoded.get(id(thing))
        return known[1] if known is not None and known[0] is thing else _encode_shared(thing)
    shape = _shape(kind)
    if shape is not None:
        return _fields(thing, shape)
    if kind is frozenset:
        return sorted(thing)
    raise TypeError(f"{kind.__name__} cannot be stored")


# Frozen, and one object for nearly every session.
_SHARED: Final = frozenset({Terms, Limits, Permissions, Agent, Lineage})


# By identity, which is quicker to look at than they are to compare; the object is kept with its
# bytes, so that no other can come to have its id.
_encoded: Final[dict[int, tuple[object, orjson.Fragment]]] = {}
# As many as there are lineages in a large house: each child has one of its own.
_MAX_ENCODED: Final = 16_384


def _encode_shared(thing: Any) -> orjson.Fragment:  # noqa: ANN401 - one of _SHARED
    kind: Any = type(thing)
    shape = _shape(kind)
    assert shape is not None
    fragment = orjson.Fragment(orjson.dumps(_fields(thing, shape), default=_plain))
    if len(_encoded) >= _MAX_ENCODED:
        _encoded.clear()
    _encoded[id(thing)] = (thing, fragment)
    return fragment


# One object for all that are made of the same, so that sessions which were read share it again.
_known: Final[dict[tuple[type, bytes], object]] = {}


def _fields(thing: object, shape: Shape) -> dict[str, Any]:
    # What is None where None is the default is left out, as in rows; whatever other defaults there
    # are may change, and what is kept must not change with them.
    return {
        name: value
        for name, is_optional in shape
        if (value := getattr(thing, name)) is not None or not is_optional
    }


# Kept, and not asked of attrs each time: that took a quarter of the time of encoding a row.
@functools.cache
def _shape(kind: Any) -> Shape | None:  # noqa: ANN401 - any class
    """The names of its fields, and whether None is their default; None if it is not of attrs."""
    if not attrs.has(kind):
        return None
    optional = _optional(kind)
    return tuple((field.name, field.name in optional) for field in attrs.fields(kind))


@functools.cache
def _optional(kind: Any) -> frozenset[str]:  # noqa: ANN401 - an attrs class
    return frozenset(field.name for field in attrs.fields(kind) if field.default is None)


def _exactly(*kinds: type) -> Any:  # noqa: ANN401 - what cattrs takes as a hook
    def check(value: object, wanted: type) -> object:
        if type(value) not in kinds:
            raise TypeError(f"{value!r} is no {wanted.__name__}")
        return value

    return check


def _mapping_hook(kind: object) -> Any:  # noqa: ANN401 - what cattrs takes as a hook
    of_text = get_args(kind)[1] is str

    def structure(value: object, _: object) -> object:
        if type(value) is not dict:
            raise TypeError(f"{value!r} is no mapping")
        if of_text and not all(type(item) is str for item in value.values()):
            raise TypeError(f"{value!r} has something in it that is no text")
        return value

    return structure


def _collection_hook(kind: Any, converter: Converter) -> Any:  # noqa: ANN401 - as above
    made: Any = get_origin(kind)
    item_kind = get_args(kind)[0]
    structure_item = converter.get_structure_hook(item_kind)

    def structure(value: object, _: object) -> object:
        if type(value) is not list:
            raise TypeError(f"{value!r} is no list")
        return made(structure_item(item, item_kind) for item in value)

    return structure


def _origin_is(*origins: object) -> Callable[[object], bool]:
    return lambda kind: get_origin(kind) in origins


# The fields of a row that `encode` never leaves out, because they are never empty.
_ALWAYS_THERE: Final = frozenset(
    {"id", "agent_name", "kind", "lineage", "terms", "permissions", "phase", "usage"}
)


def _row_hook(converter: Converter) -> Any:  # noqa: ANN401 - what cattrs takes as a hook
    """For rows, which have many fields of which few are there; start-up reads all rows there are.

    The same as cattrs would make, but it looks at what is there, and not for what might be.
    """
    hints = get_type_hints(Session)
    plain = {name: _plain_kinds(kind) for name, kind in hints.items()}
    kinds = {name: _kind_if_there(kind) for name, kind in hints.items()}
    hooks = {name: converter.get_structure_hook(kind) for name, kind in kinds.items()}
    # What it does not say is as in this one.
    empty = Session(id=SessionId(""), agent_name="")

    def structure(value: object, _: object) -> Session:
        if type(value) is not dict or not value.keys() >= _ALWAYS_THERE:
            raise TypeError("this is no whole Session")
        for name, item in value.items():
            if type(item) not in plain[name]:
                value[name] = hooks[name](item, kinds[name])
        value.setdefault("custom", {})
        return empty.with_changes(value)

    return structure


def _plain_kinds(kind: Any) -> frozenset[type]:  # noqa: ANN401 - of a field
    """The types whose values are taken as they are."""
    plain = frozenset({_kind_if_there(kind)}) & (_SIMPLE | {float})
    if float in plain:
        plain |= {int}
    return plain if _kind_if_there(kind) is kind else plain | {NoneType}


def _kind_if_there(kind: Any) -> Any:  # noqa: ANN401 - of a field
    """The kind of what is not None, of a field that may be."""
    kinds = [one for one in get_args(kind) if one is not NoneType]
    return kinds[0] if NoneType in get_args(kind) and len(kinds) == 1 else kind


def _make_converter() -> Converter:
    converter = Converter(forbid_extra_keys=True, detailed_validation=False)
    converter.register_structure_hook(int, _exactly(int))
    converter.register_structure_hook(float, _exactly(float, int))
    converter.register_structure_hook(str, _exactly(str))
    converter.register_structure_hook(bool, _exactly(bool))
    converter.register_structure_hook_factory(_origin_is(collections.abc.Mapping), _mapping_hook)
    converter.register_structure_hook_factory(
        _origin_is(tuple, frozenset), lambda kind: _collection_hook(kind, converter)
    )
    # A word that is an enum's is also a str, and would pass for one.
    phases = {phase.value: phase for phase in Phase}
    converter.register_structure_hook(Phase, lambda value, _: phases[value])

    def hook_for(kind: Any) -> Any:  # noqa: ANN401 - what cattrs takes and gives
        if kind is Session:
            return _row_hook(converter)
        structure = make_dict_structure_fn(
            kind, converter, _cattrs_forbid_extra_keys=True, _cattrs_detailed_validation=False
        )
        names = frozenset(field.name for field in attrs.fields(kind) if field.init)
        needed = names - _optional(kind)

        def structure_whole(value: object, wanted: object) -> object:
            if type(value) is not dict or not needed <= value.keys():
                raise TypeError(f"this is no whole {kind.__name__}")
            return structure(value, wanted)

        def structure_shared(value: object, wanted: object) -> object:
            # By what it is made of: to write that again is far quicker than to look at it closely.
            made_of = (kind, orjson.dumps(value))
            known = _known.get(made_of)
            if known is None:
                known = structure_whole(value, wanted)
                if len(_known) >= _MAX_ENCODED:
                    _known.clear()
                _known[made_of] = known
            return known

        return structure_shared if kind in _SHARED or kind is Usage else structure_whole

    converter.register_structure_hook_factory(attrs.has, hook_for)
    return converter


_converter: Final = _make_converter()
