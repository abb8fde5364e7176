"""The tool `wait`: wait until sessions below have news.

Rule 1: the wait is over when any or all of the sessions have news; and when none of them can have
        any before it gets work.
Rule 2: while it waits, the sessions count as awaited by the caller, for stalls and `why`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Final, Literal

import attrs
import trio

from supervisor.core.errors import InputRefused, NotRunning, SessionNotFound
from supervisor.core.ids import SessionId
from supervisor.core.info import Info
from supervisor.core.state import STOPPED, SessionState
from supervisor.handles.subtree import SessionSnapshot
from supervisor.mcp_server.session_news import (
    Cursor,
    Known,
    NewsKind,
    has_ended_turn,
    has_news,
    is_at_rest,
    known_now,
    parse_cursor,
    print_cursor,
)
from supervisor.mcp_server.session_tool import (
    MAX_TEXT_CHARS,
    Answered,
    SessionTool,
    ToolContext,
    clip,
    described,
    refuse_outside,
)

_LEAST_SECONDS: Final = 1.0
_DEFAULT_SECONDS: Final = 45.0
_MAX_NAMED: Final = 100
_MAX_CONCURRENT: Final = 8
# Of the texts of all sessions together, as long as each has some room.
_MAX_ALL_CHARS: Final = 32_000
_LEAST_CHARS: Final = 400
_SHOWN_CHARS: Final = 200


@attrs.frozen(kw_only=True)
class WaitArguments:
    """The arguments of `wait`."""

    sessions: tuple[str, ...] = described(
        "ids, names or roles of sessions below yours; default: all your children",
        (),
        maxItems=_MAX_NAMED,
    )
    until: Literal["any", "all"] = described("whether one with news is enough", "any")
    for_: NewsKind = described(
        "the news: a turn ended, something needs attention, the session stopped, or any of these",
        "turn",
    )
    seconds: float = described("how long at most", _DEFAULT_SECONDS, minimum=_LEAST_SECONDS)
    after: str | None = described(
        "the cursor of the answer before: then only later news counts, and none is missed", None
    )


@attrs.frozen(kw_only=True)
class NeedOfSession:
    """Something that a person, or you, should look at."""

    kind: str
    detail: str | None = None


@attrs.frozen(kw_only=True)
class WaitedSession:
    """A session of the wait, as it is now."""

    session: str
    name: str | None = None
    role: str | None = None
    agent: str
    badge: str = described("its state in one word")
    has_news: bool
    outcome: str | None = described(
        "of its last turn: completed, interrupted, failed, timed_out or lost", None
    )
    text: str | None = described("the result of its last turn, if that is news", None)
    is_truncated: bool | None = described("the text is longer: read has all of it", None)
    error: str | None = described("why its last turn failed", None)
    waits_for: str | None = described("what it waits for: model, tool, person, child ...", None)
    stop_reason: str | None = described("why it stopped", None)
    attention: tuple[NeedOfSession, ...] = described("what needs attention", ())


@attrs.frozen(kw_only=True)
class WaitAnswer:
    """The answer of `wait`."""

    reason: Literal["news", "timeout"] = described("why the wait is over")
    cursor: str = described("give it as after to the next wait")
    sessions: tuple[WaitedSession, ...] = described(
        "each session: its badge, whether it has news, the outcome and the text of its last turn"
    )
    running: tuple[str, ...] = described("the sessions that are still at work")


async def _run(context: ToolContext, given: WaitArguments) -> Answered:
    seconds = _seconds(given, context.settings.max_tool_wait_seconds)
    before = {} if given.after is None else parse_cursor(given.after)
    wait = _NewsWait(context, given, None if given.after is None else before)
    await wait.begin()
    with trio.move_on_after(seconds):
        await wait.wait()
    found = await wait.look()
    now = {one: known_now(found[one].state, found[one].info.last_seq) for one in found}
    with_news = [one for one in found if wait.has_news(found[one].state)]
    room = max(_LEAST_CHARS, min(MAX_TEXT_CHARS, _MAX_ALL_CHARS // max(1, len(with_news))))
    answer = WaitAnswer(
        reason="news" if wait.is_over(found) else "timeout",
        cursor=print_cursor({**before, **now}),
        sessions=tuple([await wait.describe(one, room) for one in found.values()]),
        running=tuple(one for one in found if not is_at_rest(found[one].state, "turn")),
    )
    return answer, _text(answer)


def _seconds(given: WaitArguments, most: float) -> float:
    """Return how long to wait; raise ConfigError if that is more than the setting allows."""
    if given.seconds == _DEFAULT_SECONDS:
        return min(_DEFAULT_SECONDS, most)
    refuse_outside("seconds", given.seconds, _LEAST_SECONDS, most)
    return given.seconds


class _NewsWait:
    """The sessions of one wait, and the news that end it."""

    def __init__(self, context: ToolContext, given: WaitArguments, cursor: Cursor | None) -> None:
        self._context = context
        self._subtree = context.subtree
        self._given = given
        self._cursor = cursor
        self._targets: list[SessionId] = []

    async def begin(self) -> None:
        """Find the sessions; refuse a wait that could never end."""
        if self._given.sessions:
            names = dict.fromkeys(self._given.sessions)
            self._targets = list(dict.fromkeys([await self._context.find(one) for one in names]))
            if len(self._targets) > 1:
                self._context.target = None
        else:
            self._targets = await self._own_children()
        for one in self._targets:
            if one == self._subtree.id:
                raise InputRefused(
                    "a wait for your own session would never return",
                    hint="name sessions below yours",
                )
            if self._subtree.waits_for_this(one):
                raise InputRefused(
                    f"session {one} waits for yours: both would wait for ever",
                    hint="end your turn first, or interrupt that session",
                )

    async def _own_children(self) -> list[SessionId]:
        """Return the children that have not stopped, or whose stop may be news."""
        own = (await self._subtree.snapshot(self._subtree.id)).state
        found = [
            row.id
            for row in await self._subtree.descendants()
            if row.lineage.parent == own.id and self._may_have_news(row, own)
        ]
        if not found:
            raise NotRunning("you have no child that is live", hint="spawn one first")
        return found[-_MAX_NAMED:]

    def _may_have_news(self, row: SessionState, own: SessionState) -> bool:
        if row.phase is not STOPPED:
            return True
        if self._cursor is not None:
            return has_news(row, "stopped", self._known(row.id))
        # Without a cursor: if it stopped in the running turn.
        return own.turn is not None and row.updated_at >= own.turn.started_at

    def _known(self, session_id: SessionId) -> Known | None:
        """Return what the caller knows of the session; None without a cursor."""
        return None if self._cursor is None else self._cursor.get(session_id, Known(0))

    def has_news(self, state: SessionState) -> bool:
        """Return True if the session has news that the caller waits for."""
        return has_news(state, self._given.for_, self._known(state.id))

    def _key(self, state: SessionState) -> tuple[bool, bool]:
        return self.has_news(state), is_at_rest(state, self._given.for_)

    def is_over(self, found: Mapping[SessionId, SessionSnapshot]) -> bool:
        """Return True if the wait has what it waits for, or nothing can come (rule 1)."""
        keys = [self._key(one.state) for one in found.values()]
        is_settled = all(news or rests for news, rests in keys)
        return is_settled or (self._given.until == "any" and any(news for news, _ in keys))

    async def look(self) -> dict[SessionId, SessionSnapshot]:
        """Return the sessions as they are now, without those that were deleted meanwhile."""
        found: dict[SessionId, SessionSnapshot] = {}
        for one in self._targets:
            with suppress(SessionNotFound):
                found[one] = await self._subtree.snapshot(one)
        return found

    async def wait(self) -> None:
        """Return when the wait is over; the sessions are awaited meanwhile (rule 2)."""
        found = await self.look()
        # `why` follows the last one: it should be at work.
        awaited = sorted(found, key=lambda one: not is_at_rest(found[one].state, "turn"))
        with self._subtree.awaiting(awaited):
            while not self.is_over(found):
                keys = {one: self._key(found[one].state) for one in found}
                await self._subtree.wait_for_change(keys, self._key)
                found = await self.look()

    async def describe(self, one: SessionSnapshot, room: int) -> WaitedSession:
        """Return the session as the answer shows it; its text has at most `room` characters."""
        info, state = one.info, one.state
        last = state.last_turn
        result = None
        if last is not None and has_ended_turn(state, self._known(info.id)):
            result = await self._subtree.find_record(info.id, last[-1])
        text = None if result is None else str(result.body["text"])
        return WaitedSession(
            session=info.id,
            name=info.name,
            role=info.role,
            agent=info.agent,
            badge=info.badge,
            has_news=self.has_news(state),
            outcome=None if last is None else last[0],
            text=None if text is None else clip(text, room),
            is_truncated=True if text is not None and len(text) > room else None,
            error=None if result is None else result.body["error"],
            waits_for=info.waiting_for,
            stop_reason=info.stop_reason,
            attention=_needs(info),
        )


def _needs(info: Info) -> tuple[NeedOfSession, ...]:
    return tuple(NeedOfSession(kind=item.kind, detail=item.detail) for item in info.attention)


def _text(answer: WaitAnswer) -> str:
    lines = [
        f"{answer.reason}; still at work: {', '.join(answer.running) or 'none'}",
        *(_line(one) for one in answer.sessions),
    ]
    return "\n".join(lines)


def _line(one: WaitedSession) -> str:
    said: Sequence[str | None] = (
        one.badge,
        one.outcome if one.has_news else None,
        None if one.text is None else clip(one.text, _SHOWN_CHARS),
    )
    name = "" if one.name is None else f" ({one.name})"
    return f"{one.session}{name}: {', '.join(part for part in said if part)}"


TOOL: Final = SessionTool(
    name="wait",
    title="Wait for sessions",
    description=(
        "Wait until sessions below yours have news, such as the end of a turn, and return their"
        " results. Call it after spawn and send. After reason timeout, call it again with the"
        " cursor; reason news with an empty list of running sessions means that nothing more will"
        " come."
    ),
    arguments=WaitArguments,
    answer=WaitAnswer,
    run=_run,
    is_read_only=True,
    max_concurrent=_MAX_CONCURRENT,
    maxima=lambda settings: {"seconds": settings.max_tool_wait_seconds},
)
