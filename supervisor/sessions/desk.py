"""The tree's desk: who may begin and who has to wait, whose time is over, and who is told of whom.

Rule 1: a check and the place it gives are one synchronous step, before any commit is awaited.
Rule 2: whoever waits for something is called by the one who frees it; nobody looks again.
Rule 3: a call says only that there is something to look at. What there is stays here until the
        session has written it down, so a session that dies meanwhile finds it when it is back.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, Literal

import trio

from actors import ActorStopped, MailboxFull
from supervisor.core import events as ev
from supervisor.core.errors import SessionNotFound, SupervisorError
from supervisor.core.ids import InputId, SessionId, TurnId
from supervisor.core.info import Info, badge_of, info_of
from supervisor.core.session import Cause, Phase, Session, Usage
from supervisor.core.tree.admission import (
    Wish,
    admit,
    has_no_place,
    problem_of_return,
    refuse_if_too_many,
)
from supervisor.core.tree.ledger import Caps, Ledger, Member, has_budget, wants_a_turn
from supervisor.core.tree.situation import ALONE, Situation

from .shell.timers import Timer

if TYPE_CHECKING:
    from .house import House

logger = logging.getLogger("supervisor")

_RETRY_SECONDS: Final = 0.05
# What may close the open turn, and so has to know for how long it ran.
_ENDS_A_TURN: Final = (
    ev.TurnEnded,
    ev.AgentExited,
    ev.AgentStartFailed,
    ev.LadderElapsed,
    ev.Claimed,
)
_BRINGS_BACK: Final = (ev.InputSubmitted, ev.ResumeRequested)


class LookAround:
    """Told to a session's actor: something is different around it."""


LOOK: Final = LookAround()


