"""Counts and sums over all sessions, computed from a few figures of each row."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Mapping
from typing import NamedTuple

import attrs

from .ids import SessionId
from .info import badge_of
from .state import Phase, SessionState, Usage


class Figures(NamedTuple):
    """One session's part of the totals; not its row, which takes ten times the memory."""

    phase: str
    badge: str
    running_turns: int
    queued: int
    turns: int
    messages: int
    tool_calls: int
    restarts: int
    input_tokens: int
    output_tokens: int
    cost: float


@attrs.frozen(kw_only=True)
class Totals:
    """Counts and sums over the sessions whose rows can be read; `damaged` lists the others."""

    sessions: int
    phases: Mapping[str, int]
    badges: Mapping[str, int]
    running_turns: int
    queued: int
    turns: int
    messages: int
    tool_calls: int
    restarts: int
    usage: Usage
    damaged: tuple[SessionId, ...] = ()


def figures_of(session: SessionState) -> Figures:
    """Return what a session adds to the totals."""
    usage = session.usage
    return Figures(
        str(session.phase),
        badge_of(session),
        int(session.turn is not None),
        len(session.inputs),
        session.turns,
        session.messages,
        session.tool_calls,
        session.restarts,
        usage.input_tokens,
        usage.output_tokens,
        usage.cost,
    )


def total(figures: Collection[Figures], *, damaged: tuple[SessionId, ...] = ()) -> Totals:
    """Return the totals; their values do not depend on the order of the figures."""
    phases = Counter([one.phase for one in figures])
    return Totals(
        sessions=len(figures),
        phases={str(phase): phases[phase] for phase in Phase},
        badges=dict(Counter([one.badge for one in figures])),
        running_turns=sum([one.running_turns for one in figures]),
        queued=sum([one.queued for one in figures]),
        turns=sum([one.turns for one in figures]),
        messages=sum([one.messages for one in figures]),
        tool_calls=sum([one.tool_calls for one in figures]),
        restarts=sum([one.restarts for one in figures]),
        # Added to nothing, so that the sums have the bounds of every other usage.
        usage=Usage()
        + Usage(
            sum([one.input_tokens for one in figures]),
            sum([one.output_tokens for one in figures]),
            math.fsum([one.cost for one in figures]),
        ),
        damaged=damaged,
    )
