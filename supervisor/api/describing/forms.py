"""What an operation takes: the arguments of the embedding API by their names, read strictly.

Rule 1: a form is made from a method's own signature, so that the two cannot differ.
Rule 2: what was not given is not passed on: the method's own defaults hold.
"""

from __future__ import annotations

import inspect
import math
import typing
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, Unpack, get_args, get_origin

import attrs

from supervisor.api.wire.kinds import json_types
from supervisor.api.wire.reading import Reading

from .rules import IN_BODIES, IN_QUERIES, Rule


@attrs.frozen
class Field:
    """One argument: its name, what it may be, what it is if not given, and what else is asked."""

    name: str
    kind: Any
    default: Any = attrs.NOTHING
    rule: Rule | None = None

    @property
    def is_needed(self) -> bool:
        """Whether it must be given."""
        return self.default is attrs.NOTHING


@attrs.frozen
class Form:
    """The arguments of an operation."""

    fields: tuple[Field, ...] = ()

    def names(self) -> frozenset[str]:
        """What the arguments are called."""
        return frozenset(field.name for field in self.fields)

    def read(self, given: object) -> dict[str, Any]:
        """The arguments in a JSON body; raises `Unreadable`."""
        reading = Reading()
        if type(given) is not dict:
            reading.of(dict[str, Any], given)
            reading.raise_if_faulty()
        assert isinstance(given, dict)
        return self._read(given, reading)

    def read_query(self, given: Iterable[tuple[str, str]]) -> dict[str, Any]:
        """The arguments in a query; raises `Unreadable`."""
        reading = Reading(root="?")
        kinds = {field.name: field.kind for field in self.fields}
        plain: dict[str, Any] = {}
        for name, text in given:
            if name in plain:
                reading.fault_at(name, "is given twice", "give it once")
            plain[name] = _from_text(kinds[name], text) if name in kinds else text
        return self._read(plain, reading)

    def _read(self, given: Mapping[str, Any], reading: Reading) -> dict[str, Any]:
        known = {field.name: field.kind for field in self.fields}
        needed = frozenset(field.name for field in self.fields if field.is_needed)
        checks = {one.name: one.rule.check for one in self.fields if one.rule is not None}
        made = reading.fields(known, needed, given, checks)
        reading.raise_if_faulty()
        return made


def form_of(
    method: Callable[..., Any],
    *,
    without: Iterable[str] = (),
    only: Iterable[str] | None = None,
    kinds: Mapping[str, Any] | None = None,
    rules: Mapping[str, Rule] = IN_BODIES,
) -> Form:
    """The form that a method of the embedding API takes; `kinds` are other annotations for some."""
    hints = typing.get_type_hints(method)
    found: dict[str, tuple[Any, Any]] = {}
    for parameter in inspect.signature(method).parameters.values():
        hint = hints.get(parameter.name)
        if parameter.kind is inspect.Parameter.VAR_KEYWORD and get_origin(hint) is Unpack:
            options = typing.get_type_hints(get_args(hint)[0])
            found |= {name: (kind, None) for name, kind in options.items()}
        elif hint is not None:
            is_needed = parameter.default is inspect.Parameter.empty
            found[parameter.name] = (hint, attrs.NOTHING if is_needed else parameter.default)
    others = kinds or {}
    wanted = set(found if only is None else only) - set(without)
    return Form(
        tuple(
            Field(name, others.get(name, kind), default, rules.get(name))
            for name, (kind, default) in found.items()
            if name in wanted
        )
    )


def query_of(
    method: Callable[..., Any], *, without: Iterable[str] = (), only: Iterable[str] | None = None
) -> Form:
    """The same, of a method that is asked by a query."""
    return form_of(method, without=without, only=only, rules=IN_QUERIES)


def body(**fields: Any) -> Form:  # noqa: ANN401 - see `_own`
    """A form of its own: a name with its annotation, or with a pair of that and its default."""
    return _own(fields, IN_BODIES)


def query(**fields: Any) -> Form:  # noqa: ANN401 - see `_own`
    """The same, for a query."""
    return _own(fields, IN_QUERIES)


def _own(fields: Mapping[str, Any], rules: Mapping[str, Rule]) -> Form:
    pairs = {
        name: given if isinstance(given, tuple) else (given, attrs.NOTHING)
        for name, given in fields.items()
    }
    return Form(
        tuple(
            Field(name, kind, default, rules.get(name)) for name, (kind, default) in pairs.items()
        )
    )


_FLAGS: Final[Mapping[str, bool]] = {"true": True, "1": True, "false": False, "0": False}
# As many as the longest number that means anything has.
_MAX_DIGITS: Final = 24


def _from_text(kind: Any, text: str) -> Any:  # noqa: ANN401 - plain data
    """What a text in a query stands for; itself if it is none of that, which is then refused."""
    wanted = json_types(kind)
    if bool in wanted:
        return _FLAGS.get(text, text)
    if float in wanted:
        return _number(text)
    is_whole = text.isascii() and text.removeprefix("-").isdecimal() and len(text) <= _MAX_DIGITS
    return int(text) if int in wanted and is_whole else text


def _number(text: str) -> float | str:
    """The finite number that it is, or the text itself."""
    try:
        number = float(text) if "_" not in text and text == text.strip() else math.nan
    except ValueError:
        return text
    return number if math.isfinite(number) else text
