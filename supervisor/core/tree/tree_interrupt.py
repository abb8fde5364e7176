"""Interrupts of a tree: the order of its levels, and one report for all its members.

A tree is interrupted level by level from the deepest, so that a parent does not start or steer
descendants that have been interrupted already. The named session comes last.

`sessions/interrupter.py` carries the interrupt out.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias, get_args

import attrs

from supervisor.core.ids import SessionId
from supervisor.core.receipts import InterruptReport
from supervisor.core.state import LadderStep, Phase, SessionState

from .node import TreeNode

Levels: TypeAlias = tuple[tuple[SessionId, ...], ...]


@attrs.frozen
class TreeInterrupt:
    """The accepted interrupt of a tree: descendants of the named session by level.

    `levels` has the deepest level first; the sessions of a level are interrupted concurrently,
    and the named session after all of them.
    """

    levels: Levels


def levels_below(top: TreeNode) -> Levels:
    """Return the descendants of a node that have not stopped, by level, the deepest first."""
    levels: dict[int, list[SessionId]] = {}
    for member in top.iter_descendants():
        levels.setdefault(member.depth, []).append(member.id)
    return tuple(tuple(levels[depth]) for depth in sorted(levels, reverse=True))


def has_started(session: SessionState) -> bool:
    """Return True if the agent of a session is neither starting nor restarting."""
    return session.phase not in (Phase.STARTING, Phase.RESTARTING)


def is_about_to_run(session: SessionState) -> bool:
    """Return True if a turn starts as soon as the agent is up.

    An interrupt that keeps the queued inputs waits for that turn.
    """
    return not has_started(session) and bool(session.inputs)


def merge_reports(reports: Iterable[InterruptReport]) -> InterruptReport:
    """Return one report with the sums of all reports and the highest ladder step."""
    reports = tuple(reports)
    taken = {report.ladder_step for report in reports}
    return InterruptReport(
        "tree",
        matched=sum(report.matched for report in reports),
        stopped=sum(report.stopped for report in reports),
        already_over=sum(report.already_over for report in reports),
        stale=sum(report.stale for report in reports),
        unreachable=sum(report.unreachable for report in reports),
        input_id=next((one.input_id for one in reports if one.input_id is not None), None),
        ladder_step=next((step for step in reversed(get_args(LadderStep)) if step in taken), None),
    )
