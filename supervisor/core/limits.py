"""Limits, restart policy and interrupt ladder of a session; its terms and its lineage.

Frozen numbers with their units in their names, validated on creation. None means no limit,
where None is allowed.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, Final, Literal, TypeAlias, get_args

import attrs

from .errors import ConfigError, short_repr
from .ids import InputId, SessionId

# The largest integer that every store can keep.
MAX_INT64: Final = 2**63 - 1

RestartKind: TypeAlias = Literal["never", "on_crash", "always"]

Validator: TypeAlias = Callable[[Any, "attrs.Attribute[Any]", Any], None]


def whole_number(*, least: int, most: int | None = None, optional: bool = False) -> Validator:
    """Return a validator for a whole number between two bounds, or None for no limit."""

    def check(owner: object, field: attrs.Attribute[Any], value: object) -> None:
        if value is None and optional:
            return
        # No bool, and no enum's number: stored, it would lose its name.
        if type(value) is not int or not least <= value <= (MAX_INT64 if most is None else most):
            bounds = f"of at least {least}" if most is None else f"from {least} to {most}"
            raise _refusal(owner, field, value, f"a whole number {bounds}", optional=optional)

    return check


def number(
    *, least: float, optional: bool = False, finite: bool = True, above: bool = False
) -> Validator:
    """Return a validator for a number (not NaN) of at least `least`, or None for no limit.

    With `above` the number must be greater than `least`.
    """

    def check(owner: object, field: attrs.Attribute[Any], value: object) -> None:
        if value is None and optional:
            return
        is_number = type(value) in (int, float)
        # An int of more than 64 bits cannot be stored, and isinf() may overflow.
        if type(value) is int and abs(value) > MAX_INT64:
            is_number = False
        fits = is_number and (value > least if above else value >= least)  # type: ignore[operator]
        if not fits or (finite and math.isinf(value)):  # type: ignore[arg-type]
            relation = "above" if above else "of at least"
            bound = f"a {'finite ' if finite else ''}number {relation} {least:g}"
            raise _refusal(owner, field, value, bound, optional=optional)

    return check


def one_of(choices: object) -> Validator:
    """Return a validator for one of the values of a `Literal`."""
    allowed: Final = get_args(choices)

    def check(owner: object, field: attrs.Attribute[Any], value: object) -> None:
        if type(value) is not str or value not in allowed:
            raise _refusal(owner, field, value, f"one of {', '.join(allowed)}", optional=False)

    return check


def _refusal(
    owner: object, field: attrs.Attribute[Any], value: object, wanted: str, *, optional: bool
) -> ConfigError:
    name = f"{type(owner).__name__.lower()}.{field.name}"
    also = ", or None for no limit" if optional else ""
    return ConfigError(f"{name} is {short_repr(value)}", hint=f"give {name} {wanted}{also}")


@attrs.frozen(kw_only=True)
class Limits:
    """Limits on the tree below a session, and budgets of the session with all descendants."""

    max_depth: int = attrs.field(default=3, validator=whole_number(least=0))
    max_children: int = attrs.field(default=5, validator=whole_number(least=0))
    max_descendants: int = attrs.field(default=50, validator=whole_number(least=0))
    max_spawns: int = attrs.field(default=200, validator=whole_number(least=0))
    turns: int | None = attrs.field(default=None, validator=whole_number(least=0, optional=True))
    tokens: int | None = attrs.field(default=None, validator=whole_number(least=0, optional=True))
    cost: float | None = attrs.field(default=None, validator=number(least=0.0, optional=True))
    wall_seconds: float | None = attrs.field(
        default=None, validator=number(least=0.0, optional=True)
    )

    @functools.cached_property
    def has_budget(self) -> bool:
        """True if a budget is set. Cached, because sessions share limits and each step asks."""
        budgets = (self.turns, self.tokens, self.cost, self.wall_seconds)
        return any(budget is not None for budget in budgets)


@attrs.frozen(kw_only=True)
class Restart:
    """The restart policy of an agent: whether, how often, and after which pause."""

    policy: RestartKind = attrs.field(default="on_crash", validator=one_of(RestartKind))
    max_restarts: int = attrs.field(default=3, validator=whole_number(least=0))
    # Not 0: no two restarts fall within 0 seconds, so restarts would never end.
    within_seconds: float = attrs.field(default=60.0, validator=number(least=0.0, above=True))
    backoff_seconds: float = attrs.field(default=0.5, validator=number(least=0.0))


@attrs.frozen(kw_only=True)
class Ladder:
    """The time that each step of an interrupt has before the next, harder one."""

    ask_seconds: float = attrs.field(default=5.0, validator=number(least=0.0))
    close_seconds: float = attrs.field(default=2.0, validator=number(least=0.0))
    terminate_seconds: float = attrs.field(default=2.0, validator=number(least=0.0))
    kill_seconds: float = attrs.field(default=2.0, validator=number(least=0.0))

    @property
    def total_seconds(self) -> float:
        """The time of all steps together."""
        return self.ask_seconds + self.close_seconds + self.terminate_seconds + self.kill_seconds


Lifetime: TypeAlias = Literal["with_parent", "detached"]

OnEnd: TypeAlias = Literal["tell", "wake"]

OnStall: TypeAlias = Literal["notify", "interrupt", "restart", "stop"]


@attrs.frozen
class Terms:
    """The settings a session was created with; changes of the defaults do not affect it."""

    queue_cap: int = 10
    max_text_bytes: int = 65536
    steer_fallback: Literal["queue", "interrupt"] = "queue"
    ladder: Ladder = attrs.field(factory=Ladder)
    restart: Restart = attrs.field(factory=Restart)
    # None: a permission request waits until it is answered. It was 300 in early versions, whose
    # rows and records say so.
    permission_timeout_seconds: float | None = None
    suspend_after_seconds: float | None = 900.0  # None: never
    max_turn_bytes: int = 67108864
    quiet_after_seconds: float = 120.0
    stalled_after_seconds: float = 300.0
    tool_stalled_after_seconds: float = 900.0
    on_stall: OnStall = "notify"
    turn_deadline_seconds: float | None = None  # None: no deadline
    # True if its agent may answer permission requests of its descendants, within its rights.
    answers_for_children: bool = False


@attrs.frozen
class Lineage:
    """The position of a session in its tree; the default is that of a root.

    `above` are all ancestors, the root first: an ancestor may be deleted before this session, and
    the remaining ancestors still count it. `input` is the input that the session was spawned with;
    when it ends, the parent gets news or a turn, as `on_end` says.
    """

    parent: SessionId | None = None
    root: SessionId | None = None
    depth: int = 0
    role: str | None = None
    lifetime: Lifetime = "with_parent"
    expires_at: float | None = None
    input: InputId | None = None
    on_end: OnEnd = "tell"
    above: tuple[SessionId, ...] | None = None
