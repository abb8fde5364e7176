"""What comes after a turn: the next one, the session's end, or another agent."""

from __future__ import annotations

from typing import Final

import attrs

from supervisor.core.effects import CloseAgent, SetTimer
from supervisor.core.session import Failure, Phase, Turn
from supervisor.core.step import Draft

from .flow import begin_stopping, rest, start_next, stop_at_once, stop_for_shortage

MAX_DOUBLINGS: Final = 16
STALLED: Final = "it made no progress, and was to be restarted for that"


def go_on(draft: Draft, ended: Turn | None = None) -> None:
    """After a turn: stop if that was asked for, else begin the next one.

    `ended` is the turn, whose verdict may ask for another agent.
    """
    session = draft.session
    if session.stopping is not None:
        if session.phase is not Phase.STOPPING:
            begin_stopping(draft, session.stopping.cause, session.stopping.detail)
        draft.do(CloseAgent())
    elif ended is not None and ended.verdict == "restart":
        draft.do(CloseAgent())
        restart_or_stop(draft, Failure("timeout", STALLED), jitter=0.0)
    elif draft.situation.shortage is not None and session.phase is Phase.IDLE:
        stop_for_shortage(draft)
    else:
        start_next(draft)


def restart_or_stop(draft: Draft, failure: Failure, *, jitter: float) -> None:
    """The agent is gone, or is to go: another one after a pause, or the end if there were many."""
    session = draft.session
    terms = session.terms.restart
    recent = (
        *(at for at in session.recent_restarts if draft.at - at <= terms.within_seconds),
        draft.at,
    )
    if terms.policy == "never" or len(recent) > terms.max_restarts:
        stop_at_once(draft, "stalled" if failure.kind == "timeout" else "process_exited", failure)
        return
    doubled = terms.backoff_seconds * 2.0 ** min(len(recent) - 1, MAX_DOUBLINGS)
    after_seconds = doubled * (1.0 - jitter / 2.0)
    draft.note(
        "agent_restarting",
        attempt=len(recent),
        after_seconds=after_seconds,
        failure=attrs.asdict(failure),
        recent=list(recent),
    )
    if session.leaving:
        rest(draft)
    else:
        draft.do(SetTimer("backoff", after_seconds))
