"""Rules for the session as a whole: stop, resume, clear, archive, suspend.

Rule 1: a stop has one cause, the first; a later stop waits for the same end.
Rule 2: a session is stopped when its agent is closed and its dependents have stopped: children
        before their parent, younger siblings before older ones.
Rule 3: a stop cancels waiting inputs or holds them for a resume, as `ENDINGS` says for its cause.
"""

from __future__ import annotations

import attrs

from supervisor.core.agent_events import IdleElapsed, ShutdownRequested
from supervisor.core.agent_options import OptionChanges
from supervisor.core.effects import ClearTimer, CloseAgent, SetTimer, StartAgent, StopDependents
from supervisor.core.endings import ENDINGS, Cause
from supervisor.core.errors import SupervisorError
from supervisor.core.events import (
    ArchiveRequested,
    ClearRequested,
    DetailsChanged,
    MessageAppended,
    ResumeRequested,
    StopRequested,
    UnarchiveRequested,
)
from supervisor.core.records import message_kind
from supervisor.core.state import Failure, SessionState
from supervisor.core.step import Draft, InterruptPending

from .agent_options import options_to_set, set_options
from .input_queue import cancel_queue, settle_input
from .ladder import begin_interrupt
from .refusals import refuse_any, refuse_archived, refuse_until_hooks_ran, text_problem


def stop(draft: Draft, event: StopRequested) -> None:
    """Start to stop a session without an open turn; it is stopped when its agent is closed."""
    if _is_stale_stop(draft, event):
        return
    begin_stopping(draft, event.cause, event.detail)
    draft.do(CloseAgent())
    draft.accept()


def stop_suspended(draft: Draft, event: StopRequested) -> None:
    """Stop a suspended session, which has no agent to wait for."""
    if _is_stale_stop(draft, event):
        return
    begin_stopping(draft, event.cause, event.detail, agent_closed=True)
    finish_stopping(draft)
    draft.accept()


def stop_while_busy(draft: Draft, event: StopRequested) -> None:
    """Interrupt the open turn, or let it end first; the first cause wins."""
    if _is_stale_stop(draft, event):
        return
    if event.after_turn:
        if draft.state.stopping is None:
            draft.note(
                "session_changed",
                stopping={
                    "cause": event.cause,
                    "detail": event.detail,
                    "after_turn": True,
                    "agent_closed": False,
                    "failure": None,
                },
            )
    else:
        begin_stopping(draft, event.cause, event.detail)
        begin_interrupt(draft, reason=event.detail or event.cause)
    draft.accept()


def _is_stale_stop(draft: Draft, event: StopRequested) -> bool:
    """Return True if the parent that requested the stop is live again.

    The request has no effect.
    """
    late = event.cause == "parent_stopped" and draft.tree_view.is_parent_live
    if late:
        draft.accept()
    return late


def already_stopping(draft: Draft, _: StopRequested) -> None:
    """Accept a second stop; the caller waits for the same end."""
    draft.accept()


def resume(draft: Draft, event: ResumeRequested) -> None:
    """Start a stopped session again, with the inputs that stayed queued."""
    if draft.state.archived:
        refuse_archived(draft)
        return
    if refuse_any(draft, draft.tree_view.refusal):
        return
    if not event.resume_allowed:
        refuse_until_hooks_ran(draft)
        return
    draft.note("session_resumed", woken=False)
    draft.do(StartAgent())
    draft.accept()


def already_live(draft: Draft, _: ResumeRequested) -> None:
    """Accept without effect, because the session is live."""
    draft.accept()


def clear(draft: Draft, _: ClearRequested) -> None:
    """Start a new chapter and cancel queued inputs; the records are kept."""
    if draft.state.archived:
        refuse_archived(draft)
        return
    for waiting in draft.state.inputs:
        settle_input(draft, waiting, "cancelled", "cleared")
    start_chapter(draft)
    draft.accept()


def clear_while_busy(draft: Draft, _: ClearRequested) -> None:
    """Interrupt the turn and start a new chapter at its end; inputs sent meanwhile are kept."""
    turn = draft.state.turn
    assert turn is not None
    cancel_queue(draft, "cleared")
    draft.note("session_changed", verdict="clear")
    begin_interrupt(draft, reason="cleared")
    draft.accept(InterruptPending(turn.id))


def archive(draft: Draft, _: ArchiveRequested) -> None:
    """Make the session read-only and cancel its queued inputs."""
    if not draft.state.archived:
        for waiting in draft.state.inputs:
            settle_input(draft, waiting, "cancelled", "archived")
        draft.note("session_archived", archived=True)
    draft.accept()


def unarchive(draft: Draft, _: UnarchiveRequested) -> None:
    """Make the session writable again; `KeyIndex` checks that its key is free."""
    if refuse_any(draft, draft.tree_view.refusal):  # its name is taken
        return
    if draft.state.archived:
        draft.note("session_archived", archived=False)
    draft.accept()


def suspend_when_idle(draft: Draft, _: IdleElapsed) -> None:
    """Suspend an idle session; the next input wakes it."""
    session = draft.state
    if session.inputs or session.zombie is not None:
        return
    if draft.tree_view.has_active_children and session.terms.suspend_after_seconds is not None:
        draft.do(SetTimer("suspend", session.terms.suspend_after_seconds))  # children are active
    else:
        suspend_session(draft)


