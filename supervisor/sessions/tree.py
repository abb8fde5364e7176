"""The tree: who is awake, and how to reach a session that is not.

Rule 1: a session has one actor at most, and one start of one.
Rule 2: a start runs apart from whoever needs it, so that giving up leaves nothing half done.
"""

from __future__ import annotations

import contextlib
import functools
import logging
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

import trio

from actors import Actor, Ended, GaveUp, Ref, RestartPolicy
from supervisor.core.errors import (
    NotStorable,
    SessionNotActive,
    SessionNotFound,
    SupervisorError,
)
from supervisor.core.ids import SessionId
from supervisor.core.records import Record
from supervisor.core.session import Session
from supervisor.store.port import Stored

from .refusals import has_left, not_found
from .shell.actor import SessionActor
from .shell.seat import Condition, Seat, Start

if TYPE_CHECKING:
    from .house.house import House

logger = logging.getLogger("supervisor")

# A session's actor is ours: that it crashes is a defect, or the store's trouble.
RESTART: Final = RestartPolicy(
    "transient", max_restarts=5, within_seconds=10.0, backoff_seconds=0.05
)
SHUTDOWN_SECONDS: Final = 5.0
# How many incarnations of a session may end under a request before its sender hears of it.
TRIES: Final = 5
_RETRY_SECONDS: Final = 0.01
# Between tries to bring a session back: the first, and the longest.
_FIRST_PAUSE_SECONDS: Final = 1.0
_LONGEST_PAUSE_SECONDS: Final = 30.0
_PAGE: Final = 500
# Nearly everybody who waits is no agent: one object for all of them.
_NOBODY_WAITS: Final = contextlib.nullcontext()


class Undertaker(Actor):
    """Is told when a session's actor has ended for good, and has the tree forget it."""

    def __init__(self, tree: Tree) -> None:
        self._tree = tree

    async def receive(self, message: Any) -> None:  # noqa: ANN401 - an actor's mailbox
        """Only ends are told here."""
        if isinstance(message, Ended) and isinstance(message.ref, Ref):
            self._tree.bury(message.ref, message.reason)
        await trio.lowlevel.checkpoint()


