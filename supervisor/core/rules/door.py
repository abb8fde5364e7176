"""What cannot come in: blank, broken or oversized text, and more than the queue may hold."""

from __future__ import annotations

from supervisor.core.errors import (
    BudgetSpent,
    InputRefused,
    InputTooLarge,
    QueueFull,
    SessionNotActive,
    SupervisorError,
    shown,
)
from supervisor.core.session import Session
from supervisor.core.step import Draft, HooksFirst


def text_problem(session: Session, text: str, *, attached: int = 0) -> SupervisorError | None:
    """Why this text, with so many bytes of attachments, cannot be taken, or None."""
    if not isinstance(text, str):
        return InputRefused(f"the text is {shown(text)}", hint="send some text")
    if not text.strip():
        return InputRefused("the text is blank", hint="send some text")
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        return InputRefused(
            "the text has half of a character in it",
            hint="a lone surrogate cannot be stored: decode the text properly first",
        )
    most = session.terms.max_text_bytes
    if size > most:
        return InputTooLarge(
            f"the text has {size} bytes of {most} allowed",
            hint="shorten it, put it into a file, or raise max_text_bytes",
        )
    if attached > most:
        return InputTooLarge(
            f"the attachments have {attached} bytes of {most} allowed",
            hint="put them into files and attach where these are, or raise max_text_bytes",
        )
    return None


def queue_problem(session: Session) -> SupervisorError | None:
    """Why the queue takes no more, or None."""
    cap = session.terms.queue_cap
    # News of children wakes its session however full the queue is.
    waiting = sum(one.source != "child" for one in session.inputs)
    if waiting < cap:
        return None
    return QueueFull(
        f"session {session.id} has {waiting} of {cap} inputs waiting",
        hint="wait for a turn to end, cancel one, or raise queue_cap",
    )


def budget_problem(draft: Draft, *, begins: bool = True) -> SupervisorError | None:
    """Why nothing new begins here, or None; what begins no turn needs none to be left."""
    shortage = draft.situation.shortage
    if shortage is None or (shortage.limit == "turns" and not begins):
        return None
    return BudgetSpent(
        f"session {draft.session.id} has nothing left to spend: {shortage}",
        hint=f"raise limits.{shortage.limit} of session {shortage.owner}",
        limit=shortage.limit,
        used=shortage.used,
        allowed=shortage.allowed,
    )


def expiry_problem(at: float, expires_at: float | None) -> SupervisorError | None:
    """Why an input could never begin, or None."""
    if expires_at is None or expires_at > at:
        return None
    return InputRefused("it would expire before it begins", hint="give ttl_seconds above 0")


def refuse_archived(draft: Draft) -> None:
    """An archived session is read-only."""
    draft.refuse(
        SessionNotActive(f"session {draft.session.id} is archived", hint="unarchive it first")
    )


def refuse_before_hooks(draft: Draft) -> None:
    """It was live when hooks might have been asked, and has stopped since."""
    draft.refuse(
        HooksFirst(f"session {draft.session.id} is stopped", hint="ask hooks, then ask again")
    )


def refused(draft: Draft, *problems: SupervisorError | None) -> bool:
    """Refuse with the first problem there is, and say whether there was one."""
    for problem in problems:
        if problem is not None:
            draft.refuse(problem)
            return True
    return False
