"""The tree: finds sessions, makes them, wakes them, and knows who bears which key.

Rule 1: an index changes in one synchronous step with the check that it rests on.
Rule 2: what has several steps is carried through, even if whoever asked for it gives up.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import math
from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING, Any, Final, TypeVar, TypeVarTuple

import attrs
import outcome
import trio

from actors import Actor, ActorStopped, Ended, GaveUp, MailboxFull, Ref, RestartPolicy
from supervisor.core import events as ev
from supervisor.core.creation import Message, Plan, create
from supervisor.core.errors import (
    AgentStartFailed,
    AgentUnknown,
    KeyTaken,
    NotStorable,
    QueueFull,
    SessionNotActive,
    SessionNotFound,
    SupervisorError,
)
from supervisor.core.ids import SessionId, SessionKey
from supervisor.core.records import numbered
from supervisor.core.session import Cause, Phase, Session
from supervisor.core.step import InterruptReport, Receipt, Refused, Reply, UnderWay
from supervisor.core.table import decide
from supervisor.store.port import Kept, Stored, Write
from supervisor.store.writer import Commit, Delete

from .actor import Idempotency, Request, SessionActor
from .repeats import key_conflict
from .seat import Condition, Seat, Start

if TYPE_CHECKING:
    from .house import House

T = TypeVar("T")
Args = TypeVarTuple("Args")
logger = logging.getLogger("supervisor")

# A session's actor is ours: that it crashes is a defect, or the store's trouble.
RESTART: Final = RestartPolicy(
    "transient", max_restarts=5, within_seconds=10.0, backoff_seconds=0.05
)
SHUTDOWN_SECONDS: Final = 5.0
# How many incarnations of a session may end under a request before its sender hears of it.
_TRIES: Final = 5
# Where answers to `create` are kept; no session has an id like that.
CREATING: Final = "-"
# What brings a stopped session back.
_REVIVING: Final = (ev.InputSubmitted, ev.ResumeRequested)


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
    """The index of all sessions that are in memory, and of all keys."""

    def __init__(self, house: House) -> None:
        self._house = house
        self._seats: dict[SessionId, Seat] = {}
        # Invariant: a key is here from the reservation of a session that bears it until that
        # session is archived or deleted, or its making has failed; so it has one bearer at most.
        self._keys: dict[SessionKey, SessionId] = {}
        # Keys, and idempotency keys, whose bearer is being made, and when that is done.
        self._changing: dict[str, trio.Event] = {}
        # Sessions that are about to be replaced or deleted: nothing brings them back.
        self._ending: set[SessionId] = set()
        self._undertaker: Ref | None = None
        # Once set, nothing new begins; and once nobody is left, nothing is answered either.
        self.is_leaving = False
        self.is_closed = False
        # How many things are being carried through.
        self.works = 0

    async def open(self) -> None:
        """Start to look after ends."""
        self._undertaker = await self._house.system.start(
            lambda: Undertaker(self), name="undertaker", restart="permanent"
        )

    # Finding ------------------------------------------------------------------------------

    def refuse_if_leaving(self) -> None:
        """Raise if nothing new may begin."""
        if self.is_leaving:
            raise SessionNotActive(
                "the supervisor is leaving", hint="open it again; what was accepted is kept"
            )

    def refuse_if_closed(self) -> None:
        """Raise if the supervisor has left."""
        if self.is_closed:
            raise _has_left()

    def seat(self, session_id: SessionId) -> Seat:
        """The session's seat, made if there is none; somebody must need it, or it is forgotten."""
        seat = self._seats.get(session_id)
        if seat is None:
            seat = self._seats[session_id] = Seat(self._house, session_id)
        return seat

    def find_seat(self, session_id: SessionId) -> Seat | None:
        """The session's seat, if it has one."""
        return self._seats.get(session_id)

    def let_go(self, seat: Seat) -> None:
        """Forget the seat if nobody needs it."""
        if not seat.is_needed and self._seats.get(seat.id) is seat:
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
        elif seat.session is not None and not _is_at_rest(seat.session):
            await self.wait_until(seat.id, _is_at_rest)
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
            await start.done.wait()
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
                start.error = _has_left()  # the house is being closed around us
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
        seat.vacate(error)
        self.let_go(seat)

    def close(self, error: SupervisorError) -> None:
        """Nothing is answered any more, and nobody is left waiting."""
        self.is_leaving = self.is_closed = True
        for seat in list(self._seats.values()):
            seat.close(error)
        for reader in self._house.readers:
            reader.end()

    # Making -------------------------------------------------------------------------------

    async def create(
        self,
        plan: Plan,
        said: Iterable[Message] = (),
        *,
        idempotency: Idempotency | None = None,
    ) -> SessionId:
        """Make a session and bring it up; answers when its agent is up, or raises why not."""
        self.refuse_if_leaving()
        self._refuse_unknown_agent(plan.agent)
        if idempotency is None and plan.key is None:
            return await self.carry_through(self._create, plan, tuple(said), None)
        if idempotency is None:
            name = str(plan.key)
            await self._wait_for_change(name)
            done = self._changing[name] = trio.Event()
            return await self.carry_through(
                self._change, name, done, self._create, plan, tuple(said), None
            )
        name = f"create {idempotency.key}"
        await self._wait_for_change(name)
        done = self._changing[name] = trio.Event()
        return await self.carry_through(
            self._change, name, done, self._create_once, plan, idempotency
        )

    async def _create_once(self, plan: Plan, idempotency: Idempotency) -> SessionId:
        kept = await self._house.store.kept(CREATING, idempotency.key)
        if kept is not None:
            made = SessionId(kept.answer["session_id"])
            if await self._house.store.read(made) is not None:
                if kept.fingerprint != idempotency.fingerprint:
                    raise key_conflict(idempotency.key)
                return made
        return await self._create(plan, (), idempotency)

    async def _create(
        self,
        plan: Plan,
        said: tuple[Message, ...],
        idempotency: Idempotency | None = None,
    ) -> SessionId:
        session_id = SessionId(self._house.ids.new("s"))
        write = self.creation(session_id, plan, said)
        if idempotency is not None:
            answer = {"session_id": session_id}
            kept = Kept(CREATING, idempotency.key, idempotency.fingerprint, answer)
            write = attrs.evolve(write, kept=kept)
        if plan.key is not None:
            self._reserve(plan.key, session_id)
        try:
            await self._commit(write)
        except BaseException:
            self._free(plan.key, session_id)
            raise
        await self._bring_up(session_id)
        return session_id

    async def _bring_up(self, session_id: SessionId) -> None:
        await self._start_for_certain(session_id)
        session = await self.wait_until(
            session_id, lambda session: session.phase is not Phase.STARTING
        )
        if session.stop_reason == "start_failed":
            raise AgentStartFailed(
                f"the agent of session {session_id} did not start: {session.stop_detail}",
                hint="mend what is missing, then resume the session",
            )

    async def _start_for_certain(self, session_id: SessionId) -> None:
        """`reach`, and again if the start was cut short by the store's trouble."""
        problem: Exception | None = None
        for _ in range(_TRIES):
            try:
                await self.reach(session_id)
            except (SessionNotFound, SessionNotActive):
                raise
            except Exception as error:  # noqa: BLE001 - it ended while it was starting
                problem = error
            else:
                return
        raise _did_not_answer(session_id, problem)

    def creation(self, session_id: SessionId, plan: Plan, said: Iterable[Message] = ()) -> Write:
        """The write that makes the session."""
        session, facts = create(session_id, plan, at=self._house.clock.now(), said=said)
        return Write(session_id, 0, numbered(session_id, facts, after=0), session)

    async def get_or_create(self, key: SessionKey, plan: Plan) -> SessionId:
        """The bearer of the key, in any phase; made if there is none, once for all who ask."""
        name = str(key)
        await self._wait_for_change(name)
        bearer = self._keys.get(key)
        if bearer is not None:
            await trio.lowlevel.checkpoint()
            return bearer
        self.refuse_if_leaving()
        self._refuse_unknown_agent(plan.agent)
        done = self._changing[name] = trio.Event()
        return await self.carry_through(self._change, name, done, self._create, plan, (), None)

    def bearer(self, key: SessionKey) -> SessionId | None:
        """Who bears the key."""
        return self._keys.get(key)

    async def replace(self, key: SessionKey, make_plan: Callable[[str | None], Plan]) -> SessionId:
        """Archive the bearer of the key and begin another, in one commit.

        `make_plan` gets the name of the old one's agent, or None if there was none.
        """
        self.refuse_if_leaving()
        name = str(key)
        await self._wait_for_change(name)
        done = self._changing[name] = trio.Event()
        return await self.carry_through(self._change, name, done, self._replace, key, make_plan)

    async def _replace(self, key: SessionKey, make_plan: Callable[[str | None], Plan]) -> SessionId:
        old = self._keys.get(key)
        if old is None:
            plan = make_plan(None)
            self._refuse_unknown_agent(plan.agent)
            return await self._create(plan, ())
        stored = await self._house.store.read(old)
        plan = make_plan(stored.row.agent_name if stored is not None else None)
        self._refuse_unknown_agent(plan.agent)
        session_id = SessionId(self._house.ids.new("s"))
        self._ending.add(old)
        try:
            await self._stop_and_archive(
                old, also=self.creation(session_id, attrs.evolve(plan, key=key))
            )
        finally:
            self._ending.discard(old)
        self._keys[key] = session_id
        await self._bring_up(session_id)
        return session_id

    async def _stop_and_archive(self, old: SessionId, *, also: Write) -> None:
        """Until it is done: whoever was already on the way may wake it in between, but once."""
        for _ in range(_TRIES):
            await self.stop(old, "replaced")
            if await self._house.store.read(also.session_id) is not None:
                return  # done by an incarnation that could not say so
            try:
                await self.ask(old, ev.ArchiveRequested(**self._house.stamp()), also=also)
            except (SessionNotActive, NotStorable):
                continue
            return
        raise _did_not_answer(old, None)

    async def resume(self, session_id: SessionId) -> None:
        """Bring a stopped session back; answers when its agent is up, or raises why not."""
        self.refuse_if_leaving()
        key = (await self.stored(session_id)).row.key
        if key is not None and self._keys.get(key, session_id) != session_id:
            raise self._taken(key)
        await self.ask(session_id, ev.ResumeRequested(**self._house.stamp()))
        await self._bring_up(session_id)

    async def _wait_for_change(self, name: str) -> None:
        """Wait until nobody else is about to give that name a meaning."""
        while (changing := self._changing.get(name)) is not None:
            await changing.wait()

    async def _change(
        self, name: str, done: trio.Event, change: Callable[[*Args], Awaitable[T]], *args: *Args
    ) -> T:
        try:
            return await change(*args)
        finally:
            del self._changing[name]
            done.set()

    def _reserve(self, key: SessionKey, session_id: SessionId) -> None:
        if self._keys.setdefault(key, session_id) != session_id:
            raise self._taken(key)

    def _taken(self, key: SessionKey) -> KeyTaken:
        return KeyTaken(
            f"session {self._keys[key]} bears the key {key}",
            hint="use get_or_create() to get that one, or new() to begin another",
        )

    def _free(self, key: SessionKey | None, session_id: SessionId) -> None:
        if key is not None and self._keys.get(key) == session_id:
            del self._keys[key]

    def _refuse_unknown_agent(self, name: str) -> None:
        if name not in self._house.agents:
            known = ", ".join(sorted(self._house.agents))
            raise AgentUnknown(f"no agent is called {name!r}", hint=f"there are: {known}")

    # Archiving and deleting -----------------------------------------------------------------

    async def archive(self, session_id: SessionId) -> None:
        """Read-only from now on, and its key is free."""
        await self.carry_through(self._archive, session_id)

    async def _archive(self, session_id: SessionId) -> None:
        await self.ask(session_id, ev.ArchiveRequested(**self._house.stamp()))
        key = (await self.stored(session_id)).row.key
        self._free(key, session_id)

    async def unarchive(self, session_id: SessionId) -> None:
        """Writable again, if its key is still free."""
        await self.carry_through(self._unarchive, session_id)

    async def _unarchive(self, session_id: SessionId) -> None:
        row = (await self.stored(session_id)).row
        if row.key is not None and row.archived:
            await self._wait_for_change(str(row.key))
            self._reserve(row.key, session_id)
        await self.ask(session_id, ev.UnarchiveRequested(**self._house.stamp()))

    async def delete(self, session_id: SessionId) -> None:
        """Stop it, and leave nothing of it."""
        await self.carry_through(self._delete, session_id)

    async def _delete(self, session_id: SessionId) -> None:
        key = (await self.stored(session_id)).row.key
        self._ending.add(session_id)
        try:
            await self.stop(session_id, "deleted")
            await self._house.writer.ask(Delete(session_id), timeout_seconds=math.inf)
        finally:
            self._ending.discard(session_id)
        self._free(key, session_id)
        seat = self._seats.get(session_id)
        if seat is not None:
            if seat.ref is not None:
                await self.wait_over(seat.ref)
            seat.close(_not_found(session_id))
            self.let_go(seat)

    # Asking -------------------------------------------------------------------------------

    async def stop(
        self,
        session_id: SessionId,
        cause: Cause,
        *,
        detail: str | None = None,
        after_turn: bool = False,
    ) -> None:
        """Stop it for that cause, and wait until it has stopped."""
        stop = ev.StopRequested(
            cause=cause, detail=detail, after_turn=after_turn, **self._house.stamp()
        )
        await self.ask(session_id, stop, urgent=True)
        await self.wait_until(session_id, _has_stopped)

    async def ask(
        self,
        session_id: SessionId,
        event: ev.Event,
        *,
        idempotency: Idempotency | None = None,
        also: Write | None = None,
        urgent: bool = False,
    ) -> Receipt | InterruptReport | UnderWay | None:
        """Ask the session, and if its actor ends meanwhile, the next one; raises what it refuses.

        Cancelled after it was sent, it may still be done. A second incarnation is told that
        it may have been done before, and finds out.
        """
        dead: Ref | None = None
        problem: Exception | None = None
        if idempotency is None and also is None and self._sleeps(session_id):
            # What changes nothing need not wake it: the row decides that as well as the actor.
            step = decide((await self.stored(session_id)).row, event)
            if self._sleeps(session_id) and not step.facts and not step.effects:
                return _value(step.reply)
        for _ in range(_TRIES):
            if problem is None and session_id in self._ending and isinstance(event, _REVIVING):
                raise SessionNotActive(
                    f"session {session_id} is being replaced or deleted",
                    hint="send it to the one that comes after it",
                )
            try:
                ref = await self.reach(session_id, not_this=dead)
            except (SessionNotFound, SessionNotActive) as refusal:
                if problem is None:
                    raise
                problem = refusal
                break
            except Exception as error:  # noqa: BLE001 - it ended while it was starting
                problem = error
                continue
            request = Request(event, idempotency, again=problem is not None, also=also)
            try:
                # Without a time-out of its own: commits have none, and every death is an answer.
                reply = await ref.ask(request, timeout_seconds=math.inf, urgent=urgent)
            except MailboxFull as full:
                raise QueueFull(
                    f"session {session_id} has {full.capacity} messages waiting",
                    hint="it is busy with those; try again in a moment",
                ) from None
            except Exception as error:  # noqa: BLE001 - it ended before it answered
                problem = error
                # After a crash the same actor comes back; after an end, another one is started.
                dead = ref if ref.statistics().state in ("stopping", "stopped") else None
                continue
            return _value(reply)
        raise _did_not_answer(session_id, problem)

    def _sleeps(self, session_id: SessionId) -> bool:
        seat = self._seats.get(session_id)
        return seat is None or (seat.ref is None and seat.start is None)

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

    async def stored(self, session_id: SessionId) -> Stored:
        """The session as the store has it; raises `SessionNotFound`."""
        self.refuse_if_closed()
        stored = await self._house.store.read(session_id)
        if stored is None:
            raise _not_found(session_id)
        return stored

    async def _commit(self, write: Write) -> None:
        """Make it durable; raises why not, or that it is not known."""
        try:
            refusal = await self._house.writer.ask(Commit(write), timeout_seconds=math.inf)
        except Exception as error:
            # Not known: it may have been written before the writer failed.
            stored = await self._house.store.read(write.session_id)
            if stored is None:
                raise _did_not_answer(write.session_id, error) from error
            return
        if refusal is not None:
            raise refusal

    def tell_next(self, session_id: SessionId, event: ev.Event) -> None:
        """Tell whoever is the session's actor now; if it has none, nobody needs to know."""
        seat = self._seats.get(session_id)
        if seat is None or self.is_closed:
            return
        if seat.start is not None:
            self._house.workshop.start_soon(self._tell_when_up, seat.start, session_id, event)
        elif seat.ref is not None:
            with contextlib.suppress(ActorStopped, MailboxFull):
                seat.ref.tell(event, urgent=True)

    async def _tell_when_up(self, start: Start, session_id: SessionId, event: ev.Event) -> None:
        await start.done.wait()
        self.tell_next(session_id, event)

    async def wait_over(self, ref: Ref) -> None:
        """Wait until that actor has ended, and forget it, sooner than the undertaker would."""
        reason: object
        try:
            reason = await ref.wait_stopped()
        except GaveUp as gave_up:
            reason = gave_up
        self.bury(ref, reason)

    async def carry_through(self, work: Callable[[*Args], Awaitable[T]], *args: *Args) -> T:
        """Do the work in a task of its own and wait for it: giving up the wait does not undo it."""
        self.refuse_if_closed()
        self.works += 1
        done = trio.Event()
        result: list[outcome.Outcome[T]] = []

        async def do() -> None:
            try:
                result.append(outcome.Value(await work(*args)))
            except Exception as error:  # noqa: BLE001 - handed to whoever waits
                result.append(outcome.Error(error))
            finally:
                if not result:  # the house is being closed around it
                    result.append(outcome.Error(_has_left()))
                self.works -= 1
                done.set()

        self._house.workshop.start_soon(do)
        await done.wait()
        return result[0].unwrap()


def _has_stopped(session: Session) -> bool:
    """Whether a stop that was asked for is done; if somebody has resumed it since, it was."""
    return session.phase is Phase.STOPPED or session.stopping is None


def _is_at_rest(session: Session) -> bool:
    return session.phase in (Phase.SUSPENDED, Phase.STOPPED)


def _value(reply: Reply | None) -> Receipt | InterruptReport | UnderWay | None:
    assert reply is not None
    if isinstance(reply, Refused):
        raise reply.error
    return reply.value


def _did_not_answer(session_id: SessionId, problem: Exception | None) -> SessionNotActive:
    return SessionNotActive(
        f"session {session_id} did not answer: {problem}",
        hint="what was accepted is kept; look at the log, then try again",
    )


def _has_left() -> SessionNotActive:
    return SessionNotActive("the supervisor has left", hint="open it again")


def _not_found(session_id: SessionId) -> SessionNotFound:
    return SessionNotFound(f"there is no session {session_id}", hint="list the sessions")
