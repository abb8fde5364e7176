"""What was agreed: how much a session may have, how often it is restarted, how it is interrupted.

Frozen numbers with their units in their names, refused at the door when they cannot be meant.
None means no limit, where None is allowed.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final, Literal, TypeAlias, get_args

import attrs

from .errors import ConfigError, shown

# What every store can keep.
LARGEST: Final = 2**63 - 1

RestartKind: TypeAlias = Literal["never", "on_crash", "always"]

Check: TypeAlias = Callable[[Any, "attrs.Attribute[Any]", Any], None]


def whole(*, least: int, most: int | None = None, optional: bool = False) -> Check:
    """A validator: a whole number between two bounds, or None where that means no limit."""

    def check(owner: object, field: attrs.Attribute[Any], value: object) -> None:
        if value is None and optional:
            return
        # No bool, and no enum's number: stored, it would lose its name.
        if type(value) is not int or not least <= value <= (LARGEST if most is None else most):
            bounds = f"of at least {least}" if most is None else f"from {least} to {most}"
            raise _refusal(owner, field, value, f"a whole number {bounds}", optional=optional)

    return check


def number(
    *, least: float, optional: bool = False, finite: bool = True, above: bool = False
) -> Check:
    """A validator: a number, no NaN, of at least `least`, or None where that means no limit.

    With `above` it is more than `least`, and not `least` itself.
    """

    def check(owner: object, field: attrs.Attribute[Any], value: object) -> None:
        if value is None and optional:
            return
        is_number = type(value) in (int, float)
        # An int of more than 64 bits cannot be stored, and isinf() may not even answer.
        if type(value) is int and abs(value) > LARGEST:
            is_number = False
        fits = is_number and (value > least if above else value >= least)  # type: ignore[operator]
        if not fits or (finite and math.isinf(value)):  # type: ignore[arg-type]
            words = "above" if above else "of at least"
            bound = f"a {'finite ' if finite else ''}number {words} {least:g}"
            raise _refusal(owner, field, value, bound, optional=optional)

    return check


def one_of(choices: object) -> Check:
    """A validator: one of the words of a `Literal`."""
    words: Final = get_args(choices)

    def check(owner: object, field: attrs.Attribute[Any], value: object) -> None:
        if type(value) is not str or value not in words:
            raise _refusal(owner, field, value, f"one of {', '.join(words)}", optional=False)

    return check


def _refusal(
    owner: object, field: attrs.Attribute[Any], value: object, wanted: str, *, optional: bool
) -> ConfigError:
    name = f"{type(owner).__name__.lower()}.{field.name}"
    also = ", or None for no limit" if optional else ""
    return ConfigError(f"{name} is {shown(value)}", hint=f"give {name} {wanted}{also}")


@attrs.frozen(kw_only=True)
class Limits:
    """What a root may have below it, and what it and all below may spend together."""

    max_depth: int = attrs.field(default=3, validator=whole(least=0))
    max_children: int = attrs.field(default=5, validator=whole(least=0))
    max_descendants: int = attrs.field(default=50, validator=whole(least=0))
    max_spawns: int = attrs.field(default=200, validator=whole(least=0))
    turns: int | None = attrs.field(default=None, validator=whole(least=0, optional=True))
    tokens: int | None = attrs.field(default=None, validator=whole(least=0, optional=True))
    cost: float | None = attrs.field(default=None, validator=number(least=0.0, optional=True))
    wall_seconds: float | None = attrs.field(
        default=None, validator=number(least=0.0, optional=True)
    )


@attrs.frozen(kw_only=True)
class Restart:
    """What happens when an agent dies: whether it is started again, how often, how patiently."""

    policy: RestartKind = attrs.field(default="on_crash", validator=one_of(RestartKind))
    max_restarts: int = attrs.field(default=3, validator=whole(least=0))
    # Not 0: in no time at all nothing happens too often, and it would be restarted for ever.
    within_seconds: float = attrs.field(default=60.0, validator=number(least=0.0, above=True))
    backoff_seconds: float = attrs.field(default=0.5, validator=number(least=0.0))


@attrs.frozen(kw_only=True)
class Ladder:
    """How long each step of an interrupt may take before the next, harder one."""

    ask_seconds: float = attrs.field(default=5.0, validator=number(least=0.0))
    close_seconds: float = attrs.field(default=2.0, validator=number(least=0.0))
    terminate_seconds: float = attrs.field(default=2.0, validator=number(least=0.0))
    kill_seconds: float = attrs.field(default=2.0, validator=number(least=0.0))

    @property
    def total_seconds(self) -> float:
        """How long all steps may take together."""
        return self.ask_seconds + self.close_seconds + self.terminate_seconds + self.kill_seconds
