"""How long a turn may be silent, and what that is called. Pure: who measures is elsewhere."""

from __future__ import annotations

from typing import Final

import attrs

from .session import Session, Silence, Terms, Turn

# Less cannot always be added to a clock, and then a timer would be due when it is set.
SHORTEST_SECONDS: Final = 0.001


@attrs.frozen
class Look:
    """What is to be said of a turn now, if anything; and when to look again, None for never."""

    level: Silence | None
    again_after_seconds: float | None


def look_at(session: Session, silent_seconds: float, *, patience: float = 0.0) -> Look:
    """What a silence of that length means for the session's running turn.

    Said once for each silence: `quiet`, then `stalled`. A turn that waits for a person is not
    silent, whatever the clock says; whoever measures counts its silence from the answer. `patience`
    is how long those may be silent whom it waits for, which is then its own limit too.
    """
    turn, terms = session.turn, session.terms
    if turn is None:
        return Look(None, None)
    limit = max(stall_limit(terms, turn), patience)
    if turn.requests or session.waits_for_auth:  # whoever answers sets the timer anew
        return Look(None, max(limit, SHORTEST_SECONDS))
    if turn.silence == "stalled":
        return Look(None, None)
    if silent_seconds >= limit:
        return Look("stalled", None)
    is_quiet = silent_seconds >= terms.quiet_after_seconds
    if turn.silence is not None or is_quiet:
        # Only progress can change anything before the limit, and that sets the timer anew.
        level: Silence | None = "quiet" if turn.silence is None else None
        return Look(level, max(limit - silent_seconds, SHORTEST_SECONDS))
    until = min(limit, terms.quiet_after_seconds) - silent_seconds
    return Look(None, max(min(until, first_look(terms)), SHORTEST_SECONDS))


def stall_limit(terms: Terms, turn: Turn) -> float:
    """How long it may be silent: a tool may take longer than a thought."""
    return terms.tool_stalled_after_seconds if turn.calls else terms.stalled_after_seconds


def first_look(terms: Terms) -> float:
    """When to look for the first time after progress, and how often at least while all is well.

    As soon as the shortest silence that means anything: a tool call may begin or end meanwhile, and
    then another limit holds.
    """
    return min(
        terms.quiet_after_seconds, terms.stalled_after_seconds, terms.tool_stalled_after_seconds
    )
