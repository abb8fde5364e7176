"""Rules for the session as a whole: stop, resume, clear, archive, suspend."""

from __future__ import annotations

import attrs

from supervisor.core.agent_events import IdleElapsed, ShutdownRequested
from supervisor.core.effects import CloseAgent, SetTimer, StartAgent
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
from supervisor.core.step import Draft, InterruptPending

from .interrupts import begin_interrupt, cancel_queue
from .refusals import refuse_any, refuse_archived, refuse_until_hooks_ran, text_problem
from .turn_flow import begin_stopping, finish_stopping, settle_input, start_chapter, suspend_session


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
    """Change title, tags, custom data or limits."""
    if draft.state.archived:
        refuse_archived(draft)
        return
    changes: dict[str, object] = {}
    if event.title is not None:
        changes["title"] = event.title
    if event.tags is not None:
        changes["tags"] = list(event.tags)
    if event.custom is not None:
        changes["custom"] = dict(event.custom)
    if event.limits is not None:
        changes["limits"] = attrs.asdict(event.limits)
    if changes:
        draft.note("session_changed", **changes)
    draft.accept()
