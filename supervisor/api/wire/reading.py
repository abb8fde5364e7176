"""JSON into what the embedding API takes and gives, with all that is wrong with it said at once.

Rule 1: nothing is bent into shape. "5" is no number, 1.0 no whole one, and true neither.
Rule 2: every fault has a path, and whoever asked hears of all of them, up to a bound.
"""

from __future__ import annotations

import difflib
import types
from collections.abc import Callable, Mapping
from typing import Any, Final, Literal, TypeAlias, TypeVar, assert_never

import attrs

from supervisor.core.errors import ConfigError, SupervisorError, shown

from .kinds import Anything, Choice, Fields, Many, Named, OneOf, Shape, Simple, json_types, shape_of

T = TypeVar("T")
# Raises a SupervisorError for what cannot be meant.
Check: TypeAlias = Callable[[Any], object]

MAX_FAULTS: Final = 20
_LARGEST: Final = 2**63
_MAX_GUESSED_LETTERS: Final = 40

_CALLED: Final[Mapping[type, str]] = {
    str: "a text",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    types.NoneType: "null",
    list: "a list",
    dict: "an object",
}


@attrs.frozen
class Fault:
    """One thing that is wrong: where, what, and what would be right."""

    path: str
    detail: str
    hint: str
    code: str = ConfigError.code


class Unreadable(Exception):
    """What was given cannot be meant."""

    def __init__(self, faults: tuple[Fault, ...]) -> None:
        super().__init__("; ".join(f"{fault.path}: {fault.detail}" for fault in faults))
        self.faults = faults


def read(kind: type[T], value: object) -> T:
    """What `value`, as JSON gives it, is as a `kind`; raises `Unreadable`."""
    return _read(kind, value, Reading())


def decode(kind: type[T], value: object) -> T:
    """The same, for what a server answers: fields that are not known here are left out."""
    return _read(kind, value, Reading(extra="ignore"))


def _read(kind: type[T], value: object, reading: Reading) -> T:
    made: T = reading.of(kind, value)
    reading.raise_if_faulty()
    return made


