"""Registry of live session actors: slots, starts, exits and rechecks.

Rule 1: a session has at most one actor, and at most one start in progress.
Rule 2: a start runs in its own task, so that a cancelled caller leaves nothing half done.
Rule 3: a recheck tells a session that the tree around it has changed. The session stays marked
        until it has committed the result, so that a new incarnation rechecks again.
"""

from __future__ import annotations

import contextlib
import functools
import logging
from collections.abc import Callable, Iterator
from typing import Final, Literal

import trio

from actors import Actor, ActorStopped, GaveUp, Group, MailboxFull, Ref, RestartPolicy
from supervisor.core.errors import (
    NotStorable,
    SessionNotActive,
    SessionNotFound,
    StoreDegraded,
    SupervisorError,
)
from supervisor.core.ids import SessionId
from supervisor.core.log_content import error_content
from supervisor.core.records import Record
from supervisor.core.state import SessionState
from supervisor.store.port import Stored

from .exit_monitor import ExitMonitor
from .refusals import session_not_found, supervisor_closed
from .services import Services
from .slot import RECHECK, PendingStart, SessionSlot
from .subscribers import StateCondition

logger = logging.getLogger("supervisor")

# A session actor is our code: a crash is a bug, or a failure of the store.
RESTART: Final = RestartPolicy(
    "transient", max_restarts=5, within_seconds=10.0, backoff_seconds=0.05
)
SHUTDOWN_SECONDS: Final = 5.0
# Number of incarnations that may exit during a request before its sender gets an error.
MAX_ATTEMPTS: Final = 5
_RECHECK_RETRY_SECONDS: Final = 0.05
_FIRST_PAUSE_SECONDS, _MAX_PAUSE_SECONDS = 1.0, 30.0  # between attempts to start a session again
# Most waiting callers are not agents: they share one object.
_NO_AWAIT: Final = contextlib.nullcontext()


