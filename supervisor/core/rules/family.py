"""Those below a session: admitted, refused, heard of; and what changes around it."""

from __future__ import annotations

from typing import Final

import attrs

from supervisor.core.effects import CountAsYoungest
from supervisor.core.errors import SpawnRefused
from supervisor.core.events import (
    ChildAdmitted,
    ChildDeleted,
    ChildNews,
    ChildRefused,
    FamilyChanged,
    NewsTaken,
)
from supervisor.core.session import Phase, Session
from supervisor.core.step import Draft

from .door import refused, text_problem
from .flow import accept_input, expire_inputs, finish_stopping, start_next

_NO_PARENTS: Final = (Phase.STOPPING, Phase.STOPPED)


def admit(draft: Draft, event: ChildAdmitted) -> None:
    """A child begins, in the same commit."""
    if refused(draft, text_problem(draft.session, event.text)):
        return
    turn = draft.session.turn
    is_late = event.turn is not None and (
        turn is None or turn.id != event.turn or turn.step is not None
    )
    slept = draft.session.phase is Phase.SUSPENDED
    if is_late:
        hint = "it ended or was interrupted; return from the agent's function"
        draft.refuse(_refusal(f"turn {event.turn} is over", hint))
        return
    if slept and draft.situation.no_place:
        refuse_child(draft, event)
        return
    if slept:
        draft.note("session_resumed", woken=True)
    _note_started(draft, event, text=event.text, resumed=False)
    if slept and draft.situation.shortage is None:
        start_next(draft)
    draft.accept()


def _note_started(
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
    draft.do(CountAsYoungest(child.child))


def refuse_child(draft: Draft, _: ChildAdmitted) -> None:
    """No child begins below a session that is about to end, or has no place to wake up in."""
    hint = "resume the parent first, or spawn from another session"
    draft.refuse(_refusal(f"session {draft.session.id} is {draft.session.phase}", hint))


def _refusal(problem: str, hint: str) -> SpawnRefused:
    return SpawnRefused(problem, hint=hint, limit="parent")


def note_refusal(draft: Draft, event: ChildRefused) -> None:
    """A child was not admitted, which its parent's records should say."""
    if not draft.session.archived:  # read-only
        draft.note(
            "spawn_refused",
            agent=event.agent,
            limit=event.limit,
            used=event.used,
            allowed=event.allowed,
            detail=event.detail,
        )
    draft.accept()


def forget_child(draft: Draft, event: ChildDeleted) -> None:
    """Nothing is left of a child, but it was paid for."""
    draft.note(
        "session_changed",
        deleted={
            "child": event.child,
            "spent": attrs.asdict(event.spent),
            "spawns": event.spawns,
        },
    )
    draft.accept()


def take_news(draft: Draft, event: NewsTaken) -> None:
    """The agent has read about its children."""
    turn = draft.session.turn
    family = draft.session.family
    read = min(event.read, family.news)
    if turn is not None and turn.id == event.turn and read > family.news_read:
        draft.note("session_changed", news_read=read)


def look_around(draft: Draft, event: FamilyChanged) -> None:
    """Hear of children; go on with whatever could not go on before."""
    if draft.session.archived:
        return  # read-only
    wakes = [news for news in event.news if _note_news(draft, news)]
    # Nobody is woken by what an interrupt of the whole tree has ended.
    if wakes and draft.situation.shortage is None and not draft.situation.closed:
        _tell_agent(draft, event, wakes)
    session = draft.session
    if session.phase is Phase.STOPPING:
        if session.stopping is not None and session.stopping.agent_closed:
            finish_stopping(draft)
        return
    expire_inputs(draft)
    if draft.session.inputs:
        if session.phase is Phase.SUSPENDED and not draft.situation.no_place:
            draft.note("session_resumed", woken=True)
        start_next(draft)


def _note_news(draft: Draft, news: ChildNews) -> bool:
    """Write it down; gives whether the agent is to have a turn for it."""
    if news.what == "started":
        _note_started(draft, news, text=news.text, resumed=True)
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
    # That a child which had done its errand was stopped is nothing to wake anybody for.
    is_surprise = news.what == "done" or not news.was_done or news.failed
    live = draft.session.phase not in _NO_PARENTS
    return news.on_end == "wake" and is_surprise and live


def _tell_agent(draft: Draft, event: FamilyChanged, wakes: list[ChildNews]) -> None:
    """One input for all the news there is; what waits already is added to, not followed."""
    session = draft.session
    waiting = next(
        (one for one in session.inputs if one.source == "child" and one.status == "queued"), None
    )
    lines = [_line(news) for news in wakes]
    if waiting is not None:
        text = _fitted(session, [waiting.text, *lines])
        draft.note("input_changed", inputs={waiting.id: {"text": text}})
    else:
        text = _fitted(session, lines)
        accept_input(draft, event.input, text, when_busy="queue", source="child")


def _line(news: ChildNews) -> str:
    who = f"{news.agent} {news.child}" if news.name is None else f"{news.name} ({news.child})"
    how = news.outcome if news.reason is None else news.reason
    return f"{who} ended: {how}" + (f"\n{news.text}" if news.text else "")


def _fitted(session: Session, lines: list[str]) -> str:
    """As much of it as an input may have; the records have all of it."""
    text = "\n\n".join(lines)
    return text.encode()[: session.terms.max_text_bytes].decode(errors="ignore")
