"""Classes that users of hooks see: the hook, its events, and the answers of a callback."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any, Final, TypeAlias, final

import attrs

from supervisor.core.errors import ConfigError, short_repr
from supervisor.core.ids import SessionId, TurnId
from supervisor.core.text import plain_text

from .points import Point, PointName

MAX_REASON_LETTERS: Final = 2000
MAX_NAME_LETTERS: Final = 60


def _frozen_copy(data: Mapping[str, Any]) -> Mapping[str, Any]:
    return MappingProxyType({name: _copied(value) for name, value in data.items()})


def _copied(value: Any) -> Any:  # noqa: ANN401 - other values are frozen and are not copied
    if isinstance(value, Mapping):
        return {key: _copied(one) for key, one in value.items()}
    if isinstance(value, list):
        return [_copied(one) for one in value]
    if isinstance(value, tuple):
        return tuple(_copied(one) for one in value)
    return value


@attrs.frozen
class HookEvent:
    """Event at a hook point; the row of the point in `points.py` lists the fields of `data`.

    Each hook gets a copy, so a change to `data` affects no other hook.
    """

    point: PointName
    session_id: SessionId | None
    turn_id: TurnId | None
    # Hidden in repr: the data contains user text, and events end up in logs.
    data: Mapping[str, Any] = attrs.field(converter=_frozen_copy, repr=False)


# Answers ----------------------------------------------------------------------------------


@final
@attrs.frozen(init=False)
class Change:
    """Answer that continues with the given values for some fields of the event."""

    fields: Mapping[str, Any] = attrs.field(repr=False)

    def __init__(self, **fields: Any) -> None:  # noqa: ANN401 - the fields depend on the point
        self.__attrs_init__(MappingProxyType(fields))


def _reason(given: object) -> str:
    # A denial without a usable reason is still a denial.
    if not isinstance(given, str) or not given.strip():
        return "no reason stated"
    return plain_text(given)[:MAX_REASON_LETTERS]


@final
@attrs.frozen
class Deny:
    """Answer that refuses the action."""

    reason: str = attrs.field(converter=_reason)


@final
@attrs.frozen
class Stop:
    """Answer that refuses the action and stops the session."""

    reason: str = attrs.field(converter=_reason)


# Returns None, Change, Deny or Stop, or an awaitable of one of them. The answer of an observer is
# ignored.
Callback: TypeAlias = Callable[[HookEvent], object]


class Denied(Exception):
    """A hook refused the action; the caller of `ask` turns it into the error of the action.

    `hook` is the name of the hook; `stops` is true if the session has to be stopped too.
    """

    def __init__(self, reason: str, *, hook: str, stops: bool = False) -> None:
        super().__init__(reason)
        self.reason = reason
        self.hook = hook
        self.stops = stops


class HookFailed(Exception):
    """A hook failed or returned an invalid answer.

    `kind` is the text without the words of an exception, which may contain the event's data.
    """

    def __init__(self, problem: str, *, kind: str | None = None) -> None:
        super().__init__(problem)
        self.kind = problem if kind is None else kind


# The hook itself --------------------------------------------------------------------------


class Hook:
    """A registered callback at one point; it is called until `remove()`."""

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
                raise ConfigError(f"{word} is {short_repr(value)}", hint="pass True or False")
        if required and point.kind == "observed":
            raise ConfigError(
                f"a hook of {point.name} cannot be required: observers cannot deny",
                hint="omit required, or use a blocking point",
            )
        self.point: PointName = point.name
        self.name = _name_of(callback)
        self.callback = callback
        self.once = once
        self.required = required
        self.deadline_seconds = checked_deadline(deadline_seconds)
        # Unique among all hooks of the supervisor.
        self.number = number
        # Calls made, and abandoned calls that have not ended yet.
        self.runs = 0
        self.zombies = 0
        self.is_removed = False
        # Invariant: true from the claim of a `once` hook until it is called, and so removed, or
        # released. No other caller may call the hook meanwhile.
        self._is_claimed = False
        self._forget = forget

    def __repr__(self) -> str:
        return f"<Hook {self.name} of {self.point}{' (removed)' if self.is_removed else ''}>"

    def remove(self) -> None:
        """Remove the hook; the answer of a running call still counts."""
        if not self.is_removed:
            self.is_removed = True
            self._forget(self)

    # For the dispatcher -------------------------------------------------------------------

    def claim(self) -> bool:
        """Claim the hook for a call; return False if it is removed or already claimed.

        After True the caller must call `begin` or `release`.
        """
        if self.is_removed or self._is_claimed:
            return False
        self._is_claimed = self.once
        return True

    def begin(self) -> int:
        """Count a call and return its number; a `once` hook is removed."""
        self.runs += 1
        if self.once:
            self.remove()
        return self.runs

    def release(self) -> None:
        """Release a claim without a call."""
        self._is_claimed = False


def checked_deadline(seconds: object) -> float:
    """Return the deadline in seconds; raise ConfigError unless it is positive and finite."""
    if type(seconds) not in (int, float) or not 0 < seconds <= sys.float_info.max:  # type: ignore[operator]
        raise ConfigError(
            f"deadline_seconds is {short_repr(seconds)}",
            hint="pass a finite number above 0, or omit it for the default",
        )
    return float(seconds)  # type: ignore[arg-type]


def _refuse_unless_callable(point: Point, callback: object) -> None:
    if callable(callback):
        try:
            inspect.signature(callback).bind(None)
        except ValueError:
            return  # a builtin without a signature
        except TypeError:
            problem = "which does not accept one argument"
        else:
            return
    else:
        problem = "which is not callable"
    raise ConfigError(
        f"the hook of {point.name} is {short_repr(callback)}, {problem}",
        hint="pass a function of one argument, the event; it may be async",
    )


def _name_of(callback: object) -> str:
    while isinstance(callback, partial):
        callback = callback.func
    name = getattr(callback, "__name__", None)
    if not isinstance(name, str):
        name = type(callback).__name__
    return plain_text(name)[:MAX_NAME_LETTERS]
