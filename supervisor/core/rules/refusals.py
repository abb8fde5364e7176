"""Checks that refuse a request because of the state of its session."""

from __future__ import annotations

from supervisor.core.errors import (
    BudgetSpent,
    InputRefused,
    InputTooLarge,
    QueueFull,
    SessionNotActive,
    SupervisorError,
    short_repr,
)
from supervisor.core.events import Event
from supervisor.core.state import SessionState
from supervisor.core.step import Draft, ResumeNeedsHooks

# Wrong phase -----------------------------------------------------------------------------


def refuse_while_busy(draft: Draft, _: Event) -> None:
    """Refuse a request, because a turn or a start is in progress."""
    draft.refuse(
        InputRefused(
            f"session {draft.state.id} is {draft.state.phase}",
            hint="wait until it is idle, or interrupt it first",
        )
    )


def refuse_unless_live(draft: Draft, _: Event) -> None:
    """Refuse a request, because the session is stopping."""
    draft.refuse(
        SessionNotActive(
            f"session {draft.state.id} is {draft.state.phase}",
            hint="wait until it is stopped, then resume it",
        )
    )


def refuse_unless_stopped(draft: Draft, _: Event) -> None:
    """Refuse a request that needs a stopped session."""
    draft.refuse(
        SessionNotActive(f"session {draft.state.id} is {draft.state.phase}", hint="stop it first")
    )


def refuse_as_not_archived(draft: Draft, _: Event) -> None:
    """Refuse to unarchive a session that is not stopped, and so not archived."""
    draft.refuse(
        SessionNotActive(
            f"session {draft.state.id} is {draft.state.phase}, and not archived",
            hint="use it as it is",
        )
    )


def ignore(_: Draft, __: Event) -> None:
    """Ignore a late event, whose turn, call or request has ended."""


def text_problem(session: SessionState, text: str, *, attached: int = 0) -> SupervisorError | None:
    """Return the error if the text is invalid, or too long with `attached` bytes; else None."""
    if not isinstance(text, str):
        return InputRefused(f"the text is {short_repr(text)}", hint="send some text")
    if not text or text.isspace():
        return InputRefused("the text is blank", hint="send some text")
    try:
        size = len(text) if text.isascii() else len(text.encode())
    except UnicodeEncodeError:
        return InputRefused(
            "the text contains a lone surrogate",
            hint="a lone surrogate cannot be stored: decode the text correctly first",
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


def queue_problem(session: SessionState) -> SupervisorError | None:
    """Return the error if the queue is full; else None."""
    cap = session.terms.queue_cap
    if len(session.inputs) < cap:
        return None
    # News of children wakes its session however full the queue is.
    waiting = sum(one.source != "child" for one in session.inputs)
    if waiting < cap:
        return None
    return QueueFull(
        f"session {session.id} has {waiting} of {cap} inputs waiting",
        hint="wait for a turn to end, cancel one, or raise queue_cap",
    )


def budget_problem(draft: Draft, *, begins: bool = True) -> SupervisorError | None:
    """Return the error if a budget is exhausted, or None.

    If no new turn begins, the budget `turns` is ignored.
    """
    exhausted_budget = draft.tree_view.exhausted_budget
    if exhausted_budget is None or (exhausted_budget.limit == "turns" and not begins):
        return None
    return BudgetSpent(
        f"session {draft.state.id} has an exhausted budget: {exhausted_budget}",
        hint=f"raise limits.{exhausted_budget.limit} of session {exhausted_budget.owner}",
        limit=exhausted_budget.limit,
        used=exhausted_budget.used,
        allowed=exhausted_budget.allowed,
    )


def refuse_archived(draft: Draft) -> None:
    """Refuse because an archived session is read-only."""
    draft.refuse(
        SessionNotActive(f"session {draft.state.id} is archived", hint="unarchive it first")
    )


def refuse_until_hooks_ran(draft: Draft) -> None:
    """Refuse because the input would resume a stopped session.

    Its resume hooks have not run.
    """
    draft.refuse(
        ResumeNeedsHooks(f"session {draft.state.id} is stopped", hint="ask hooks, then ask again")
    )


def refuse_any(draft: Draft, *problems: SupervisorError | None) -> bool:
    """Refuse with the first of the problems; return True if there is one."""
    for problem in problems:
        if problem is not None:
            draft.refuse(problem)
            return True
    return False
