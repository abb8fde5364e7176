"""What users give and get: a callback, the events it is called with, and what it may answer."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any, Final, TypeAlias, final

import attrs

from supervisor.core.errors import ConfigError, shown
from supervisor.core.ids import SessionId, TurnId
from supervisor.drivers.plain import plain_text

from .points import Point, PointName

MAX_REASON_LETTERS: Final = 2000
MAX_NAME_LETTERS: Final = 60


def _own_copy(data: Mapping[str, Any]) -> Mapping[str, Any]:
    return MappingProxyType({name: _copied(value) for name, value in data.items()})


def _copied(value: Any) -> Any:  # noqa: ANN401 - what is not plain data is frozen, and stays
    if isinstance(value, Mapping):
        return {key: _copied(one) for key, one in value.items()}
    if isinstance(value, list):
        return [_copied(one) for one in value]
    if isinstance(value, tuple):
        return tuple(_copied(one) for one in value)
    return value


@attrs.frozen
class HookEvent:
    """What is about to happen, or has happened; the point's row says what is in `data`.

    Every hook has its own: what it does to the dicts inside changes nothing for anybody.
    """

    point: PointName
    session_id: SessionId | None
    turn_id: TurnId | None
    # Not shown: there is people's text in it, and events end up in logs.
    data: Mapping[str, Any] = attrs.field(converter=_own_copy, repr=False)


# Answers ----------------------------------------------------------------------------------


@final
@attrs.frozen(init=False)
class Change:
    """Go on, with these fields instead of those that were given."""

    fields: Mapping[str, Any] = attrs.field(repr=False)

    def __init__(self, **fields: Any) -> None:  # noqa: ANN401 - each point has its own
        self.__attrs_init__(MappingProxyType(fields))


def _reason(given: object) -> str:
    # Whoever says no means no, also without a good reason.
    if not isinstance(given, str) or not given.strip():
        return "it gave no reason"
    return plain_text(given)[:MAX_REASON_LETTERS]


@final
@attrs.frozen
class Deny:
    """Do not do this."""

    reason: str = attrs.field(converter=_reason)


@final
@attrs.frozen
class Stop:
    """Do not do this, and stop the session."""

    reason: str = attrs.field(converter=_reason)


# Answers with None, Change, Deny or Stop, or is async and does; what an observer answers is not
# looked at.
Callback: TypeAlias = Callable[[HookEvent], object]


class Denied(Exception):
    """A hook will not have it; whoever asked says so in an error of its own.

    `hook` names it, and `stops` says whether the session is to be stopped as well.
    """

    def __init__(self, reason: str, *, hook: str, stops: bool = False) -> None:
        super().__init__(reason)
        self.reason = reason
        self.hook = hook
        self.stops = stops


class HookFailed(Exception):
    """A hook did not answer as hooks should; says how, and nothing of what it knows."""


# The hook itself --------------------------------------------------------------------------


class Hook:
    """A callback at its point, until `remove()`."""

    __slots__ = (
        "_forget",
        "_is_claimed",
        "callback",
        "deadline_seconds",
        "is_removed",
        "name",
        "number",
        "once",
        "point",
        "required",
        "runs",
        "zombies",
    )

    def __init__(
        self,
        point: Point,
        callback: Callback,
        *,
        number: int,
        once: bool,
        required: bool,
        deadline_seconds: float,
        forget: Callable[[Hook], None],
    ) -> None:
        _refuse_unless_callable(point, callback)
        for word, value in (("once", once), ("required", required)):
            if not isinstance(value, bool):
                raise ConfigError(f"{word} is {shown(value)}", hint="give True or False")
        if required and point.kind == "observed":
            raise ConfigError(
                f"a hook of {point.name} cannot be required: nothing waits for it",
                hint="leave required out, or choose a point that asks before it acts",
            )
        self.point: PointName = point.name
        self.name = _name_of(callback)
        self.callback = callback
        self.once = once
        self.required = required
        self.deadline_seconds = checked_deadline(deadline_seconds)
        # Its own among all hooks; and how often it was called, and how many of those calls go on
        # though nobody waits for them any more.
        self.number = number
        self.runs = 0
        self.zombies = 0
        self.is_removed = False
        # Invariant: set from the choice of a `once` hook until it is called, and so removed, or
        # until it is certain that it will not be. Nobody else may call it meanwhile.
        self._is_claimed = False
        self._forget = forget

    def __repr__(self) -> str:
        return f"<Hook {self.name} of {self.point}{' (removed)' if self.is_removed else ''}>"

    def remove(self) -> None:
        """Do not call it any more; what it is doing just now still counts."""
        if not self.is_removed:
            self.is_removed = True
            self._forget(self)

    # For the dispatcher -------------------------------------------------------------------

    def claim(self) -> bool:
        """Whether it is to be called now; True obliges to call `begin` or `release`."""
        if self.is_removed or self._is_claimed:
            return False
        self._is_claimed = self.once
        return True

    def begin(self) -> int:
        """It is being called; the number of this call."""
        self.runs += 1
        if self.once:
            self.remove()
        return self.runs

    def release(self) -> None:
        """It was not called after all."""
        self._is_claimed = False


def checked_deadline(seconds: object) -> float:
    """A number of seconds that a hook can be given, or `ConfigError`."""
    if type(seconds) not in (int, float) or not 0 < seconds <= sys.float_info.max:  # type: ignore[operator]
        raise ConfigError(
            f"deadline_seconds is {shown(seconds)}",
            hint="give a finite number above 0; leave it out for the usual one",
        )
    return float(seconds)  # type: ignore[arg-type]


def _refuse_unless_callable(point: Point, callback: object) -> None:
    if callable(callback):
        try:
            inspect.signature(callback).bind(None)
        except ValueError:
            return  # a builtin that does not say what it takes
        except TypeError:
            problem = "which does not take one argument"
        else:
            return
    else:
        problem = "which cannot be called"
    raise ConfigError(
        f"the hook of {point.name} is {shown(callback)}, {problem}",
        hint="give a function of one argument, the event; it may be async",
    )


def _name_of(callback: object) -> str:
    while isinstance(callback, partial):
        callback = callback.func
    name = getattr(callback, "__name__", None)
    if not isinstance(name, str):
        name = type(callback).__name__
    return plain_text(name)[:MAX_NAME_LETTERS]
