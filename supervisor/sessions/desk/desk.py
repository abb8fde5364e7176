"""The tree's desk: who may begin and who has to wait, whose time is over, and who is told of whom.

Rule 1: a check and the place it gives are one synchronous step, before any commit is awaited.
Rule 2: whoever waits for something is called by the one who frees it.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import trio

from supervisor.core import events as ev
from supervisor.core.errors import SessionNotFound, SpawnRefused, SupervisorError
from supervisor.core.ids import SessionId
from supervisor.core.info import Info, info_of
from supervisor.core.session import Cause, Phase, Session
from supervisor.core.tree.admission import (
    Caps,
    Wish,
    admit,
    has_no_place,
    problem_of_return,
    refuse_if_too_many,
)
from supervisor.core.tree.ledger import Ledger
from supervisor.core.tree.member import Member, has_budget, wants_a_turn
from supervisor.core.tree.situation import ALONE, Situation
from supervisor.sessions.refusals import problem_of_agent
from supervisor.sessions.shell.watch.liveness import process_trouble
from supervisor.sessions.time.timers import Timer
from supervisor.store.port import Resting

from .bell import Bell, Heard
from .purse import Purse

if TYPE_CHECKING:
    from supervisor.sessions.house.house import House

logger = logging.getLogger("supervisor")

# Between tries to stop one: the first pause, and the longest.
_RETRY_SECONDS: Final = 0.05
_LAST_RETRY_SECONDS: Final = 2.0
# What may close the open turn, and so has to know for how long it ran.
_ENDS_A_TURN: Final = (
    ev.TurnEnded,
    ev.AgentExited,
    ev.AgentStartFailed,
    ev.LadderElapsed,
    ev.Claimed,
)
_BRINGS_BACK: Final = (ev.InputSubmitted, ev.ResumeRequested)
_NOBODY: Final[Mapping[SessionId, Session]] = {}


class Desk:
    """Holds the ledger, and sees to it that everyone acts on it."""

    def __init__(self, house: House) -> None:
        self._house = house
        settings = house.settings
        self._caps = Caps(
            settings.max_sessions, settings.max_running_turns, settings.max_agent_processes
        )
        self.ledger = Ledger(
            frozenset(name for name, kind in house.agents.items() if kind.runs_process)
        )
        # Sessions that have an input and wait for a turn to begin with it, the first first.
        self._line: dict[SessionId, None] = {}
        # Suspended children that have an input and wait for a place, by their parents.
        self._sleepers: dict[SessionId, dict[SessionId, None]] = {}
        self._expiries: dict[SessionId, Timer] = {}
        self.bell = Bell(house)
        self.purse = Purse(house, self.ledger)

    # Admission ----------------------------------------------------------------------------

    def admit_root(
        self, session_id: SessionId, agent: str, *, instead_of: SessionId | None = None
    ) -> None:
        """A place for a session that stands below nobody; raises `SpawnRefused`.

        One that begins when another ends, in the same commit, needs no place of its own.
        """
        if instead_of not in self.ledger.live:
            refuse_if_too_many(self.ledger, self._caps, agent)
        self.ledger.take_place(session_id, agent)

    def admit_child(self, parent: Session, child_id: SessionId, wish: Wish) -> Member:
        """A place for a child, and what it is granted; raises `SpawnRefused`."""
        page = self.ledger.find(parent.id)
        if page is None and parent.id not in self.ledger.live:
            # It was read a while ago, and is gone since.
            raise SpawnRefused(
                f"session {parent.id} is over", hint="spawn from another session", limit="parent"
            )
        page = page or self.ledger.enter(parent)
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
        if member is not None:
            self._call_family(member)
        self._call_next()

    def delete(self, session_id: SessionId) -> None:
        """Nothing is left of the session."""
        self.ledger.delete(session_id)
        self._line.pop(session_id, None)
        self.bell.forget(session_id)
        self.purse.forget(session_id)
        for parent_id in [one for one, line in self._sleepers.items() if session_id in line]:
            self._forget_sleeper(parent_id, session_id)
        self._drop_expiry(session_id)
        self._house.taps.deleted(session_id)
        self._call_next()

    def _call_family(self, gone: Member) -> None:
        """One is gone without having ended: whoever waits for its end, or its place, may go on."""
        parent = gone.parent
        if parent is not None:
            if self.ledger.find(parent.id) is parent:  # and not deleted
                self.bell.call(parent.id)
            self._call_last_in_line(parent)
            self._call_sleepers(parent)

    def restore(
        self,
        rows: Sequence[Session],
        heard: Mapping[SessionId, Heard],
        *,
        ends: Mapping[SessionId, Session] = _NOBODY,
        resting: Iterable[Resting] = (),
        is_still: bool,
    ) -> None:
        """Know all sessions again, after the supervisor was gone; parents come before children.

        `resting` are those that only have to be counted. Parents that have not heard of a child
        are called, also of `ends` that it has come back from since. `is_still`: nobody is, and
        nothing is set in motion.
        """
        # Whoever somebody is below, also if those in between were deleted.
        above = {one for row in rows for one in row.lineage.above or ()}
        now = trio.current_time()
        self.ledger.settle_resting(one.id for one in resting if not one.is_stopped)
        for row in rows:
            if row.lineage.above:
                self.ledger.remember(row.lineage.above)
            if row.lineage.above or row.id in above or has_budget(row.limits):
                self.ledger.enter(row)
            self.ledger.settle(row, now)
        if is_still:
            return
        for row in rows:
            member = self.ledger.find(row.id)
            if member is None and row.is_at_rest:
                continue  # nobody else is concerned by it, and it waits for nothing
            if member is not None:
                told = heard.get(row.id, Heard())
                member.told_over, member.told_done = told.over, told.done
                parent_page = member.parent
                is_there = parent_page and self.ledger.find(parent_page.id) is parent_page
                if parent_page is not None and is_there and row.returns > told.returns:
                    if row.id in ends:
                        self.bell.tell_parent(parent_page, member, ends[row.id])
                    self.bell.tell_of_return(parent_page, member, row)
            self.settle(row)

    @contextmanager
    def closed_to_spawns(self, member: Member) -> Iterator[None]:
        """Nobody in the tree below it, nor it itself, has more children meanwhile."""
        member.closed += 1
        try:
            yield
        finally:
            member.closed -= 1

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
        ends_a_turn = isinstance(event, _ENDS_A_TURN)
        leaving = self._house.tree.is_leaving
        if member is None and not (no_turn or comes_back or leaving or ends_a_turn):
            return ALONE
        now = trio.current_time()
        ran = ledger.ran_seconds(session_id, now) if ends_a_turn else None
        refusal: SupervisorError | None = None
        if comes_back:
            at = self._house.clock.now()
            refusal = (
                self._house.tree.problem_of_ending(session_id)
                or problem_of_return(ledger, self._caps, session, at=at, now=now)
                or problem_of_agent(session.agent_name, self._house.agents)
            )
        if member is None:
            return Situation(
                no_turn=no_turn,
                no_place=leaving,
                leaving=leaving,
                refusal=refusal,
                ran_seconds=ran,
            )
        return Situation(
            dependents=self._dependents(member, session),
            has_company=member.company > 0,
            no_turn=no_turn,
            no_place=leaving or has_no_place(member),
            leaving=leaving,
            closed=any(one.closed for one in member.path()),
            has_younger=member.has_younger(),
            parent_lives=self._is_order_of_a_living_parent(session, event),
            shortage=next(member.shortages(now), None),
            refusal=refusal,
            ran_seconds=ran,
        )

    def _dependents(self, member: Member, session: Session) -> int:
        """Those who have to end before it does."""
        if not self._house.health.is_degraded or session.phase is not Phase.STOPPING:
            return member.bound
        # They were told to. Who was only admitted does nothing until that is written, and then
        # finds that its parent is over: nobody has to wait for it.
        return sum(one.standing != "admitted" for one in member.dependents())

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
                if self.ledger.find(member.parent.id) is member.parent:  # and not deleted
                    self.bell.tell_parent(member.parent, member, session)
                self._note_sleeper(member.parent, session)
                self._call_sleepers(member.parent)
            self.purse.watch(member)
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
        elif process_trouble(seat) is not None and not (session.turn and session.turn.requests):
            waits_for = "process"
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
            self.bell.call(session_id)

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
                self.bell.call(session_id)

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

    def has_lost_its_parent(self, session: Session) -> bool:
        """Whether it was to end with its parent, and that one has, or is about to."""
        member = self.ledger.find(session.id)
        if member is None or member.parent is None or member.lifetime == "detached":
            return False
        # Not before that one has its children end: they do so in their order.
        return member.is_in_line or member.parent.standing == "over"

    def _is_order_of_a_living_parent(self, session: Session, event: ev.Event) -> bool:
        """Whether it was ordered to end with a parent that has come back since."""
        ordered = isinstance(event, ev.StopRequested) and event.cause == "parent_stopped"
        return ordered and not self.has_lost_its_parent(session)

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
        pause = _RETRY_SECONDS
        while not tree.is_closed:
            try:
                await self._house.lines.order_stop(session_id, cause, detail=detail)
            except SessionNotFound:
                member = self.ledger.find(session_id)
                if member is None or member.standing != "admitted":
                    return  # else it may be about to be written
            except Exception as error:  # noqa: BLE001 - the store's trouble, or an actor's
                if pause == _RETRY_SECONDS:  # said once, however long it takes
                    logger.warning("session %s could not be stopped yet: %s", session_id, error)
            else:
                return
            await trio.sleep(pause)
            pause = min(2.0 * pause, _LAST_RETRY_SECONDS)

    def _call_last_in_line(self, parent: Member) -> None:
        """Whoever was younger has ended, so the next one may."""
        last = parent.last_in_line()
        if last is not None and last.standing != "admitted":  # that one is not even written yet
            self.bell.call(last.id)

    def _expire_in_time(self, member: Member) -> None:
        if member.expires_at is None:
            return
        if member.standing == "over":
            self._drop_expiry(member.id)
        elif member.id not in self._expiries:
            timer = self._expiries[member.id] = Timer(member.id, self._expire)
            after_seconds = max(0.0, member.expires_at - self._house.clock.now())
            self._house.timers.set(timer, after_seconds)

    def _expire(self, session_id: str) -> None:
        self._expiries.pop(SessionId(session_id), None)
        self.stop_soon(SessionId(session_id), "ttl_expired")

    def _drop_expiry(self, session_id: SessionId) -> None:
        timer = self._expiries.pop(session_id, None)
        if timer is not None:
            self._house.timers.drop(timer)
