"""How an actor can end, and what its supervisor does about it. Pure: no clock, no dice, no tasks.

Rule 1: a decision is a function of its arguments; time and jitter are handed in.
Rule 2: a stop that somebody asked for never gets here: it is no crash, whatever the kind.
Rule 3: whoever decides to restart has counted it; nobody else counts.
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


# How it ended ---------------------------------------------------------------------------


@attrs.frozen
class Finished:
    """It raised `StopActor`: nothing was left to do."""


@attrs.frozen
class Stopped:
    """Someone asked it to stop, and it did."""


@attrs.frozen
class Killed:
    """It was cancelled: its time to stop was over, or the whole program was cancelled.

    Where it was not stopped on purpose, that counts as a crash.
    """


@attrs.frozen
class Crashed:
    """It raised `error`."""

    error: Exception


Exit: TypeAlias = Finished | Stopped | Killed | Crashed | GaveUp


def describe(exit_: Exit) -> str:
    """An end in a few words that fit behind a name: "crashed with ValueError"."""
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


def failure_of(name: str, culprit: str, exit_: Exit, policy: RestartPolicy) -> GaveUp:
    """The news that `name` is given up because `culprit` ended like this once too often."""
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


# What was agreed ------------------------------------------------------------------------


@attrs.frozen
class RestartPolicy:
    """When to restart, how often, and how patiently.

    `kind`: `permanent` comes back after every end, `transient` after a crash only,
    `temporary` never. At most `max_restarts` happen in any `within_seconds`; one more gives
    up. Before the n-th restart in a window the supervisor waits `backoff_seconds` doubled
    n - 1 times, at most `max_backoff_seconds`, of which up to half is taken off at random so
    that many do not return at the same instant.
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


# What to do -----------------------------------------------------------------------------


@attrs.frozen
class Leave:
    """It is over and stays so."""


@attrs.frozen
class Restart:
    """Bring it back after a pause; `recent` are the restarts that now count."""

    after_seconds: float
    recent: tuple[float, ...]


@attrs.frozen
class GiveUp:
    """One restart too many: stop trying and say so upwards."""


Verdict: TypeAlias = Leave | Restart | GiveUp


def judge(
    kind: RestartKind,
    exit_: Exit,
    *,
    policy: RestartPolicy,
    recent: tuple[float, ...],
    now: float,
    jitter: float,
) -> Verdict:
    """Decide what becomes of a child that ended by itself.

    `policy` has the intensity and back-off that apply (the child's own, or its group's),
    `recent` the instants of the restarts that counted so far, `jitter` a number in [0, 1).
    """
    if not _comes_back(kind, exit_):
        return Leave()
    counted = (*recent[bisect_left(recent, now - policy.within_seconds) :], now)
    if len(counted) > policy.max_restarts:
        return GiveUp()
    return Restart(after_seconds=_backoff(policy, len(counted), jitter), recent=counted)


def _comes_back(kind: RestartKind, exit_: Exit) -> bool:
    match kind:
        case "permanent":
            return True
        case "transient":
            return not isinstance(exit_, Finished | Stopped)
        case "temporary":
            return False


def _backoff(policy: RestartPolicy, nth: int, jitter: float) -> float:
    # The exponent is capped because 2.0 ** 1024 overflows, long after it stopped mattering.
    doubled = policy.backoff_seconds * 2.0 ** min(nth - 1, 63)
    return min(doubled, policy.max_backoff_seconds) * (1.0 - jitter / 2.0)


# Whom it reaches ------------------------------------------------------------------------


@attrs.frozen
class Reach:
    """Whom a restart touches, by name: halt these in this order, then start those in theirs."""

    halt: tuple[str, ...]
    start: tuple[str, ...]


def reach(
    strategy: Strategy, roster: Sequence[tuple[str, RestartKind]], broken: Iterable[str]
) -> Reach:
    """Work out whom the end of `broken` drags along.

    `roster` lists the children in start order. A temporary bystander is halted and stays
    gone, so it is in `halt` and not in `start`. Halting is in reverse start order.
    """
    touched = _touched(strategy, roster, set(broken))
    return Reach(
        halt=tuple(name for name, _ in reversed(touched)),
        start=tuple(name for name, kind in touched if kind != "temporary"),
    )


def _touched(
    strategy: Strategy, roster: Sequence[tuple[str, RestartKind]], down: set[str]
) -> Sequence[tuple[str, RestartKind]]:
    places = [place for place, (name, _) in enumerate(roster) if name in down]
    if not places:
        return ()
    match strategy:
        case "one_for_one":
            return [roster[place] for place in places]
        case "one_for_all":
            return roster
        case "rest_for_one":
            return roster[places[0] :]
