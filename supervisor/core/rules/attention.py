"""The rule for records that a person has seen."""

from __future__ import annotations

from supervisor.core.events import RecordsSeen
from supervisor.core.state import SessionState
from supervisor.core.step import Draft


def mark_seen(draft: Draft, event: RecordsSeen) -> None:
    """Record that a person has seen the records up to a number, if that says something new.

    Clients report it whenever a person opens a session, so a second look adds no record. An
    archived session is read-only, and has nothing to look at.
    """
    if not draft.state.archived and _is_news(draft.state, event.seq):
        draft.note("seen", seq=event.seq)
    draft.accept()


def _is_news(session: SessionState, seq: int) -> bool:
    if seq <= session.seen_seq:
        return False
    ended_at = 0 if session.last_turn is None else session.last_turn[-1]
    return (
        session.turn is not None
        or session.seen_seq < ended_at <= seq
        or any(session.seen_seq < item.seq <= seq for item in session.attention)
    )