class Tree:
    """The index of all sessions that are in memory."""

    def __init__(self, house: House) -> None:
        self._house = house
        self._seats: dict[SessionId, Seat] = {}
        # Sessions that are about to be replaced or deleted: nothing brings them back.
        self.ending: set[SessionId] = set()
        # Sessions that somebody tries to bring back.
        self._reviving: set[SessionId] = set()
        self._undertaker: Ref | None = None
        # Once set, nothing new begins; and once nobody is left, nothing is answered either.
        self.is_leaving = False
        self.is_closed = False

    async def open(self) -> None:
        """Start to look after ends."""
        self._undertaker = await self._house.system.start(
            lambda: Undertaker(self), name="undertaker", restart="permanent"
        )

    # Finding ------------------------------------------------------------------------------

    def refuse_if_leaving(self) -> None:
        """Raise if nothing new may begin: we are about to leave, or it could not be written."""
        if self.is_leaving:
            raise SessionNotActive(
                "the supervisor is leaving", hint="open it again; what was accepted is kept"
            )
        self._house.health.refuse_if_degraded()

    def refuse_if_closed(self) -> None:
        """Raise if the supervisor has left."""
        if self.is_closed:
            raise has_left()

    def problem_of_ending(self, session_id: SessionId) -> SessionNotActive | None:
        """Why nothing may bring the session back, if it is about to be replaced or deleted."""
        if session_id not in self.ending:
            return None
        return SessionNotActive(
            f"session {session_id} is being replaced or deleted",
            hint="send it to the one that comes after it",
        )

    def refuse_if_ending(self, session_id: SessionId) -> None:
        """Raise if nothing may bring the session back."""
        problem = self.problem_of_ending(session_id)
        if problem is not None:
            raise problem

    def seat(self, session_id: SessionId) -> Seat:
        """The session's seat, made if there is none; somebody must need it, or it is forgotten."""
        seat = self._seats.get(session_id)
        if seat is None:
            seat = self._seats[session_id] = Seat(self._house, session_id)
        return seat

    def find_seat(self, session_id: SessionId) -> Seat | None:
        """The session's seat, if it has one."""
        return self._seats.get(session_id)

    def is_awake(self, session_id: SessionId) -> bool:
        """Whether the session has an actor, or will in a moment."""
        seat = self._seats.get(session_id)
        return seat is not None and (seat.ref is not None or seat.start is not None)

    def let_go(self, seat: Seat) -> None:
        """Forget the seat if nobody needs it.

        Not that of one who is to be brought back: it knows what everybody has been told.
        """
        if seat.is_needed or seat.id in self._reviving:
            return
        if self._seats.get(seat.id) is seat:
            del self._seats[seat.id]

    def live(self) -> list[Seat]:
        """The seats of all sessions that have an actor."""
        return [seat for seat in self._seats.values() if seat.ref is not None]

    def awake(self) -> list[Seat]:
        """The seats of all sessions that have an actor, or will in a moment."""
        return [seat for seat in self._seats.values() if seat.ref is not None or seat.start]

    async def wait_for_rest(self, seat: Seat) -> None:
        """Wait for the next step of the session's way to its rest: up, at rest, gone."""
        if seat.start is not None:
            await seat.start.done.wait()
        elif seat.session is not None and not seat.session.is_at_rest:
            await self.wait_until(seat.id, lambda session: session.is_at_rest)
        elif seat.ref is not None:
            await self.wait_over(seat.ref)

    async def reach(self, session_id: SessionId, *, not_this: Ref | None = None) -> Ref:
        """The session's actor, started from its row if it has none; raises `SessionNotFound`.

        `not_this` is one that was reached before and turned out to be over.
        """
        while True:
            self.refuse_if_closed()
            seat = self.seat(session_id)
            if seat.ref is not None and not seat.is_resting and seat.ref is not not_this:
                return seat.ref
            if seat.start is None:
                seat.start = Start()
                self._house.workshop.start_soon(self._start, seat, seat.start)
            start = seat.start
            seat.callers += 1
            try:
                await start.done.wait()
            finally:
                seat.callers -= 1  # no await from here to what it has to ask
            if start.error is not None:
                raise start.error

    async def _start(self, seat: Seat, start: Start) -> None:
        """Runs apart from whoever asked, so that giving up leaves nothing half done."""
        try:
            if seat.ref is not None:
                await self.wait_over(seat.ref)
            ref = await self._house.system.start(
                functools.partial(SessionActor, seat),
                name=seat.id,
                restart=RESTART,
                shutdown_seconds=SHUTDOWN_SECONDS,
            )
            seat.ref = ref
            assert self._undertaker is not None
            self._undertaker.watch(ref)
        except Exception as error:  # noqa: BLE001 - handed to all who wait for it
            start.error = error
        finally:
            if seat.ref is None and start.error is None:
                start.error = has_left()  # the house is being closed around us
            seat.start = None
            start.done.set()
            self.let_go(seat)

    def bury(self, ref: Ref, reason: object) -> None:
        """A session's actor has ended for good."""
        seat = self._seats.get(SessionId(ref.name))
        if seat is None or seat.ref is not ref:
            return
        error: SupervisorError | None = seat.fenced
        if isinstance(reason, GaveUp):
            logger.error("session %s was given up", seat.id, exc_info=reason)
            error = SessionNotActive(
                f"the actor of session {seat.id} failed too often",
                hint="what was accepted is kept; look at the log, then try again",
            )
            self.revive(seat.id)
        elif seat.fenced is not None and self._house.desk.bell.is_called(seat.id):
            self.revive(seat.id)  # it is wanted here: there is something that it has to hear
        seat.vacate(error)
        self.let_go(seat)

    def revive(self, session_id: SessionId) -> None:
        """Bring a session back that could not start, or was given up, when things are better."""
        if session_id not in self._reviving:
            self._reviving.add(session_id)
            self._house.workshop.start_soon(self._revive, session_id)

    async def _revive(self, session_id: SessionId) -> None:
        pause = _FIRST_PAUSE_SECONDS
        try:
            while not self.is_leaving:
                await trio.sleep(pause)
                pause = min(2.0 * pause, _LONGEST_PAUSE_SECONDS)
                try:
                    row = (await self.stored(session_id)).row
                    if not row.is_at_rest or self._house.desk.bell.is_called(session_id):
                        await self.reach(session_id)
                except SessionNotFound:
                    return
                except Exception as error:  # noqa: BLE001 - the store's trouble is not over
                    logger.warning("session %s is still not back: %s", session_id, error)
                else:
                    return
        finally:
            self._reviving.discard(session_id)
            seat = self._seats.get(session_id)
            if seat is not None:
                self.let_go(seat)

    def close(self) -> None:
        """Nothing is answered any more, and nobody is left waiting."""
        self.is_leaving = self.is_closed = True
        for seat in list(self._seats.values()):
            seat.close(has_left())
        for reader in self._house.readers:
            reader.end()

    # Reading and waiting --------------------------------------------------------------------

    async def all_records(self, session_id: SessionId) -> list[Record]:
        """All records of a session, read in pages, so that nobody has to wait for a long one."""
        found: list[Record] = []
        while True:
            last = found[-1].seq if found else 0
            page = await self._house.store.records(session_id, after=last, limit=_PAGE)
            found += page
            if len(page) < _PAGE:
                return found

    async def wait_until(self, session_id: SessionId, condition: Condition) -> Session:
        """Wait until the session is so, whether it is awake, sleeps or wakes meanwhile."""
        self.refuse_if_closed()
        seat = self.seat(session_id)
        wait = seat.add_wait(condition)
        try:
            if seat.session is None and not wait.happened.is_set():
                row = (await self.stored(session_id)).row
                if seat.session is None and not wait.happened.is_set() and condition(row):
                    return row
            await wait.happened.wait()
        finally:
            seat.remove_wait(wait)
            self.let_go(seat)
        if wait.error is not None:
            raise wait.error
        assert wait.session is not None
        return wait.session

    def awaiting(
        self, inside: SessionId | None, other: SessionId
    ) -> contextlib.AbstractContextManager[None]:
        """Have it known that the agent of the one session waits for the other, if it does."""
        if inside is None or inside == other:
            return _NOBODY_WAITS
        return self._awaiting(inside, other)

    @contextlib.contextmanager
    def _awaiting(self, inside: SessionId, other: SessionId) -> Iterator[None]:
        seat = self.seat(inside)
        if seat.awaits is None:
            seat.awaits = []
        seat.awaits.append(other)
        # Kept though the other may rest: when it was last seen to get on matters until the end.
        awaited = self.seat(other)
        awaited.awaited += 1
        try:
            yield
        finally:
            seat.awaits.remove(other)
            seat.progressed()  # whatever came of it, its own silence begins only now
            awaited.awaited -= 1
            self.let_go(awaited)
            self.let_go(seat)

    async def stored(self, session_id: SessionId) -> Stored:
        """The session as the store has it; raises `SessionNotFound`."""
        self.refuse_if_closed()
        stored = await self._house.store.read(session_id)
        if stored is None:
            raise not_found(session_id)
        return stored

    async def exists(self, session_id: SessionId) -> bool:
        """Whether there is such a session, also one that cannot be read."""
        self.refuse_if_closed()
        try:
            return await self._house.store.read(session_id) is not None
        except NotStorable:
            return True

    async def row(self, session_id: SessionId) -> Session:
        """The session's state as of its last commit; raises `SessionNotFound`."""
        self.refuse_if_closed()
        seat = self._seats.get(session_id)
        if seat is not None and seat.session is not None:
            await trio.lowlevel.checkpoint()
            if seat.session is not None:
                return seat.session
        return (await self.stored(session_id)).row

    async def wait_over(self, ref: Ref) -> None:
        """Wait until that actor has ended, and forget it, sooner than the undertaker would."""
        reason: object
        try:
            reason = await ref.wait_stopped()
        except GaveUp as gave_up:
            reason = gave_up
        self.bury(ref, reason)
