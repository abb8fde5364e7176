"""The register: who bears which key, and how sessions come to be and cease to be.

Rule 1: an index changes in one synchronous step with the check that it rests on.
Rule 2: what has several steps is carried through, even if whoever asked for it gives up.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar, TypeVarTuple

import attrs
import trio

from actors import ActorStopped, MailboxFull
from supervisor.core import events as ev
from supervisor.core.creation import Errand, Message, Plan, create
from supervisor.core.errors import (
    AgentStartFailed,
    KeyTaken,
    NotStorable,
    RepairRefused,
    SessionNotActive,
    SessionNotFound,
    StoreDegraded,
    SupervisorError,
)
from supervisor.core.ids import SessionId, SessionKey
from supervisor.core.records import numbered
from supervisor.core.session import Phase, Session, Spending
from supervisor.store.port import Kept, RawRow, Resting, Write
from supervisor.store.writer import Bring, Cleared, Commit, Delete, Tidy
from supervisor.store.writer.held import Held
from supervisor.store.writer.pieces import is_large

from .desk.room import wait_for_room
from .library.damage import make_row_anew, row_or_damage
from .refusals import did_not_answer, not_found, not_now, problem_of_agent
from .shell.repeats import Idempotency, damaged_answer, key_conflict
from .time.timers import Timer
from .tree import TRIES

if TYPE_CHECKING:
    from .house.house import House

T = TypeVar("T")
Args = TypeVarTuple("Args")

_TIDY_AFTER_SECONDS: Final = 1.0
# Where answers to `create` are kept; no session has an id like that.
CREATING: Final = "-"


def keeping(write: Write, scope: str, idempotency: Idempotency | None) -> Write:
    """The write that makes a session, with the answer to whoever asks for it again."""
    if idempotency is None:
        return write
    answer = {"session_id": write.session_id}
    kept = Kept(scope, idempotency.key, idempotency.fingerprint, answer)
    return attrs.evolve(write, kept=kept)


def _made(kept: Kept) -> SessionId:
    """Whom the request has made that was answered so."""
    made = kept.answer.get("session_id")
    if not isinstance(made, str):
        raise damaged_answer(kept.key)
    return SessionId(made)


def refuse_if_not_up(session: Session) -> None:
    """Raise if its agent could not be started."""
    if session.phase is Phase.STOPPED and session.stop_reason == "start_failed":
        raise AgentStartFailed(
            f"the agent of session {session.id} did not start: {session.stop_detail}",
            hint="mend what is missing, then resume the session",
        )


class Register:
    """The index of all keys, and all that changes it."""

    def __init__(self, house: House) -> None:
        self._house = house
        self._tree = house.tree
        self._lines = house.lines
        self._works = house.works
        # Invariant: a key is here from the reservation of a session that bears it until that
        # session is archived or deleted, or its making has failed; so it has one bearer at most.
        # In its text form, in which a key is in the store too.
        self._keys: dict[str, SessionId] = {}
        # Rings when nothing was deleted for a while.
        self._tidying = Timer("tidy", self._tidy)
        # Keys, and idempotency keys, whose bearer is being made, and when that is done.
        self._changing: dict[str, trio.Event] = {}

    async def create(
        self,
        plan: Plan,
        said: Iterable[Message] = (),
        *,
        idempotency: Idempotency | None = None,
    ) -> SessionId:
        """Make a session and bring it up; answers when its agent is up, or raises why not."""
        self._tree.refuse_if_leaving()
        self.refuse_unknown_agent(plan.agent)
        if idempotency is not None:
            name = f"create {idempotency.key}"
            return await self.alone(name, self._create_once, plan, idempotency)
        if plan.key is not None:
            return await self.alone(str(plan.key), self._create, plan, tuple(said), None)
        return await self._works.carry_through(self._create, plan, tuple(said), None)

    async def _create_once(self, plan: Plan, idempotency: Idempotency) -> SessionId:
        made = await self.made_before(CREATING, idempotency)
        if made is not None:
            return made
        if plan.key is not None:  # nobody else may give that a meaning either
            return await self.alone(str(plan.key), self._create, plan, (), idempotency)
        return await self._create(plan, (), idempotency)

    async def made_before(self, scope: str, idempotency: Idempotency) -> SessionId | None:
        """Whom the same request has made, if it was made before and is still there.

        Raises as the first time if its agent did not come up, and if another request had the key.
        """
        kept = await self._house.store.kept(scope, idempotency.key)
        made = None if kept is None else _made(kept)
        stored = None if made is None else await self._house.store.read(made)
        if kept is None or stored is None:
            return None
        if kept.fingerprint != idempotency.fingerprint:
            raise key_conflict(idempotency.key)
        refuse_if_not_up(stored.row)
        return made

    async def _create(
        self,
        plan: Plan,
        said: tuple[Message, ...],
        idempotency: Idempotency | None = None,
    ) -> SessionId:
        plan = await self._house.gates.creating(plan)
        await wait_for_room(self._house, plan.agent)
        session_id = SessionId(self._house.ids.new("s"))
        write = keeping(self.creation(session_id, plan, said), CREATING, idempotency)
        if plan.key is not None:
            self._reserve(plan.key, session_id)
        try:
            self._house.desk.admit_root(session_id, plan.agent)
            await self.write(write)
        except BaseException:
            self._free(plan.key, session_id)
            self._house.desk.withdraw(session_id)
            raise
        self.announce(write)
        await self.bring_up(session_id)
        return session_id

    def restore(self, rows: Iterable[Session], resting: Iterable[Resting]) -> None:
        """Know again who bears which key, after the supervisor was gone."""
        for row in rows:
            if row.key is not None and not row.archived:
                self._keys[str(row.key)] = row.id
        for one in resting:
            if one.key is not None:
                self._keys[one.key] = one.id

    def announce(self, write: Write) -> None:
        """Somebody new is written: tell those who observe everything."""
        self._house.published(write.records)

    async def bring_up(self, session_id: SessionId) -> None:
        """Start it, and wait until its agent is up; raises why it is not."""
        await self._start_for_certain(session_id)
        session = await self._tree.wait_until(
            session_id, lambda session: session.phase is not Phase.STARTING
        )
        refuse_if_not_up(session)

    async def _start_for_certain(self, session_id: SessionId) -> None:
        """`reach`, and again if the start was cut short by the store's trouble."""
        problem: Exception | None = None
        for _ in range(TRIES):
            try:
                await self._tree.reach(session_id)
            except (SessionNotFound, SessionNotActive):
                raise
            except StoreDegraded:
                self._tree.revive(session_id)  # it is written: it begins when the store is back
                raise
            except Exception as error:  # noqa: BLE001 - it ended while it was starting
                problem = error
            else:
                return
        raise did_not_answer(session_id, problem)

    def creation(
        self,
        session_id: SessionId,
        plan: Plan,
        said: Iterable[Message] = (),
        errand: Errand | None = None,
    ) -> Write:
        """The write that makes the session."""
        at = self._house.clock.now()
        session, facts = create(session_id, plan, at=at, said=said, errand=errand)
        return Write(session_id, 0, numbered(session_id, facts, after=0), session)

    async def get_or_create(self, key: SessionKey, plan: Plan) -> SessionId:
        """The bearer of the key, in any phase; made if there is none, once for all who ask."""
        self._tree.refuse_if_closed()
        name = str(key)
        await self._wait_for_change(name)
        bearer = self._keys.get(name)
        if bearer is not None:
            await trio.lowlevel.checkpoint()
            return bearer
        self._tree.refuse_if_leaving()
        self.refuse_unknown_agent(plan.agent)
        return await self.alone(name, self._create, plan, (), None)

    def bearer(self, key: SessionKey) -> SessionId | None:
        """Who bears the key."""
        return self._keys.get(str(key))

    async def replace(self, key: SessionKey, make_plan: Callable[[str | None], Plan]) -> SessionId:
        """Archive the bearer of the key and begin another, in one commit.

        `make_plan` gets the name of the old one's agent, or None if there was none.
        """
        self._tree.refuse_if_leaving()
        return await self.alone(str(key), self._replace, key, make_plan)

    async def _replace(self, key: SessionKey, make_plan: Callable[[str | None], Plan]) -> SessionId:
        old = self._keys.get(str(key))
        if old is None:
            plan = make_plan(None)
            self.refuse_unknown_agent(plan.agent)
            return await self._create(plan, ())
        stored = await self._house.store.read(old)
        plan = make_plan(stored.row.agent_name if stored is not None else None)
        self.refuse_unknown_agent(plan.agent)
        plan = await self._house.gates.creating(plan)
        session_id = SessionId(self._house.ids.new("s"))
        self._tree.ending.add(old)
        write = self.creation(session_id, attrs.evolve(plan, key=key))
        try:
            self._house.desk.admit_root(session_id, plan.agent, instead_of=old)
            await self._stop_and_archive(old, also=write)
        except BaseException:
            self._house.desk.withdraw(session_id)
            raise
        finally:
            self._tree.ending.discard(old)
        self._keys[str(key)] = session_id
        self.announce(write)
        await self.bring_up(session_id)
        return session_id

    async def _stop_and_archive(self, old: SessionId, *, also: Write) -> None:
        """Until it is done, though its actor may end before it can say so."""
        for _ in range(TRIES):
            await self._lines.stop(old, "replaced")
            if await self._house.store.read(also.session_id) is not None:
                return  # done by an incarnation that could not say so
            try:
                await self._lines.ask(old, ev.ArchiveRequested(**self._house.stamp()), also=also)
            except (SessionNotActive, NotStorable):
                continue
            return
        raise did_not_answer(old, None)

    async def resume(self, session_id: SessionId) -> None:
        """Bring a stopped session back; answers when its agent is up, or raises why not."""
        self._tree.refuse_if_leaving()
        self.refuse_if_taken((await self._tree.stored(session_id)).row)
        await self._lines.ask_back(session_id, ev.ResumeRequested(**self._house.stamp()))
        await self.bring_up(session_id)

    async def _wait_for_change(self, name: str) -> None:
        """Wait until nobody else is about to give that name a meaning."""
        while (changing := self._changing.get(name)) is not None:
            await changing.wait()

    async def alone(self, name: str, work: Callable[[*Args], Awaitable[T]], *args: *Args) -> T:
        """Carry the work through while nobody else may give that name a meaning."""
        await self._wait_for_change(name)
        self._works.refuse_if_closed()  # or nobody would ever say that it is done
        done = self._changing[name] = trio.Event()

        async def do() -> T:
            try:
                return await work(*args)
            finally:
                del self._changing[name]
                done.set()

        return await self._works.carry_through(do)

    async def _alone_with_its_key(
        self,
        session_id: SessionId,
        work: Callable[[SessionId, SessionKey | None], Awaitable[None]],
    ) -> None:
        """Carry the work through while nobody else changes who bears the session's key."""
        key = (await self._tree.stored(session_id)).row.key
        name = f"session {session_id}" if key is None else str(key)
        await self.alone(name, work, session_id, key)

    def _reserve(self, key: SessionKey, session_id: SessionId) -> None:
        if self._keys.setdefault(str(key), session_id) != session_id:
            raise self._taken(key)

    def refuse_if_taken(self, row: Session) -> None:
        """Raise `KeyTaken` if another bears the session's key."""
        if row.key is not None and self._keys.get(str(row.key), row.id) != row.id:
            raise self._taken(row.key)

    def _taken(self, key: SessionKey) -> KeyTaken:
        return KeyTaken(
            f"session {self._keys[str(key)]} bears the key {key}",
            hint="use that one, or begin another that takes the key from it",
        )

    def _free(self, key: SessionKey | str | None, session_id: SessionId) -> None:
        if key is not None and self._keys.get(str(key)) == session_id:
            del self._keys[str(key)]

    def refuse_unknown_agent(self, name: str) -> None:
        """Raise if nobody has given us an agent of that name."""
        problem = problem_of_agent(name, self._house.agents)
        if problem is not None:
            raise problem

    # Archiving and deleting -----------------------------------------------------------------

    async def archive(self, session_id: SessionId) -> None:
        """Read-only from now on, and its key is free."""
        await self._alone_with_its_key(session_id, self._archive)

    async def _archive(self, session_id: SessionId, key: SessionKey | None) -> None:
        await self._lines.ask(session_id, ev.ArchiveRequested(**self._house.stamp()))
        self._free(key, session_id)

    async def unarchive(self, session_id: SessionId) -> None:
        """Writable again, if its key is still free."""
        await self._alone_with_its_key(session_id, self._unarchive)

    async def _unarchive(self, session_id: SessionId, key: SessionKey | None) -> None:
        if key is not None:
            self._reserve(key, session_id)
        try:
            await self._lines.ask(session_id, ev.UnarchiveRequested(**self._house.stamp()))
        finally:
            if (await self._tree.stored(session_id)).row.archived:
                self._free(key, session_id)

    async def delete(self, session_id: SessionId, *, only_if_over: bool = False) -> bool:
        """Stop it, and leave nothing of it; gives whether that was done.

        `only_if_over`: not if it lives, or has come back since somebody looked.
        """
        self._house.health.refuse_if_degraded()
        found = await row_or_damage(self._house, session_id)
        root = found.lineage.root or session_id if isinstance(found, Session) else found.root
        # Those of one tree one after the other: what one had spent is paid by the next above it,
        # which must not be about to go itself.
        work = partial(self._delete_alone, session_id, only_if_over=only_if_over)
        return await self.alone(f"deletion below {root}", work)

    async def _delete_alone(self, session_id: SessionId, *, only_if_over: bool) -> bool:
        self._tree.ending.add(session_id)  # from now on nothing brings it back
        try:
            row = await row_or_damage(self._house, session_id)
            if only_if_over and (isinstance(row, RawRow) or row.phase is not Phase.STOPPED):
                return False  # nor if nobody knows what it is
            if isinstance(row, RawRow):
                row = await self._for_a_proper_end(session_id)
            if isinstance(row, RawRow):
                name = row.key or f"session {session_id}"
                await self.alone(name, self._erase_all, session_id, row.key, None)
            else:
                await self._alone_with_its_key(session_id, self._delete)
        finally:
            self._tree.ending.discard(session_id)
        return True

    async def _for_a_proper_end(self, session_id: SessionId) -> Session | RawRow:
        """The row of one that could not be read, if it can be had: others hear of its end then."""
        if self._tree.is_awake(session_id):
            await self._lines.stop(session_id, "deleted")  # which writes its row
        else:
            with contextlib.suppress(RepairRefused, KeyTaken):
                await make_row_anew(self._house, session_id, force=True)
        return await row_or_damage(self._house, session_id)

    async def _delete(self, session_id: SessionId, key: SessionKey | None) -> None:
        await self._lines.stop(session_id, "deleted")
        row = (await self._tree.stored(session_id)).row
        await self._erase_all(session_id, key, row)

    async def _erase_all(
        self, session_id: SessionId, key: SessionKey | str | None, row: Session | None
    ) -> None:
        """Leave nothing of it, here or in the store; `row` is None if nobody could read it."""
        if row is None:
            self._house.desk.stop_dependents(session_id)
        await self._erase(session_id, row)
        await self._house.writer.ask(Cleared(), timeout_seconds=math.inf)
        self._free(key, session_id)
        seat = self._tree.find_seat(session_id)
        if seat is not None:
            if seat.ref is not None:
                # A task that will not end keeps its actor awake, but there is nothing to keep.
                seat.ref.stop_nowait()
                await self._tree.wait_over(seat.ref)
            seat.close(not_found(session_id))
            self._tree.let_go(seat)
        self._house.desk.delete(session_id)
        self._house.spawning.forget(session_id)
        self._house.timers.set(self._tidying, _TIDY_AFTER_SECONDS)
        self._house.hooks.notify("session_end", session_id=session_id, reason="delete")

    def _tidy(self, _: str) -> None:
        """Once for all that were deleted lately: it takes as long as there are words."""
        with contextlib.suppress(MailboxFull, ActorStopped):
            self._house.writer.tell(Tidy())

    async def _erase(self, session_id: SessionId, row: Session | None) -> None:
        """Leave nothing of it; what it has spent is paid by the next above it, in one commit."""
        ledger = self._house.desk.ledger
        member = ledger.find(session_id)
        above = member.parent.path() if member is not None and member.parent is not None else ()
        # What others below it have spent, their own rows say.
        own = member.own if member is not None else Spending()
        forgotten = ev.ChildDeleted(
            child=session_id,
            spent=own if row is None else row.spending + row.family.deleted,
            spawns=1 if row is None else row.family.deleted_spawns + 1,
            **self._house.stamp(),
        )
        for payer in above:
            if ledger.find(payer.id) is not payer:
                continue  # deleted itself
            try:
                await self._lines.ask(payer.id, forgotten, removes=session_id)
            except SupervisorError:
                if not await self._tree.exists(session_id):
                    return  # done by an incarnation of the payer that could not say so
                if await self._tree.exists(payer.id):
                    raise
                continue  # deleted meanwhile
            return
        await self._house.writer.ask(Delete(session_id), timeout_seconds=math.inf)

    async def store(self, write: Write) -> None:
        """Write a session that is whole already, and over: it takes no place."""
        await self.write(write)
        self._house.rouse_readers()  # of what is long past, nobody else is told as of news

    async def write(self, write: Write) -> None:
        """Make it durable; raises why not, or that it is not known."""
        try:
            message = Bring(write) if is_large(write) else Commit(write)
            refusal = await self._house.writer.ask(message, timeout_seconds=math.inf)
        except Exception as error:
            # Not known: it may have been written before the writer failed.
            stored = await self._house.store.read(write.session_id)
            if stored is None:
                raise did_not_answer(write.session_id, error) from error
            return
        if isinstance(refusal, Held):
            refusal = not_now(self._house.health) if refusal.withdraw() else await refusal.wait()
        if refusal is not None:
            raise refusal
