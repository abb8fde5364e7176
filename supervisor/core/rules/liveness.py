"""Progress, and the lack of it: what is said, and what is done about it, once for each silence."""

from __future__ import annotations

from supervisor.core.effects import SetTimer
from supervisor.core.events import DeadlineElapsed, ProgressMade, SilenceNoticed
from supervisor.core.liveness import first_look
from supervisor.core.session import Failure, Turn
from supervisor.core.step import Draft

from .flow import begin_stopping
from .interrupts import begin_interrupt


def notice_silence(draft: Draft, event: SilenceNoticed) -> None:
    """Say it; and if the turn is stalled, do what the session's policy has for that."""
    turn = _meant(draft, event)
    if turn is None or turn.silence in ("stalled", event.level):
        return
    detail = event.detail
    draft.note(
        event.level,
        waits_for=event.waits_for,
        detail=detail,
        since=event.since,
        seconds=event.seconds,
    )
    if event.level == "quiet" or turn.step is not None:
        return
    match draft.session.terms.on_stall:
        case "notify":
            pass
        case "interrupt":
            draft.note("session_changed", verdict="stalled")
            begin_interrupt(draft, reason="stalled")
        case "restart":
            draft.note("session_changed", verdict="restart")
            begin_interrupt(draft, reason="stalled")
        case "stop":
            shown = event.waits_for if detail is None else f"{event.waits_for} {detail}"
            text = f"no progress for {event.seconds:.0f} s, waiting for {shown}"
            begin_stopping(draft, "stalled", text, failure=Failure("timeout", text))
            begin_interrupt(draft, reason="stalled")


def notice_progress(draft: Draft, event: ProgressMade) -> None:
    """It goes on: whatever was said of its silence is over."""
    turn = _meant(draft, event)
    if turn is not None and turn.silence is not None:
        draft.note("progress_resumed", was=turn.silence)
        draft.do(SetTimer("silence", first_look(draft.session.terms)))


def end_its_time(draft: Draft, event: DeadlineElapsed) -> None:
    """The turn has had all the time it may have."""
    turn = _meant(draft, event)
    if turn is not None and turn.step is None:
        draft.note("session_changed", verdict="timed_out")
        begin_interrupt(draft, reason="deadline")


def _meant(draft: Draft, event: SilenceNoticed | ProgressMade | DeadlineElapsed) -> Turn | None:
    turn = draft.session.turn
    return turn if turn is not None and turn.id == event.turn else None
