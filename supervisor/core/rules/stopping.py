"""Stopping, resuming, clearing, archiving, suspending: the session as a whole."""

from __future__ import annotations

import attrs

from supervisor.core.effects import CloseAgent, SetTimer, StartAgent
from supervisor.core.errors import InputRefused, SessionNotActive
from supervisor.core.events import (
    ArchiveRequested,
    ClearRequested,
    DetailsChanged,
    Event,
    IdleElapsed,
    LeaveRequested,
    MessageAppended,
    ResumeRequested,
    StopRequested,
    UnarchiveRequested,
)
from supervisor.core.facts import kind_of_text
from supervisor.core.step import Draft, UnderWay

from .door import refuse_archived, refuse_before_hooks, refused, text_problem
from .flow import begin_chapter, begin_stopping, finish_stopping, rest, settle
from .interrupts import begin_interrupt, cancel_queue


def stop(draft: Draft, event: StopRequested) -> None:
    """No turn is open: let the agent go; the end comes when it is gone."""
    if _is_late(draft, event):
        return
    begin_stopping(draft, event.cause, event.detail)
    draft.do(CloseAgent())
    draft.accept()


def stop_suspended(draft: Draft, event: StopRequested) -> None:
    """There is no agent to wait for."""
    if _is_late(draft, event):
        return
    begin_stopping(draft, event.cause, event.detail, agent_closed=True)
    finish_stopping(draft)
    draft.accept()


def stop_while_busy(draft: Draft, event: StopRequested) -> None:
    """A turn is open: interrupt it, or let it end first; the first cause wins."""
    if _is_late(draft, event):
        return
    if event.after_turn:
        if draft.session.stopping is None:
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


def _is_late(draft: Draft, event: StopRequested) -> bool:
    """Whether a parent ordered it that has ended since, and come back; its child has, too."""
    late = event.cause == "parent_stopped" and draft.situation.parent_lives
    if late:
        draft.accept()
    return late


def already_stopping(draft: Draft, _: StopRequested) -> None:
    """Stopping twice is fine; whoever asks waits for the same end."""
    draft.accept()


def resume(draft: Draft, event: ResumeRequested) -> None:
    """Begin again where it ended, with the queue that was held."""
    if draft.session.archived:
        refuse_archived(draft)
        return
    if refused(draft, draft.situation.refusal):
        return
    if not event.may_return:
        refuse_before_hooks(draft)
        return
    draft.note("session_resumed", woken=False)
    draft.do(StartAgent())
    draft.accept()


def already_live(draft: Draft, _: ResumeRequested) -> None:
    """A live session is returned as it is."""
    draft.accept()


def clear(draft: Draft, _: ClearRequested) -> None:
    """A new chapter: the conversation begins anew, the records stay."""
    if draft.session.archived:
        refuse_archived(draft)
        return
    for waiting in draft.session.inputs:
        settle(draft, waiting, "cancelled", "cleared")
    begin_chapter(draft)
    draft.accept()


def clear_while_busy(draft: Draft, _: ClearRequested) -> None:
    """The same, when the turn is over, which is interrupted; what is sent from now on is kept."""
    turn = draft.session.turn
    assert turn is not None
    cancel_queue(draft, "cleared")
    draft.note("session_changed", verdict="clear")
    begin_interrupt(draft, reason="cleared")
    draft.accept(UnderWay(turn.id))


def archive(draft: Draft, _: ArchiveRequested) -> None:
    """Read-only until unarchived; what it still held never runs."""
    if not draft.session.archived:
        for waiting in draft.session.inputs:
            settle(draft, waiting, "cancelled", "archived")
        draft.note("session_archived", archived=True)
    draft.accept()


def unarchive(draft: Draft, _: UnarchiveRequested) -> None:
    """Writable again; whether its key is still free is known elsewhere."""
    if draft.session.archived:
        draft.note("session_archived", archived=False)
    draft.accept()


def suspend(draft: Draft, _: IdleElapsed) -> None:
    """Nobody wanted anything for a while: let the agent go, wake on the next input."""
    session = draft.session
    if session.inputs or session.zombie is not None:
        return
    if draft.situation.has_company and session.terms.suspend_after_seconds is not None:
        draft.do(SetTimer("suspend", session.terms.suspend_after_seconds))  # children are up
    else:
        rest(draft)


def leave(draft: Draft, _: LeaveRequested) -> None:
    """The supervisor leaves: rest now, with all that waits kept for when it is back."""
    rest(draft)


def leave_when_free(draft: Draft, _: LeaveRequested) -> None:
    """The supervisor leaves: rest when what is under way is over."""
    draft.note("session_changed", leaving=True)


def append(draft: Draft, event: MessageAppended) -> None:
    """Put a message into the history without a turn."""
    if draft.session.archived:
        refuse_archived(draft)
    elif not refused(draft, text_problem(draft.session, event.text)):
        draft.note(kind_of_text(event.role), text=event.text, part=None)
        draft.accept()


def change_details(draft: Draft, event: DetailsChanged) -> None:
    """Title, tags, custom data, limits."""
    if draft.session.archived:
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


# Wrong phase -----------------------------------------------------------------------------


def refuse_while_busy(draft: Draft, _: Event) -> None:
    """Not while something is under way."""
    draft.refuse(
        InputRefused(
            f"session {draft.session.id} is {draft.session.phase}",
            hint="wait until it is idle, or interrupt it first",
        )
    )


def refuse_unless_live(draft: Draft, _: Event) -> None:
    """Not with a session that is stopped, or about to be."""
    draft.refuse(
        SessionNotActive(
            f"session {draft.session.id} is {draft.session.phase}",
            hint="wait until it is stopped, then resume it",
        )
    )


def refuse_unless_stopped(draft: Draft, _: Event) -> None:
    """Only with a session that is stopped."""
    draft.refuse(
        SessionNotActive(
            f"session {draft.session.id} is {draft.session.phase}", hint="stop it first"
        )
    )


def refuse_as_not_archived(draft: Draft, _: Event) -> None:
    """Only what is stopped can be archived, so this is not."""
    draft.refuse(
        SessionNotActive(
            f"session {draft.session.id} is {draft.session.phase}, and not archived",
            hint="use it as it is",
        )
    )


def ignore(_: Draft, __: Event) -> None:
    """Late news: whatever it was about is over."""
