"""Limits of a turn's silence. Pure: this module only compares times with limits.

`sessions/liveness.py` measures the silence, and `report_silence` in `core/rules/turns.py` decides
what follows.
"""

from __future__ import annotations

from typing import Final

import attrs

from .limits import Terms
from .state import OpenTurn, SessionState, Silence

# A shorter time cannot always be added to a clock, and the timer would be due at once.
MIN_TIMER_SECONDS: Final = 0.001


@attrs.frozen
class SilenceCheck:
    """The level of silence to report now, and the time of the next check; each may be None."""

    level: Silence | None
    next_check_seconds: float | None


def check_silence(
    session: SessionState, silent_seconds: float, *, patience: float = 0.0
) -> SilenceCheck:
    """Return the level to report for a turn that is silent that long, and when to check again.

    Each level is reported once per silence: `quiet`, then `stalled`. A turn that waits for a person
    is not silent; its silence is measured from the answer. `patience` is the time that the sessions
    awaited by this turn may be silent, and extends the turn's own limit.
    """
    turn, terms = session.turn, session.terms
    if turn is None:
        return SilenceCheck(None, None)
    limit = max(stall_limit(terms, turn), patience)
    if turn.requests or session.waits_for_auth:  # the answer resets the timer
        return SilenceCheck(None, max(limit, MIN_TIMER_SECONDS))
    if turn.silence == "stalled":
        return SilenceCheck(None, None)
    if silent_seconds >= limit:
        return SilenceCheck("stalled", None)
    is_quiet = silent_seconds >= terms.quiet_after_seconds
    if turn.silence is not None or is_quiet:
        # Only progress can change anything before the limit, and progress resets the timer.
        level: Silence | None = "quiet" if turn.silence is None else None
        return SilenceCheck(level, max(limit - silent_seconds, MIN_TIMER_SECONDS))
    until = min(limit, terms.quiet_after_seconds) - silent_seconds
    return SilenceCheck(None, max(min(until, first_check_seconds(terms)), MIN_TIMER_SECONDS))


def stall_limit(terms: Terms, turn: OpenTurn) -> float:
    """Return the seconds of silence after which the turn is stalled: more within a tool call."""
    return terms.tool_stalled_after_seconds if turn.calls else terms.stalled_after_seconds


def first_check_seconds(terms: Terms) -> float:
    """Return the seconds from progress to the first check, which is also the longest interval.

    It is the shortest of the limits: a tool call may begin or end meanwhile, and then another limit
    applies.
    """
    return min(
        terms.quiet_after_seconds, terms.stalled_after_seconds, terms.tool_stalled_after_seconds
    )