class SessionRegistry:
    """The slots of all sessions in memory, and the starts and exits of their actors.

    `make_actor` creates one incarnation of a session's actor.
    """

    def __init__(
        self, services: Services, group: Group, make_actor: Callable[[SessionSlot], Actor]
    ) -> None:
        self._services = services
        self._group = group
        self._make_actor = make_actor
        self._slots: dict[SessionId, SessionSlot] = {}
        # Sessions whose start is being retried.
        self._retrying: set[SessionId] = set()
        self._exit_monitor: Ref | None = None
        # Sessions that were told to recheck and have not begun, or that are rechecking now.
        self._rechecks: dict[SessionId, Literal["called", "looks"]] = {}

    async def open(self) -> None:
        """Start the exit monitor."""
        self._exit_monitor = await self._group.start(
            lambda: ExitMonitor(self.on_exit), name="exit_monitor", restart="permanent"
        )

    @property
    def exit_monitor(self) -> Ref:
        """The actor that reports exits; set by `open`."""
        assert self._exit_monitor is not None
        return self._exit_monitor

    # Finding ------------------------------------------------------------------------------

    def slot(self, session_id: SessionId) -> SessionSlot:
        """Return the session's slot, created if it is missing; the caller drops it when unused."""
        slot = self._slots.get(session_id)
        if slot is None:
            slot = self._slots[session_id] = SessionSlot(self._services, session_id)
        return slot

    def find_slot(self, session_id: SessionId) -> SessionSlot | None:
        """Return the session's slot, or None."""
        return self._slots.get(session_id)

    def find_ref(self, session_id: SessionId, stale_ref: Ref | None = None) -> Ref | None:
        """Return the session's actor if it takes messages; None if it has to be started first.

        Also None if the supervisor is closed. `stale_ref` is a ref that the caller found stopped.
        """
        slot = self._slots.get(session_id)
        if slot is None or slot.is_stopping_idle or self._services.run_state.is_closed:
            return None
        return None if slot.ref is stale_ref else slot.ref

    def is_live_or_starting(self, session_id: SessionId) -> bool:
        """Return True if the session has an actor or its actor is being started."""
        slot = self._slots.get(session_id)
        return slot is not None and (slot.has_actor or slot.pending_start is not None)

    def drop_unused(self, slot: SessionSlot) -> None:
        """Drop an unused slot.

        A slot that waits for a restart is kept for its last published seq.
        """
        if slot.ref is not None or slot.is_in_use or slot.id in self._retrying:
            return
        if self._slots.get(slot.id) is slot:
            del self._slots[slot.id]

    def live(self) -> list[SessionSlot]:
        """Return the slots of all sessions that have an actor."""
        return [slot for slot in self._slots.values() if slot.ref is not None]

    def live_or_starting(self) -> list[SessionSlot]:
        """Return the slots of all sessions that have an actor or a start in progress."""
        return [slot for slot in self._slots.values() if slot.ref is not None or slot.pending_start]

    async def wait_for_suspend_step(self, slot: SessionSlot) -> None:
        """Wait for the session's next step towards its suspension: started, inactive, exited."""
        if slot.pending_start is not None:
            await slot.pending_start.done.wait()
        elif slot.session is not None and not slot.session.is_inactive:
            await self.wait_until(slot.id, lambda session: session.is_inactive)
        elif slot.ref is not None:
            await self.wait_exit(slot.ref)

    async def get_or_start(
        self,
        session_id: SessionId,
        *,
        stale_ref: Ref | None = None,
        may_claim_in_memory: bool = False,
    ) -> Ref:
        """Return the session's actor, started from its row if it is not running.

        Raise SessionNotFound if the session does not exist. `stale_ref` is a ref that the caller
        found stopped. With `may_claim_in_memory` the actor starts while the store is degraded too.
        """
        while True:
            self._services.refuse_if_closed()
            ref = self.find_ref(session_id, stale_ref)
            if ref is not None:
                return ref
            slot = self.slot(session_id)
            if slot.pending_start is None:
                slot.pending_start = PendingStart(may_claim_in_memory=may_claim_in_memory)
                self._services.tasks.start_soon(self._start, slot, slot.pending_start)
            start = slot.pending_start
            slot.callers += 1
            try:
                await start.done.wait()
            finally:
                slot.callers -= 1  # no await from here to the caller's ask
            if start.error is None or (
                isinstance(start.error, StoreDegraded)
                and may_claim_in_memory
                and not start.may_claim_in_memory  # the start of another caller
            ):
                continue
            raise start.error

    async def _start(self, slot: SessionSlot, start: PendingStart) -> None:
        """Start the actor in its own task, and store the result in `start`."""
        try:
            if slot.ref is not None:
                await self.wait_exit(slot.ref)
            ref = await self._group.start(
                functools.partial(self._make_actor, slot),
                name=slot.id,
                restart=RESTART,
                shutdown_seconds=SHUTDOWN_SECONDS,
            )
            slot.ref = ref
            self.exit_monitor.watch(ref)
        except Exception as error:  # noqa: BLE001 - raised in every caller that waits
            start.error = error
        finally:
            if slot.ref is None and start.error is None:
                start.error = supervisor_closed()  # cancelled, because the supervisor closes
            slot.pending_start = None
            start.done.set()
            self.drop_unused(slot)

    def on_exit(self, ref: Ref, reason: object) -> None:
        """Clear the slot of an actor that has exited and is not restarted by its supervisor."""
        slot = self._slots.get(SessionId(ref.name))
        if slot is None or slot.ref is not ref:
            return
        error: SupervisorError | None = slot.fence_error
        if isinstance(reason, GaveUp):
            logger.error("actor of session %s crashed too often", slot.id, exc_info=reason)
            error = SessionNotActive(
                f"the actor of session {slot.id} crashed too often",
                hint="accepted inputs are stored; read the log, then try again",
            )
            self.retry_start(slot.id)
        elif slot.fence_error is not None and self.needs_recheck(slot.id):
            self.retry_start(slot.id)  # the recheck must still be done here
        slot.clear(error)
        self.drop_unused(slot)

    def retry_start(self, session_id: SessionId) -> None:
        """Retry the start of a session with growing pauses, after it failed or was given up."""
        if session_id not in self._retrying:
            self._retrying.add(session_id)
            self._services.tasks.start_soon(self._retry_start, session_id)

    async def _retry_start(self, session_id: SessionId) -> None:
        pause = _FIRST_PAUSE_SECONDS
        try:
            while not self._services.is_shutting_down:
                await trio.sleep(pause)
                pause = min(2.0 * pause, _MAX_PAUSE_SECONDS)
                try:
                    row = (await self.stored(session_id)).row
                    if not row.is_inactive or self.needs_recheck(session_id):
                        await self.get_or_start(session_id)
                except SessionNotFound:
                    return
                except Exception as error:  # noqa: BLE001 - the store still fails; retried
                    logger.warning(
                        "session %s could not be started yet: %s", session_id, error_content(error)
                    )
                else:
                    return
        finally:
            self._retrying.discard(session_id)
            slot = self._slots.get(session_id)
            if slot is not None:
                self.drop_unused(slot)

    def close(self) -> None:
        """Refuse further calls, and fail every wait."""
        self._services.run_state.close()
        for slot in list(self._slots.values()):
            slot.close(supervisor_closed())
        self._services.feeds.end()

    # Rechecks -------------------------------------------------------------------------------

    def wake(self, session_id: SessionId) -> None:
        """Make the session recheck the tree around it; start its actor if it is not running."""
        was = self._rechecks.get(session_id)
        self._rechecks[session_id] = "called"
        if self._services.is_closed:
            return
        slot = self._slots.get(session_id)
        if slot is None or slot.ref is None or slot.is_stopping_idle:
            self._services.tasks.start_soon(self._start_for_recheck, session_id)
            return
        if was == "called":
            return  # the message is queued, and its recheck will see this change too
        try:
            slot.ref.tell(RECHECK, urgent=True)
        except MailboxFull:
            self._services.tasks.start_soon(self._wake_later, session_id)
        except ActorStopped:
            self._services.tasks.start_soon(self._start_for_recheck, session_id)

    def mark_for_recheck(self, session_id: SessionId) -> None:
        """Make the session recheck when its actor starts; the caller starts it."""
        self._rechecks[session_id] = "called"

    def needs_recheck(self, session_id: SessionId) -> bool:
        """Return True if a recheck of the session is due or in progress."""
        return session_id in self._rechecks

    def begin_recheck(self, session_id: SessionId) -> None:
        """Record that the session's recheck has begun; a later change needs another recheck."""
        self._rechecks[session_id] = "looks"

    def end_recheck(self, session_id: SessionId) -> None:
        """Record that the recheck is committed, unless another was requested meanwhile."""
        if self._rechecks.get(session_id) == "looks":
            del self._rechecks[session_id]

    def forget_recheck(self, session_id: SessionId) -> None:
        """Drop the mark of a deleted session."""
        self._rechecks.pop(session_id, None)

    async def _start_for_recheck(self, session_id: SessionId) -> None:
        # A new incarnation rechecks by itself.
        if session_id in self._rechecks:
            try:
                await self.get_or_start(session_id)
            except SessionNotFound:
                self._rechecks.pop(session_id, None)  # deleted
            except Exception:  # noqa: BLE001 - the store fails: it rechecks when it is started
                self.retry_start(session_id)
            else:
                self.wake_if_marked(session_id)

    async def _wake_later(self, session_id: SessionId) -> None:
        await trio.sleep(_RECHECK_RETRY_SECONDS)
        self.wake_if_marked(session_id)

    def wake_if_marked(self, session_id: SessionId) -> None:
        """Send the recheck message to an actor that has not begun the recheck it is marked for."""
        if self._rechecks.get(session_id) == "called":
            self._rechecks[session_id] = "looks"
            self.wake(session_id)

    # Reading and waiting --------------------------------------------------------------------

    def is_published(self, record: Record) -> bool:
        """Return True if the session has published this stored record."""
        slot = self._slots.get(record.session_id)
        return slot is None or slot.log is None or record.seq <= slot.log.published_seq

    async def wait_until(self, session_id: SessionId, condition: StateCondition) -> SessionState:
        """Wait until the session's state meets the condition, with or without an actor."""
        self._services.refuse_if_closed()
        slot = self.slot(session_id)
        wait = slot.add_wait(condition)
        try:
            if slot.session is None and not wait.happened.is_set():
                row = (await self.stored(session_id)).row
                if slot.session is None and not wait.happened.is_set() and condition(row):
                    return row
            await wait.happened.wait()
        finally:
            slot.subscribers.remove_wait(wait)
            self.drop_unused(slot)
        if wait.error is not None:
            raise wait.error
        assert wait.session is not None
        return wait.session

    def awaiting(
        self, inside: SessionId | None, other: SessionId
    ) -> contextlib.AbstractContextManager[None]:
        """Return a context in which the agent of `inside` counts as waiting for `other`."""
        if inside is None or inside == other:
            return _NO_AWAIT
        return self._awaiting(inside, other)

    @contextlib.contextmanager
    def _awaiting(self, inside: SessionId, other: SessionId) -> Iterator[None]:
        slot = self.slot(inside)
        slot.progress.add_awaited(other)
        # Kept though the other may be suspended: its last progress matters until the wait ends.
        awaited = self.slot(other)
        awaited.progress.awaiting_agents += 1
        try:
            yield
        finally:
            slot.progress.remove_awaited(other)
            slot.mark_progress()  # its own silence is measured from now
            awaited.progress.awaiting_agents -= 1
            self.drop_unused(awaited)
            self.drop_unused(slot)

    async def stored(self, session_id: SessionId) -> Stored:
        """Return the session as stored; raise SessionNotFound if it does not exist."""
        self._services.refuse_if_closed()
        stored = await self._services.store.read(session_id)
        if stored is None:
            raise session_not_found(session_id)
        return stored

    async def exists(self, session_id: SessionId) -> bool:
        """Return True if the session exists, even if its row cannot be read."""
        self._services.refuse_if_closed()
        try:
            return await self._services.store.read(session_id) is not None
        except NotStorable:
            return True

    async def row(self, session_id: SessionId) -> SessionState:
        """Return the session's state as of its last commit, or raise SessionNotFound."""
        self._services.refuse_if_closed()
        slot = self._slots.get(session_id)
        if slot is not None and slot.session is not None:
            await trio.lowlevel.checkpoint()
            if slot.session is not None:
                return slot.session
        return (await self.stored(session_id)).row

    async def wait_exit(self, ref: Ref) -> None:
        """Wait until the actor has exited, and clear its slot before the exit monitor does."""
        reason: object
        try:
            reason = await ref.wait_stopped()
        except GaveUp as gave_up:
            reason = gave_up
        self.on_exit(ref, reason)
