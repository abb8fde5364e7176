"""How long a turn may be silent, and what that is called. Pure: who measures is elsewhere."""

from __future__ import annotations

import attrs

from .session import Session, Silence, Terms, Turn


@attrs.frozen
class Look:
    """What is to be said of a turn now, if anything; and when to look again, None for never."""

    level: Silence | None
    again_after_seconds: float | None


def look_at(session: Session, silent_seconds: float) -> Look:
    """What a silence of that length means for the session's running turn.

    Said once for each silence: `quiet`, then `stalled`. A turn that waits for a person is not
    silent, whatever the clock says; whoever measures counts its silence from the answer.
    """
    turn, terms = session.turn, session.terms
    if turn is None:
        return Look(None, None)
    if turn.requests:
        return Look(None, _soon(terms))
    limit = stall_limit(terms, turn)
    if turn.silence == "stalled":
        return Look(None, None)
    if silent_seconds >= limit:
        return Look("stalled", None)
    if turn.silence is None and silent_seconds >= terms.quiet_after_seconds:
        return Look("quiet", min(limit - silent_seconds, _soon(terms)))
    until = [limit - silent_seconds, _soon(terms)]
    if turn.silence is None:
        until.append(terms.quiet_after_seconds - silent_seconds)
    return Look(None, min(until))


def stall_limit(terms: Terms, turn: Turn) -> float:
    """How long it may be silent: a tool may take longer than a thought."""
    return terms.tool_stalled_after_seconds if turn.calls else terms.stalled_after_seconds


def _soon(terms: Terms) -> float:
    # No later than the shortest silence that means anything: a tool call may end meanwhile, and
    # then a shorter limit holds.
    return max(min(terms.quiet_after_seconds, terms.stalled_after_seconds), 0.001)
