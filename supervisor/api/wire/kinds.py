"""What an annotation means on the wire: the few shapes that JSON has.

Rule 1: annotations of the embedding API are read here and nowhere else, so that what is refused,
        what is answered and what the OpenAPI document says cannot differ.
"""

from __future__ import annotations

import enum
import functools
import types
import typing
from collections.abc import Mapping, Sequence
from typing import Any, Final, Generic, Literal, NewType, TypeAlias, TypeVar, get_args, get_origin

import attrs

T = TypeVar("T")
Word: TypeAlias = Literal["text", "whole", "number", "flag", "nothing"]

_WORDS: Final[Mapping[object, Word]] = {
    str: "text",
    int: "whole",
    float: "number",
    bool: "flag",
    types.NoneType: "nothing",
    None: "nothing",
}


_UNIONS: Final = (typing.Union, types.UnionType)


def alternatives(kind: Any) -> tuple[Any, ...]:  # noqa: ANN401 - any annotation
    """What a union is one of; of anything else, itself."""
    return get_args(kind) if get_origin(kind) in _UNIONS else (kind,)


class Partial(Generic[T]):
    """Some fields of an attrs class, as a mapping: only those that are to change."""


@attrs.frozen
class Simple:
    """A text, a number, true or false, or null."""

    word: Word


@attrs.frozen
class Choice:
    """One of some words, which `make` turns into what they stand for."""

    words: tuple[str, ...]
    make: Any = None  # a StrEnum, or None for the word itself


@attrs.frozen
class Anything:
    """Whatever JSON there is."""


@attrs.frozen
class Many:
    """A list; `make` is what it becomes."""

    item: Any
    make: Any


@attrs.frozen
class Named:
    """An object whose names are the caller's own."""

    item: Any


@attrs.frozen
class Fields:
    """An object with fields, which becomes a `kind`, or stays a mapping of those given."""

    kind: Any
    fields: Mapping[str, Any]  # by name: the annotation
    needed: frozenset[str]
    partial: bool = False

    @property
    def name(self) -> str:
        """What the shape is called."""
        return ("Some" if self.partial else "") + str(self.kind.__name__)


@attrs.frozen
class OneOf:
    """Any of these, told apart by what JSON they are."""

    kinds: tuple[Any, ...]


Shape: TypeAlias = Simple | Choice | Anything | Many | Named | Fields | OneOf


@functools.cache
def shape_of(kind: Any) -> Shape:  # noqa: ANN401, PLR0911 - any annotation; one line for each shape
    """The shape that an annotation stands for."""
    if kind is Any or kind is object:
        return Anything()
    if kind in _WORDS:
        return Simple(_WORDS[kind])
    if isinstance(kind, NewType):
        return shape_of(kind.__supertype__)
    origin = get_origin(kind)
    if origin is Literal:
        return Choice(get_args(kind))
    if isinstance(kind, type) and issubclass(kind, enum.StrEnum):
        return Choice(tuple(kind), kind)
    if origin in _UNIONS:
        return OneOf(get_args(kind))
    if origin is Partial:
        return attrs.evolve(_fields(get_args(kind)[0]), needed=frozenset(), partial=True)
    if attrs.has(origin or kind):
        return _fields(kind)
    return _collection(kind, origin)


def _collection(kind: Any, origin: Any) -> Shape:  # noqa: ANN401 - as above
    if isinstance(origin, type):
        if issubclass(origin, Mapping):
            return Named(get_args(kind)[1])
        if issubclass(origin, frozenset):
            return Many(get_args(kind)[0], frozenset)
        if issubclass(origin, Sequence):
            return Many(get_args(kind)[0], list if origin is list else tuple)
    raise TypeError(f"{kind!r} has no shape on the wire")


def _fields(kind: Any) -> Fields:  # noqa: ANN401 - an attrs class, or a generic one with what it is of
    made = get_origin(kind) or kind
    variables: Any = getattr(made, "__parameters__", ())
    stands_for = dict(zip(variables, get_args(kind), strict=False))
    hints = typing.get_type_hints(made)
    return Fields(
        kind=made,
        fields={field.name: _filled(hints[field.name], stands_for) for field in attrs.fields(made)},
        needed=frozenset(
            field.name for field in attrs.fields(made) if field.default is attrs.NOTHING
        ),
    )


def _filled(hint: Any, stands_for: Mapping[Any, Any]) -> Any:  # noqa: ANN401 - annotations
    """The annotation, with type variables replaced by what they stand for."""
    if hint in stands_for:
        return stands_for[hint]
    variables: Any = getattr(hint, "__parameters__", ())
    return hint[tuple(stands_for[one] for one in variables)] if variables else hint


# What `type()` says of a JSON value, for each shape.
_OF_WORD: Final[Mapping[Word, tuple[type, ...]]] = {
    "text": (str,),
    "whole": (int,),
    "number": (float, int),
    "flag": (bool,),
    "nothing": (types.NoneType,),
}


@functools.cache
def json_types(kind: Any) -> frozenset[type]:  # noqa: ANN401 - any annotation
    """Which JSON values can be meant by the annotation, by the type that they are read as."""
    match shape_of(kind):
        case Simple(word):
            return frozenset(_OF_WORD[word])
        case Choice():
            return frozenset({str})
        case Anything():
            return frozenset({str, int, float, bool, types.NoneType, list, dict})
        case Many():
            return frozenset({list})
        case Named() | Fields():
            return frozenset({dict})
        case OneOf(kinds):
            return frozenset().union(*(json_types(one) for one in kinds))