class Desk:
    """Holds the ledger, and sees to it that everyone acts on it."""

    def __init__(self, house: House) -> None:
        self._house = house
        self._caps = Caps(house.settings.max_sessions, house.settings.max_running_turns)
        self.ledger = Ledger()
        # Sessions that have an input and wait for a turn to begin with it, the first first.
        self._line: dict[SessionId, None] = {}
        # Suspended children that have an input and wait for a place, by their parents.
        self._sleepers: dict[SessionId, dict[SessionId, None]] = {}
        # What parents have not written down yet; and for those who are at it, how much news they
        # had written down before.
        self._news: dict[SessionId, list[ev.ChildNews]] = {}
        self._offered: dict[SessionId, int] = {}
        # Sessions that were called and have not looked since, or look just now.
        self._called: dict[SessionId, Literal["called", "looks"]] = {}
        self._expiries: dict[SessionId, Timer] = {}
        self._walls: dict[SessionId, Timer] = {}

    # Admission ----------------------------------------------------------------------------

    def admit_root(self, session_id: SessionId, *, instead_of: SessionId | None = None) -> None:
        """A place for a session that stands below nobody; raises `SpawnRefused`.

        One that begins when another ends, in the same commit, needs no place of its own.
        """
        if instead_of not in self.ledger.live:
            refuse_if_too_many(self.ledger, self._caps)
        self.ledger.live.add(session_id)

    def admit_child(self, parent: Session, child_id: SessionId, wish: Wish) -> Member:
        """A place for a child, and what it is granted; raises `SpawnRefused`."""
        page = self.ledger.find(parent.id) or self.ledger.enter(parent)
        return admit(
            self.ledger,
            self._caps,
            page,
            child_id,
            wish,
            at=self._house.clock.now(),
            now=trio.current_time(),
        )

    def withdraw(self, session_id: SessionId) -> None:
        """Whoever was admitted under this id never began."""
        member = self.ledger.find(session_id)
        self.ledger.withdraw(session_id)
        if member is not None and member.parent is not None:
            self.call(member.parent.id)  # it may wait for this one before it ends
            self._call_last_in_line(member.parent)
            self._call_sleepers(member.parent)
        self._call_next()

    def delete(self, session_id: SessionId) -> None:
        """Nothing is left of the session."""
        self.ledger.delete(session_id)
        self._line.pop(session_id, None)
        self._news.pop(session_id, None)
        self._offered.pop(session_id, None)
        self._called.pop(session_id, None)
        for parent_id in [one for one, line in self._sleepers.items() if session_id in line]:
            self._forget_sleeper(parent_id, session_id)
        self._drop(self._expiries, session_id)
        self._drop(self._walls, session_id)
        self._call_next()

    @contextmanager
    def closed_to_spawns(self, member: Member) -> Iterator[None]:
        """Nobody in the tree below it, nor it itself, has more children meanwhile."""
        member.closed += 1
        try:
            yield
        finally:
            member.closed -= 1

    def runs(self, session_id: SessionId) -> bool:
        """Whether it has a turn under way."""
        run = self.ledger.turns.get(session_id)
        return run is not None and run.turn is not None

    def is_below(self, session_id: str, above: SessionId) -> bool:
        """Whether the one descends from the other."""
        member = self.ledger.find(SessionId(session_id)) if isinstance(session_id, str) else None
        parent = member.parent if member is not None else None
        return parent is not None and any(one.id == above for one in parent.path())

    # What sessions are told ----------------------------------------------------------------

    def situation(self, session: Session, event: ev.Event) -> Situation:
        """What the tree is like for the session, at this instant."""
        ledger, session_id = self.ledger, session.id
        member = ledger.find(session_id)
        no_turn = self._must_wait(session_id)
        comes_back = session.phase is Phase.STOPPED and isinstance(event, _BRINGS_BACK)
        now = trio.current_time()
        ran = ledger.ran_seconds(session_id, now) if isinstance(event, _ENDS_A_TURN) else None
        leaving = self._house.tree.is_leaving
        if member is None and not (no_turn or comes_back or leaving) and ran is None:
            return ALONE
        refusal: SupervisorError | None = None
        if comes_back:
            at = self._house.clock.now()
            refusal = problem_of_return(ledger, self._caps, session, at=at, now=now)
        if member is None:
            return Situation(
                no_turn=no_turn,
                no_place=leaving,
                leaving=leaving,
                refusal=refusal,
                ran_seconds=ran,
            )
        return Situation(
            dependents=member.bound,
            has_company=member.company > 0,
            no_turn=no_turn,
            no_place=leaving or has_no_place(member),
            leaving=leaving,
            closed=any(one.closed for one in member.path()),
            has_younger=member.has_younger(),
            shortage=next(member.shortages(now), None),
            refusal=refusal,
            ran_seconds=ran,
        )

    def _must_wait(self, session_id: SessionId) -> bool:
        turns = self.ledger.turns
        run = turns.get(session_id)
        if run is not None and run.turn is None:
            return False  # a place was kept for it
        # Who has just ended a turn goes behind those who wait for one.
        return bool(self._line) or len(turns) - (run is not None) >= self._caps.max_running_turns

    def foresee(self, session: Session) -> None:
        """The session will be so when it is written: take what room that needs."""
        self._enter_if_needed(session)
        self.ledger.foresee(session, trio.current_time())
        if session.phase is Phase.STOPPED:
            member = self.ledger.find(session.id)
            if member is not None and member.parent is not None:
                self._call_last_in_line(member.parent)

    def settle(self, session: Session) -> None:
        """The session is so, and that is written: give back what it no longer needs."""
        self._enter_if_needed(session)
        member = self.ledger.find(session.id)
        limits = member.limits if member is not None else None
        self.ledger.settle(session, trio.current_time())
        self._stand_in_line(session)
        if member is not None:
            if member.limits != limits:
                for one in member.below():
                    self._call_sleepers(one)
            self._call_sleepers(member)
            self._expire_in_time(member)
            if member.parent is not None:
                self._tell_parent(member.parent, member, session)
                self._note_sleeper(member.parent, session)
                self._call_sleepers(member.parent)
            self._watch_budgets(member)
        if self._line:
            self._call_next()

    def _enter_if_needed(self, session: Session) -> None:
        # One that has a parent is in the ledger since it was admitted.
        if session.lineage.parent is None and has_budget(session.limits):
            self.ledger.enter(session)

    def info(self, session: Session, *, last_seq: int) -> Info:
        """The picture of a session, with what its row does not know."""
        member = self.ledger.find(session.id)
        seat = self._house.tree.find_seat(session.id)
        waits_for: str | None = None
        if session.id in self._line:
            waits_for = "a free turn"
        elif self.waits_for_a_place(session.id):
            waits_for = "a place among its parent's children"
        elif seat is not None and seat.awaits and session.turn and not session.turn.requests:
            waits_for = "child"
        if member is None:
            return info_of(session, last_seq=last_seq, waits_for=waits_for)
        return info_of(
            session,
            last_seq=last_seq,
            limits=member.shown_limits,
            children=member.children_up(),
            spent=member.spent_by(trio.current_time()),
            waits_for=waits_for,
        )

    # Turns ---------------------------------------------------------------------------------

    def _stand_in_line(self, session: Session) -> None:
        waits = session.phase is Phase.IDLE and wants_a_turn(session)
        if waits and session.id not in self.ledger.turns:
            self._line.setdefault(session.id)
        elif self._line:
            self._line.pop(session.id, None)

    def _call_next(self) -> None:
        if self._house.tree.is_leaving:
            return
        while self._line and len(self.ledger.turns) < self._caps.max_running_turns:
            session_id = next(iter(self._line))
            del self._line[session_id]
            self.ledger.promise(session_id)
            self.call(session_id)

    # Places --------------------------------------------------------------------------------

    def _note_sleeper(self, parent: Member, session: Session) -> None:
        if session.phase is Phase.SUSPENDED and session.inputs:
            self._sleepers.setdefault(parent.id, {}).setdefault(session.id)
        elif parent.id in self._sleepers:
            self._forget_sleeper(parent.id, session.id)

    def _forget_sleeper(self, parent_id: SessionId, session_id: SessionId) -> None:
        sleepers = self._sleepers[parent_id]
        sleepers.pop(session_id, None)
        if not sleepers:
            del self._sleepers[parent_id]

    def _call_sleepers(self, parent: Member) -> None:
        sleepers = self._sleepers.get(parent.id)
        if sleepers and not self._house.tree.is_leaving:
            for session_id in list(sleepers)[: parent.free_places]:
                self.call(session_id)

    def waits_for_a_place(self, session_id: SessionId) -> bool:
        """Whether it would wake up if its parent had fewer children up."""
        member = self.ledger.find(session_id)
        parent = member.parent if member is not None else None
        return parent is not None and session_id in self._sleepers.get(parent.id, ())

    # Ends ----------------------------------------------------------------------------------

    def stop_dependents(self, session_id: SessionId) -> None:
        """Have every child that lives with it stop; they end the youngest first."""
        member = self.ledger.find(session_id)
        if member is None:
            return
        for child in reversed(member.stand_in_line()):
            self.stop_soon(child.id, "parent_stopped")

    def last_dependent(self, session_id: SessionId) -> SessionId | None:
        """The child that a session which is stopping waits for first."""
        member = self.ledger.find(session_id)
        dependents = member.dependents() if member is not None else []
        return dependents[-1].id if dependents else None

    def stop_soon(self, session_id: SessionId, cause: Cause, detail: str | None = None) -> None:
        """Have it stop for that cause; nobody waits for it."""
        self._house.workshop.start_soon(self.order_stop, session_id, cause, detail)

    async def order_stop(
        self, session_id: SessionId, cause: Cause, detail: str | None = None
    ) -> None:
        """Until it is on its way: whoever has ordered it may wait for its end."""
        tree = self._house.tree
        while not tree.is_closed:
            try:
                await tree.order_stop(session_id, cause, detail=detail)
            except SessionNotFound:
                return
            except Exception as error:  # noqa: BLE001 - the store's trouble, or an actor's
                logger.warning("session %s could not be stopped yet: %s", session_id, error)
                await trio.sleep(_RETRY_SECONDS)
            else:
                return

    def _call_last_in_line(self, parent: Member) -> None:
        """Whoever was younger has ended, so the next one may."""
        last = parent.last_in_line()
        if last is not None and last.standing != "admitted":  # that one is not even written yet
            self.call(last.id)

    def _expire_in_time(self, member: Member) -> None:
        if member.expires_at is None:
            return
        if member.standing == "over":
            self._drop(self._expiries, member.id)
        elif member.id not in self._expiries:
            timer = self._expiries[member.id] = Timer(member.id, self._expire)
            after_seconds = max(0.0, member.expires_at - self._house.clock.now())
            self._house.timers.set(timer, after_seconds)

    def _expire(self, session_id: str) -> None:
        self._expiries.pop(SessionId(session_id), None)
        self.stop_soon(SessionId(session_id), "ttl_expired")

    def _drop(self, timers: dict[SessionId, Timer], session_id: SessionId) -> None:
        timer = timers.pop(session_id, None)
        if timer is not None:
            self._house.timers.drop(timer)

    # News ----------------------------------------------------------------------------------

    def _tell_parent(self, parent: Member, member: Member, session: Session) -> None:
        if self.ledger.find(parent.id) is not parent:
            return  # deleted
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

    # Budgets -------------------------------------------------------------------------------

    def report(self, session_id: SessionId, turn: TurnId, usage: Usage) -> None:
        """An agent has used something: it counts at once, and ends what runs if it was the last."""
        member = self.ledger.find(session_id)
        if member is not None:
            self.ledger.report(session_id, turn, usage)
            self._watch_budgets(member)

    def is_cut_short(self, session_id: SessionId) -> str | None:
        """What is spent that the session's running turn draws on, in words."""
        member = self.ledger.find(session_id)
        if member is None:
            return None
        now = trio.current_time()
        return next((str(cut) for one in member.path() if (cut := one.cuts_short(now))), None)

    def _watch_budgets(self, member: Member) -> None:
        now = trio.current_time()
        for one in member.path():
            if one.limits is None or not has_budget(one.limits):
                continue
            shortage = one.cuts_short(now)
            if shortage is None or not one.running:
                one.is_cut_short = False
            elif not one.is_cut_short:
                one.is_cut_short = True
                self._cut_short(one, shortage.cause, str(shortage))
            self._watch_wall(one, now)

    def _watch_wall(self, member: Member, now: float) -> None:
        limits = member.limits
        if limits is None or limits.wall_seconds is None:
            return
        if not member.running:
            self._drop(self._walls, member.id)
            return
        timer = self._walls.get(member.id)
        if timer is None:
            timer = self._walls[member.id] = Timer(member.id, self._wall_reached)
        left = limits.wall_seconds - member.used("wall_seconds", now)
        self._house.timers.set(timer, math.inf if left <= 0 else left / member.running)

    def _wall_reached(self, session_id: str) -> None:
        member = self.ledger.find(SessionId(session_id))
        if member is not None:
            self._watch_budgets(member)

    def _cut_short(self, spender: Member, cause: Cause, detail: str) -> None:
        """Stop every session whose running turn draws on what is spent; each is told once."""
        for member in (spender, *spender.below()):
            run = self.ledger.turns.get(member.id)
            if run is not None and run.turn is not None and not run.is_cut_short:
                run.is_cut_short = True
                self.stop_soon(member.id, cause, detail)
