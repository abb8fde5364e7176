"""The bell: has sessions look around, and keeps what they are told until they have written it.

Rule 1: a call says only that there is something to look at. What there is stays here until the
        session has written it down, so a session that dies meanwhile finds it when it is back.
Rule 2: whoever was called once and has not looked needs no second call.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, Literal

import attrs
import trio

from actors import ActorStopped, MailboxFull
from supervisor.core import events as ev
from supervisor.core.errors import SessionNotFound
from supervisor.core.ids import InputId, SessionId
from supervisor.core.info import badge_of
from supervisor.core.session import Phase, Session
from supervisor.core.tree.member import Member

if TYPE_CHECKING:
    from supervisor.sessions.house.house import House

_RETRY_SECONDS: Final = 0.05


class LookAround:
    """Told to a session's actor: something is different around it."""


LOOK: Final = LookAround()


@attrs.frozen
class Heard:
    """What a parent's records say of a child: that it is over, and that its errand is done."""

    over: bool = False
    done: bool = False
    # How often it was told that the child is back.
    returns: int = 0


class Bell:
    """One for the house."""

    def __init__(self, house: House) -> None:
        self._house = house
        # What parents have not written down yet; and for those who are at it, how much news they
        # had written down before.
        self._news: dict[SessionId, list[ev.ChildNews]] = {}
        self._offered: dict[SessionId, int] = {}
        # Sessions that were called and have not looked since, or look just now.
        self._called: dict[SessionId, Literal["called", "looks"]] = {}

    def forget(self, session_id: SessionId) -> None:
        """Nothing is left of the session."""
        self._news.pop(session_id, None)
        self._offered.pop(session_id, None)
        self._called.pop(session_id, None)

    def tell_parent(self, parent: Member, member: Member, session: Session) -> None:
        """A child is so: if its parent has not heard of that, it will."""
        is_over, is_done = session.phase is Phase.STOPPED, session.family.outcome is not None
        if member.told_over and not is_over:
            self._add_news(parent, member, "started", session)
        if is_over and not member.told_over:
            self._add_news(parent, member, "over", session, was_done=member.told_done)
        elif is_done and not member.told_done:
            if session.phase is Phase.STOPPING:
                return  # its end says both in a moment, and why
            self._add_news(parent, member, "done", session)
        member.told_over, member.told_done = is_over, is_done

    def _add_news(
        self,
        parent: Member,
        member: Member,
        what: ev.NewsKind,
        session: Session,
        *,
        was_done: bool = False,
    ) -> None:
        over = what == "over"
        news = ev.ChildNews(
            what=what,
            child=member.id,
            agent=member.agent,
            name=member.name,
            role=member.role,
            on_end=member.on_end,
            outcome=session.family.outcome,
            text=session.family.text,
            reason=session.stop_reason if over else None,
            detail=session.stop_detail if over else None,
            failed=over and badge_of(session) == "failed",
            was_done=was_done,
        )
        self._news.setdefault(parent.id, []).append(news)
        self.call(parent.id)

    @contextmanager
    def news_for(self, session: Session) -> Iterator[ev.FamilyChanged]:
        """What there is to look at; it stays for the next one who looks if this one fails."""
        session_id = session.id
        self._called[session_id] = "looks"
        waiting = self._news.get(session_id, [])
        # If the one before this failed in mid-commit, its row may have some of it all the same.
        offered_at = self._offered.pop(session_id, session.family.news)
        del waiting[: session.family.news - offered_at]
        news = tuple(waiting)
        if news:
            self._offered[session_id] = session.family.news
        input_id = InputId(self._house.ids.new("in"))
        yield ev.FamilyChanged(input=input_id, news=news, **self._house.stamp())
        self._offered.pop(session_id, None)
        rest = self._news.pop(session_id, [])[len(news) :]
        if rest:
            self._news[session_id] = rest
        if self._called.get(session_id) == "looks":  # else it was called meanwhile, and is told
            del self._called[session_id]

    def tell_of_return(self, parent: Member, member: Member, session: Session) -> None:
        """A child was back, and may have ended again since: its parent has not heard of that."""
        self._add_news(parent, member, "started", session)
        member.told_over = False

    def mark(self, session_id: SessionId) -> None:
        """Have it look around when it is up; whoever marks it sees to that."""
        self._called[session_id] = "called"

    def is_called(self, session_id: SessionId) -> bool:
        """Whether there is something that it has not looked at."""
        return session_id in self._called

    def call(self, session_id: SessionId) -> None:
        """Have the session look around, also if it has to be woken for that."""
        was = self._called.get(session_id)
        self._called[session_id] = "called"
        if self._house.tree.is_closed:
            return
        seat = self._house.tree.find_seat(session_id)
        if seat is None or seat.ref is None or seat.is_resting:
            self._house.workshop.start_soon(self._wake, session_id)
            return
        if was == "called":
            return  # it has been told, and will find this too
        try:
            seat.ref.tell(LOOK, urgent=True)
        except MailboxFull:
            self._house.workshop.start_soon(self._call_later, session_id)
        except ActorStopped:
            self._house.workshop.start_soon(self._wake, session_id)

    async def _wake(self, session_id: SessionId) -> None:
        """A new incarnation looks around by itself."""
        if session_id in self._called:
            try:
                await self._house.tree.reach(session_id)
            except SessionNotFound:
                self._called.pop(session_id, None)  # deleted
            except Exception:  # noqa: BLE001 - the store's trouble: it looks around when it is back
                self._house.tree.revive(session_id)
            else:
                self._call_again(session_id)

    async def _call_later(self, session_id: SessionId) -> None:
        await trio.sleep(_RETRY_SECONDS)
        self._call_again(session_id)

    def _call_again(self, session_id: SessionId) -> None:
        """It was awake after all, or had no room: tell it now, if it has not looked."""
        if self._called.get(session_id) == "called":
            self._called[session_id] = "looks"
            self.call(session_id)
