"""Exits of actors, and the decision to restart. Pure: no clock, no randomness, no tasks.

Rule 1: a decision is a function of its arguments; time and jitter are parameters.
Rule 2: a requested stop is not decided here, because it is not a crash, whatever the restart kind.
Rule 3: the code that decides on a restart also counts it; no other code does.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from typing import Literal, TypeAlias

import attrs

from ._errors import (
    GaveUp,
    refuse_unless_count,
    refuse_unless_number,
    refuse_unless_one_of,
)

RestartKind: TypeAlias = Literal["permanent", "transient", "temporary"]
Strategy: TypeAlias = Literal["one_for_one", "one_for_all", "rest_for_one"]


# Exits ----------------------------------------------------------------------------------


@attrs.frozen
class Finished:
    """The actor raised `StopActor`."""


@attrs.frozen
class Stopped:
    """A stop was requested, and the actor stopped."""


@attrs.frozen
class Killed:
    """The actor was cancelled: its time to stop was over, or the whole program was cancelled.

    If no stop was requested, this counts as a crash.
    """


@attrs.frozen
class Crashed:
    """The actor raised `error`."""

    error: Exception


Exit: TypeAlias = Finished | Stopped | Killed | Crashed | GaveUp


def describe(exit_: Exit) -> str:
    """Return an exit as a phrase that follows a name: "crashed with ValueError"."""
    match exit_:
        case Crashed(error):
            return f"crashed with {type(error).__name__}"
        case GaveUp():
            return "gave up"
        case Finished():
            return "finished"
        case Stopped():
            return "was stopped"
        case Killed():
            return "was killed"


def make_gave_up(name: str, culprit: str, exit_: Exit, policy: RestartPolicy) -> GaveUp:
    """Return the error for `name`, which is given up because `culprit` ended too often."""
    gave_up = GaveUp(
        name,
        culprit=culprit,
        how=describe(exit_),
        max_restarts=policy.max_restarts,
        within_seconds=policy.within_seconds,
    )
    match exit_:
        case Crashed(error):
            gave_up.__cause__ = error
        case GaveUp():
            gave_up.__cause__ = exit_
    return gave_up


# Policy ---------------------------------------------------------------------------------


@attrs.frozen
class RestartPolicy:
    """When to restart, how often, and after which pause.

    `kind`: `permanent` is restarted after every end, `transient` after a crash only,
    `temporary` never. At most `max_restarts` happen in any `within_seconds`; one more gives up.
    Before the n-th restart in a window the supervisor waits `backoff_seconds` doubled n - 1
    times, at most `max_backoff_seconds`, of which up to half is taken off at random so that
    many actors do not restart at the same instant.
    """

    kind: RestartKind = "transient"
    max_restarts: int = attrs.field(default=3, kw_only=True)
    within_seconds: float = attrs.field(default=5.0, kw_only=True)
    backoff_seconds: float = attrs.field(default=0.0, kw_only=True)
    max_backoff_seconds: float = attrs.field(default=60.0, kw_only=True)

    def __attrs_post_init__(self) -> None:
        refuse_unless_one_of("kind", self.kind, RestartKind)
        refuse_unless_count("max_restarts", self.max_restarts, least=0)
        refuse_unless_number("within_seconds", self.within_seconds, least=0.0, finite=False)
        refuse_unless_number("backoff_seconds", self.backoff_seconds, least=0.0, finite=True)
        refuse_unless_number(
            "max_backoff_seconds", self.max_backoff_seconds, least=0.0, finite=True
        )


# Decision -------------------------------------------------------------------------------


@attrs.frozen
class NoRestart:
    """The child has ended for good."""


@attrs.frozen
class Restart:
    """Restart the child after a pause; `recent` are the restarts that now count."""

    after_seconds: float
    recent: tuple[float, ...]


@attrs.frozen
class GiveUp:
    """One restart too many: stop restarting and escalate."""


RestartDecision: TypeAlias = NoRestart | Restart | GiveUp


def decide_restart(
    kind: RestartKind,
    exit_: Exit,
    *,
    policy: RestartPolicy,
    recent: tuple[float, ...],
    now: float,
    jitter: float,
) -> RestartDecision:
    """Return the decision about a child that ended by itself.

    `policy` has the intensity and back-off that apply (the child's own, or its group's), `recent`
    the instants of the restarts counted so far, `jitter` a number in [0, 1).
    """
    if not _is_restarted(kind, exit_):
        return NoRestart()
    counted = (*recent[bisect_left(recent, now - policy.within_seconds) :], now)
    if len(counted) > policy.max_restarts:
        return GiveUp()
    return Restart(after_seconds=_backoff(policy, len(counted), jitter), recent=counted)


def _is_restarted(kind: RestartKind, exit_: Exit) -> bool:
    match kind:
        case "permanent":
            return True
        case "transient":
            return not isinstance(exit_, Finished | Stopped)
        case "temporary":
            return False


def _backoff(policy: RestartPolicy, nth: int, jitter: float) -> float:
    # The exponent is capped because 2.0 ** 1024 overflows.
    doubled = policy.backoff_seconds * 2.0 ** min(nth - 1, 63)
    return min(doubled, policy.max_backoff_seconds) * (1.0 - jitter / 2.0)


# Scope ----------------------------------------------------------------------------------


@attrs.frozen
class RestartScope:
    """The children that a restart affects, by name: first halt in order, then start in order."""

    halt: tuple[str, ...]
    start: tuple[str, ...]


def restart_scope(
    strategy: Strategy, children: Sequence[tuple[str, RestartKind]], failed: Iterable[str]
) -> RestartScope:
    """Return the children that the end of `failed` affects.

    `children` are in start order. A temporary sibling is halted and not started again, so it
    is in `halt` and not in `start`. Halting is in reverse start order.
    """
    affected = _affected(strategy, children, set(failed))
    return RestartScope(
        halt=tuple(name for name, _ in reversed(affected)),
        start=tuple(name for name, kind in affected if kind != "temporary"),
    )


def _affected(
    strategy: Strategy, children: Sequence[tuple[str, RestartKind]], failed: set[str]
) -> Sequence[tuple[str, RestartKind]]:
    indexes = [index for index, (name, _) in enumerate(children) if name in failed]
    if not indexes:
        return ()
    match strategy:
        case "one_for_one":
            return [children[index] for index in indexes]
        case "one_for_all":
            return children
        case "rest_for_one":
            return children[indexes[0] :]