def suspend_for_shutdown(draft: Draft, _: ShutdownRequested) -> None:
    """Suspend the session now for a shutdown; queued inputs are kept."""
    suspend_session(draft)


def suspend_after_turn(draft: Draft, _: ShutdownRequested) -> None:
    """Suspend after the current turn or start, for a shutdown."""
    draft.note("session_changed", leaving=True)


def append_message(draft: Draft, event: MessageAppended) -> None:
    """Add a message to the history without a turn."""
    if draft.state.archived:
        refuse_archived(draft)
    elif not refuse_any(draft, text_problem(draft.state, event.text)):
        draft.note(message_kind(event.role), text=event.text, part=None)
        draft.accept()


def change_details(draft: Draft, event: DetailsChanged) -> None:
    """Change name, title, tags, custom data, limits or options of the agent."""
    if draft.state.archived:
        refuse_archived(draft)
        return
    if refuse_any(draft, draft.tree_view.refusal):  # the name is taken
        return
    wanted: OptionChanges = {}
    try:
        wanted = options_to_set(draft.state, event.options or {})
    except SupervisorError as problem:
        draft.refuse(problem)
        return
    changes = _changed_details(draft.state, event)
    if changes:
        draft.note("session_changed", **changes)
    if wanted:
        set_options(draft, wanted, event.by)
    draft.accept()


def _changed_details(session: SessionState, event: DetailsChanged) -> dict[str, object]:
    """Return the body of the record of changed details; empty if none changes."""
    changes: dict[str, object] = {}
    if event.name is not None:
        changes["name"] = event.name
    if event.title is not None:
        changes["title"] = event.title
    if event.tags is not None:
        changes["tags"] = list(event.tags)
    if event.custom is not None:
        changes["custom"] = dict(event.custom)
    if event.limits is not None:
        changes["limits"] = attrs.asdict(event.limits)
    if event.mcp_servers is not None and event.mcp_servers != session.mcp_servers:
        changes["mcp_servers"] = list(event.mcp_servers)
    return changes


# Parts that other rules use too ----------------------------------------------------------


def begin_stopping(
    draft: Draft,
    cause: Cause,
    detail: str | None = None,
    *,
    failure: Failure | None = None,
    agent_closed: bool = False,
) -> None:
    """Begin to stop the session and its dependents; the first cause wins."""
    first = draft.state.stopping
    failure = failure or (first.failure if first else None)
    draft.note(
        "session_changed",
        stopping={
            "cause": first.cause if first else cause,
            "detail": first.detail if first else detail,
            "after_turn": False,
            "agent_closed": agent_closed,
            "failure": None if failure is None else attrs.asdict(failure),
        },
    )
    draft.do(ClearTimer("suspend"), ClearTimer("backoff"))
    if draft.tree_view.dependents:
        draft.do(StopDependents())


def finish_stopping(draft: Draft) -> None:
    """Record the stop, unless other sessions must stop first; the agent is gone.

    Children stop before their parent, and younger siblings before older ones.
    """
    session = draft.state
    assert session.stopping is not None
    by_parent = session.stopping.cause == "parent_stopped"
    if not draft.tree_view.dependents and not (by_parent and draft.tree_view.has_younger_sibling):
        _record_stop(draft)
    elif not session.stopping.agent_closed:
        draft.note(
            "session_changed", stopping={**attrs.asdict(session.stopping), "agent_closed": True}
        )


def _record_stop(draft: Draft) -> None:
    """Record the stop; waiting inputs are cancelled or held."""
    session = draft.state
    assert session.stopping is not None
    failure = session.stopping.failure
    ending = ENDINGS[session.stopping.cause]
    if ending.inputs == "cancelled":
        for waiting in session.inputs:
            settle_input(draft, waiting, "cancelled", ending.reason)
    shown_detail = session.stopping.detail
    if shown_detail is None and session.stopping.cause in ("cleared", "replaced", "deleted"):
        shown_detail = session.stopping.cause
    draft.note(
        "session_stopped",
        reason=ending.reason,
        detail=shown_detail,
        failure=None if failure is None else attrs.asdict(failure),
    )
    draft.do(ClearTimer("suspend"), ClearTimer("ladder"), ClearTimer("backoff"))


def stop_at_once(draft: Draft, cause: Cause, failure: Failure | None = None) -> None:
    """Stop a session whose agent is gone already."""
    detail = failure.detail if failure else None
    begin_stopping(draft, cause, detail, failure=failure, agent_closed=True)
    finish_stopping(draft)


def stop_for_budget(draft: Draft) -> None:
    """Stop the session, because a budget that applies to it is exhausted."""
    exhausted_budget = draft.tree_view.exhausted_budget
    assert exhausted_budget is not None
    begin_stopping(draft, exhausted_budget.cause, str(exhausted_budget))
    draft.do(CloseAgent())


def suspend_session(draft: Draft) -> None:
    """Close the agent until there is work for it; waiting inputs are kept."""
    draft.note("session_suspended")
    draft.do(CloseAgent(), ClearTimer("suspend"), ClearTimer("backoff"))


def start_chapter(draft: Draft) -> None:
    """Start a new chapter of the conversation; the records stay."""
    draft.note("session_cleared", chapter=draft.state.chapter + 1)
    if draft.state.agent is not None:
        # The agent remembers the old chapter; the next turn starts one that does not.
        draft.note("session_changed", agent_gone=True)
        draft.do(CloseAgent())
