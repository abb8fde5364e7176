"""Rules for restarts of an agent: the pause before one, and how many are allowed.

Rule 1: restarts are counted within `within_seconds`; beyond `max_restarts` the session stops.
Rule 2: the pause starts at `backoff_seconds` and doubles with each counted restart; jitter shortens
        it by at most half.
Rule 3: the counted times are part of the record, so the count survives the supervisor.
"""

from __future__ import annotations

from typing import Final

import attrs

from supervisor.core.agent_events import AgentExited, BackoffElapsed, StartFailed
from supervisor.core.effects import SetTimer, StartAgent
from supervisor.core.state import Failure
from supervisor.core.step import Draft

from .stopping import stop_at_once, suspend_session

MAX_DOUBLINGS: Final = 16

EXITED_BEFORE_START: Final = Failure("startup", "the agent exited before it was ready")


def restart_or_stop(draft: Draft, failure: Failure, *, jitter: float) -> None:
    """Start another agent after a pause, or stop if there were too many restarts."""
    session = draft.state
    terms = session.terms.restart
    recent = (
        *(
            at
            for at in session.recent_restarts
            if draft.event.steady_at - at <= terms.within_seconds
        ),
        draft.event.steady_at,
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
        suspend_session(draft)
    else:
        draft.do(SetTimer("backoff", after_seconds))


def exited_while_restarting(draft: Draft, event: AgentExited) -> None:
    """Try another restart, or stop, because the agent exited during a restart."""
    restart_or_stop(draft, event.failure or EXITED_BEFORE_START, jitter=event.jitter)


def restart_failed(draft: Draft, event: StartFailed) -> None:
    """Try another restart, or stop, because the agent did not start again."""
    restart_or_stop(draft, event.failure, jitter=0.0)


def restart_after_backoff(draft: Draft, _: BackoffElapsed) -> None:
    """Start the agent after the pause."""
    draft.do(StartAgent())
