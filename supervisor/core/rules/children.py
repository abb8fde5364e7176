"""Rules for children: records of admission and refusal, notifications, changes in the tree.

`core/tree/admission.py` checks the limits before.
"""

from __future__ import annotations

from typing import Final

import attrs

from supervisor.core.agent_events import ChildNews, NewsRead, TreeChanged
from supervisor.core.effects import MarkYoungest
from supervisor.core.errors import SpawnRefused
from supervisor.core.events import ChildAdmitted, ChildDeleted, ChildRefused
from supervisor.core.state import Phase, SessionState
from supervisor.core.step import Draft

from .input_queue import accept_input, expire_inputs
from .refusals import refuse_any, text_problem
from .stopping import finish_stopping
from .turn_flow import start_next_turn

_ENDED_OR_ENDING: Final = (Phase.STOPPING, Phase.STOPPED)


def admit_child(draft: Draft, event: ChildAdmitted) -> None:
    """Record the start of a child; the same commit creates the child."""
    if refuse_any(draft, text_problem(draft.state, event.text)):
        return
    turn = draft.state.turn
    is_late = event.turn is not None and (
        turn is None or turn.id != event.turn or turn.step is not None
    )
    was_suspended = draft.state.phase is Phase.SUSPENDED
    if is_late:
        hint = "it ended or was interrupted; return from the agent's function"
        draft.refuse(_refusal(f"turn {event.turn} is over", hint))
        return
    if was_suspended and draft.tree_view.child_slots_full:
        refuse_child(draft, event)
        return
    if was_suspended:
        draft.note("session_resumed", woken=True)
    _record_started(draft, event, text=event.text, resumed=False)
    if was_suspended and draft.tree_view.exhausted_budget is None:
        start_next_turn(draft)
    draft.accept()


def _record_started(
    draft: Draft, child: ChildAdmitted | ChildNews, *, text: str, resumed: bool
) -> None:
    draft.note(
        "child_started",
        child=child.child,
        agent=child.agent,
        name=child.name,
        role=child.role,
        text=text,
        resumed=resumed,
    )
    draft.do(MarkYoungest(child.child))


def refuse_child(draft: Draft, _: ChildAdmitted) -> None:
    """Refuse a child: the session is stopping, or suspended without a slot to resume."""
    hint = "resume the parent first, or spawn from another session"
    draft.refuse(_refusal(f"session {draft.state.id} is {draft.state.phase}", hint))


def _refusal(problem: str, hint: str) -> SpawnRefused:
    return SpawnRefused(problem, hint=hint, limit="parent")


def record_refusal(draft: Draft, event: ChildRefused) -> None:
    """Record in the parent that a child was not admitted."""
    if not draft.state.archived:  # read-only
        draft.note(
            "spawn_refused",
            agent=event.agent,
            limit=event.limit,
            used=event.used,
            allowed=event.allowed,
            detail=event.detail,
        )
    draft.accept()


def record_deleted_child(draft: Draft, event: ChildDeleted) -> None:
    """Add the spending of a deleted child to the spending of its parent."""
    draft.note(
        "session_changed",
        deleted={
            "child": event.child,
            "spent": attrs.asdict(event.spent),
            "spawns": event.spawns,
        },
    )
    draft.accept()


def mark_news_read(draft: Draft, event: NewsRead) -> None:
    """Record how many notifications about its children the agent has read."""
    turn = draft.state.turn
    family = draft.state.family
    read = min(event.read, family.news)
    if turn is not None and turn.id == event.turn and read > family.news_read:
        draft.note("session_changed", news_read=read)


def recheck(draft: Draft, event: TreeChanged) -> None:
    """Re-evaluate the session: record news of children, start a turn or stop that had to wait."""
    if draft.state.archived:
        return  # read-only
    wakes = [news for news in event.news if _record_news(draft, news)]
    # An end caused by a tree interrupt does not wake any session.
    if wakes and draft.tree_view.exhausted_budget is None and not draft.tree_view.tree_interrupted:
        _queue_news(draft, event, wakes)
    session = draft.state
    if session.phase is Phase.STOPPING:
        if session.stopping is not None and session.stopping.agent_closed:
            finish_stopping(draft)
        return
    expire_inputs(draft)
    if draft.state.inputs:
        if session.phase is Phase.SUSPENDED and not draft.tree_view.child_slots_full:
            draft.note("session_resumed", woken=True)
        start_next_turn(draft)


def _record_news(draft: Draft, news: ChildNews) -> bool:
    """Record the news; return True if a notification asks for a turn of the agent."""
    if news.kind == "started":
        _record_started(draft, news, text=news.text, resumed=True)
        return False
    draft.note(
        "child_ended",
        child=news.child,
        agent=news.agent,
        name=news.name,
        role=news.role,
        outcome=news.outcome,
        text=news.text,
        reason=news.reason,
        detail=news.detail,
    )
    # The stop of a child whose spawn input had ended does not wake the parent.
    is_surprise = news.kind == "done" or not news.was_reported_done or news.failed
    live = draft.state.phase not in _ENDED_OR_ENDING
    return news.on_end == "wake" and is_surprise and live


def _queue_news(draft: Draft, event: TreeChanged, wakes: list[ChildNews]) -> None:
    """Queue one input for all news; extend a queued input for news instead of adding another."""
    session = draft.state
    waiting = next(
        (one for one in session.inputs if one.source == "child" and one.status == "queued"), None
    )
    lines = [_news_line(news) for news in wakes]
    if waiting is not None:
        text = _truncated(session, [waiting.text, *lines])
        draft.note("input_changed", inputs={waiting.id: {"text": text}})
    else:
        text = _truncated(session, lines)
        accept_input(draft, event.input, text, when_busy="queue", source="child")


def _news_line(news: ChildNews) -> str:
    who = f"{news.agent} {news.child}" if news.name is None else f"{news.name} ({news.child})"
    how = news.outcome if news.reason is None else news.reason
    return f"{who} ended: {how}" + (f"\n{news.text}" if news.text else "")


def _truncated(session: SessionState, lines: list[str]) -> str:
    """Return the lines, cut to the size of an input; the records have the full text."""
    text = "\n\n".join(lines)
    return text.encode()[: session.terms.max_text_bytes].decode(errors="ignore")