class Reading:
    """One value being read, and the faults found so far; `root` is what every path begins with."""

    def __init__(self, *, root: str = "$", extra: Literal["refuse", "ignore"] = "refuse") -> None:
        self._root = root
        self._extra = extra
        self._path: list[str | int] = []
        self._faults: list[Fault] = []

    def raise_if_faulty(self) -> None:
        """Raise `Unreadable` if anything was wrong."""
        if self._faults:
            raise Unreadable(tuple(self._faults[:MAX_FAULTS]))

    def fault(self, detail: str, hint: str, *, code: str = ConfigError.code) -> None:
        """Say what is wrong with the value in hand."""
        if len(self._faults) < MAX_FAULTS:
            self._faults.append(Fault(_written(self._root, self._path), detail, hint, code))

    def fault_at(self, place: str, detail: str, hint: str, *, code: str = ConfigError.code) -> None:
        """Say what is wrong with what is at a place inside the value in hand."""
        self._path.append(place)
        self.fault(detail, hint, code=code)
        self._path.pop()

    def refused_at(self, place: str, error: SupervisorError) -> None:
        """Say that what is at a place inside the value in hand is refused."""
        self.fault_at(place, error.args[0], error.hint, code=error.code)

    def at(self, place: str | int, kind: Any, value: object) -> Any:  # noqa: ANN401 - a `kind`
        """What is at a place inside the value in hand."""
        self._path.append(place)
        try:
            return self.of(kind, value)
        finally:
            self._path.pop()

    def of(self, kind: Any, value: object) -> Any:  # noqa: ANN401 - gives a `kind`
        """The value as a `kind`; after a fault, anything."""
        wanted = json_types(kind)
        if type(value) not in wanted:
            named = sorted(_CALLED[one] for one in wanted - {types.NoneType})
            also = ["null"] if types.NoneType in wanted else []
            self.fault(f"is {_called(value)}", f"give {' or '.join([*named, *also])}")
            return None
        return self._of_shape(shape_of(kind), value)

    def _of_shape(self, shape: Shape, value: Any) -> Any:  # noqa: ANN401, PLR0911 - as above
        match shape:
            case Anything():
                return value
            case Simple(word):
                return self._simple(word, value)
            case Choice(words, make):
                return self._choice(words, make, value)
            case Many(item, make):
                return make([self.at(place, item, one) for place, one in enumerate(value)])
            case Named(item):
                return {name: self.at(name, item, one) for name, one in value.items()}
            case Fields():
                return self._object(shape, value)
            case OneOf(kinds):
                return self.of(next(one for one in kinds if type(value) in json_types(one)), value)
            case _:
                assert_never(shape)

    def _simple(self, word: str, value: Any) -> Any:  # noqa: ANN401 - a plain value
        if word == "whole" and not -_LARGEST <= value < _LARGEST:
            self.fault("is too large", "give a whole number that 64 bits can hold")
        return float(value) if word == "number" else value

    def _choice(self, words: tuple[str, ...], make: Any, value: str) -> Any:  # noqa: ANN401 - a word
        if value not in words:
            self.fault(f"is {shown(value)}", f"choose one of {', '.join(words)}")
            return None
        return value if make is None else make(value)

    def _object(self, shape: Fields, value: Mapping[str, Any]) -> Any:  # noqa: ANN401 - as above
        before = len(self._faults)
        made = self.fields(shape.fields, shape.needed, value)
        if len(self._faults) > before:
            return None
        try:
            whole = shape.kind(**made)
        except SupervisorError as error:
            self._blame(shape.kind, made, error)
            return None
        return made if shape.partial else whole

    def fields(
        self,
        known: Mapping[str, Any],
        needed: frozenset[str],
        value: Mapping[str, Any],
        checks: Mapping[str, Check] | None = None,
    ) -> dict[str, Any]:
        """The fields that were given, by name; faults for those unknown and those missing.

        `checks` look at what was read; what they raise is a fault too.
        """
        made: dict[str, Any] = {}
        for name, item in value.items():
            if name in known:
                made[name] = self._checked(name, known[name], item, (checks or {}).get(name))
            elif self._extra == "refuse":
                self.fault_at(name, "is not known here", _guess(name, known))
        for name in sorted(needed - value.keys()):
            self.fault_at(name, "is missing", "give it")
        return made

    def _checked(self, name: str, kind: Any, value: object, check: Check | None) -> Any:  # noqa: ANN401
        before = len(self._faults)
        made = self.at(name, kind, value)
        if check is not None and made is not None and len(self._faults) == before:
            try:
                check(made)
            except SupervisorError as error:
                self.refused_at(name, error)
        return made

    def _blame(self, kind: Any, made: Mapping[str, Any], error: SupervisorError) -> None:  # noqa: ANN401
        """A class refused what it was made of: say of which fields, if each alone is refused."""
        before = len(self._faults)
        for name, value in made.items():
            try:
                kind(**{name: value})
            except SupervisorError as own:
                self.refused_at(name, own)
            except TypeError:  # it cannot be made of one alone
                break
        if len(self._faults) == before:
            self.fault(error.args[0], error.hint, code=error.code)


def _called(value: object) -> str:
    """What somebody gave, in a word or two; nothing of what may be inside."""
    return shown(value) if type(value) in (str, int, float) else _CALLED[type(value)]


def _guess(name: str, known: Mapping[str, Any]) -> str:
    close = difflib.get_close_matches(name[:_MAX_GUESSED_LETTERS], known, n=1)
    if close:
        return f"did you mean {close[0]}?"
    return f"known are: {', '.join(known)}" if known else "leave it out"


def _written(root: str, path: list[str | int]) -> str:
    """A path as people write it: `$.limits.max_depth`, `$.tags[2]`."""
    return root + "".join(_step(place) for place in path).removeprefix("." if root == "?" else "")


def _step(place: str | int) -> str:
    if isinstance(place, int):
        return f"[{place}]"
    is_plain = place.isascii() and place.isidentifier() and len(place) <= _MAX_GUESSED_LETTERS
    return f".{place}" if is_plain else f"[{shown(place)}]"
