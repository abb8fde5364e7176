"""State between the sessions and the writer: health, pending writes, back-pressure.

`StoreHealth` holds whether the store can write, and why not. `Backlog` keeps the writes that a
degraded store did not take, in order, until it recovers. `WriteThrottle` bounds the requests that
are queued at the writer: further callers wait in order. Each session has at most one write in
flight and its output has a separate bound, so only requests of callers are throttled; stops and
interrupts never are.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from typing import Final

import attrs
import trio
from trio_util import AsyncValue, RepeatedEvent

from supervisor.core import events as ev
from supervisor.core.degraded import reduces_activity
from supervisor.core.errors import StoreDegraded, SupervisorError
from supervisor.core.ids import CallId, SessionId, TurnId
from supervisor.core.store_finding import StoreFinding

from .port import Write, is_of_work

logger = logging.getLogger("supervisor")

# The backlog is abandoned when this many writers in a row crash over it.
_MAX_CRASHES: Final = 2


class PendingWrite:
    """A write that waits for a degraded store to recover."""

    __slots__ = ("_callbacks", "answer", "has_unknown_outcome", "is_settled", "is_withdrawn")

    def __init__(self, *, has_unknown_outcome: bool = True) -> None:
        # Whether the write may be on disk: an attempt is running, or its outcome is unknown.
        self.has_unknown_outcome = has_unknown_outcome
        self.is_withdrawn = False
        self.is_settled = False
        self.answer: SupervisorError | None = None
        self._callbacks: list[Callable[[SupervisorError | None], None]] = []

    def on_settled(self, callback: Callable[[SupervisorError | None], None]) -> None:
        """Call `callback` with the answer, synchronously when the write is settled."""
        if self.is_settled:
            callback(self.answer)
        else:
            self._callbacks.append(callback)

    async def wait(self) -> SupervisorError | None:
        """Wait until the write is settled; return its refusal or None."""
        happened = trio.Event()
        self.on_settled(lambda _: happened.set())
        await happened.wait()
        return self.answer

    def withdraw(self) -> bool:
        """Withdraw the write; return True if it is certain that it is never written."""
        if not self.is_settled and not self.has_unknown_outcome:
            self.is_withdrawn = True
            self.settle(StoreDegraded("the write was withdrawn", hint="repeat the request"))
        return self.is_withdrawn

    def settle(self, answer: SupervisorError | None) -> None:
        """Set the outcome (None: written) and call the callbacks."""
        self.is_settled, self.answer = True, answer
        then, self._callbacks = self._callbacks, []
        for callback in then:
            try:
                callback(answer)
            except Exception:
                # A callback belongs to one session; the others must still be called.
                logger.exception("callback of a pending write raised")


class Backlog:
    """Queue of pending writes, oldest first; it outlives a crash of the writer."""

    def __init__(self) -> None:
        # Invariant: empty exactly while the store is healthy.
        self.writes: list[tuple[Write, PendingWrite]] = []
        # Epochs of claims made in memory; see `pending_claims`. Empty while the store is healthy.
        self.claimed_epochs: dict[SessionId, int] = {}
        # Crashes of the writer since a write of the backlog last succeeded.
        self.crashes = 0

    def may_retry_after_crash(self) -> bool:
        """Count a crash of the writer; return True if the next writer may retry the backlog."""
        self.crashes += 1
        return self.crashes < _MAX_CRASHES

    def drop_withdrawn(self) -> bool:
        """Remove withdrawn writes; return True if a write is left."""
        self.writes[:] = [(write, held) for write, held in self.writes if not held.is_withdrawn]
        return bool(self.writes)

    def ran(self, session_id: SessionId, turn: TurnId | None, call: CallId | None) -> bool:
        """Return True if a pending record is of that turn, and of that tool call, if given."""
        return any(
            record.session_id == session_id and is_of_work(record, turn, call)
            for write, _ in self.writes
            for part in write.parts
            for record in part.records
        )

    def abandon(self) -> None:
        """Fail all pending writes, which are never written."""
        self.drop_withdrawn()
        held = self.writes[:]
        self.writes.clear()
        self.claimed_epochs.clear()
        self.crashes = 0
        if held:
            sessions = {write.session_id for write, _ in held}
            logger.error("abandoned %d pending writes of %d sessions", len(held), len(sessions))
        for _, one in held:
            one.settle(
                StoreDegraded("the write was never stored", hint="look the session up again")
            )


@contextmanager
def unknown_outcome(held: Sequence[PendingWrite]) -> Iterator[None]:
    """Mark the outcome of the writes as unknown while they are tried.

    If the attempt certainly wrote nothing, the previous marks are restored.
    """
    before = [one.has_unknown_outcome for one in held]
    for one in held:
        one.has_unknown_outcome = True
    try:
        yield
    except StoreDegraded as trouble:
        if trouble.is_surely_unwritten:
            for one, had_unknown_outcome in zip(held, before, strict=True):
                one.has_unknown_outcome = had_unknown_outcome
        raise


# Above these bounds, callers wait.
MAX_WRITES: Final = 10_000
MAX_BYTES: Final = 64 * 1024 * 1024
# How long output waits for the acknowledgements of callers, before each of its batches.
MAX_YIELD_SECONDS: Final = 0.005


class WriteThrottle:
    """Back-pressure before the writer; one per store."""

    def __init__(self, *, max_writes: int = MAX_WRITES, max_bytes: int = MAX_BYTES) -> None:
        self._max_writes = max_writes
        self._max_bytes = max_bytes
        # Size and time of arrival of each admitted request, by its ticket, in order of admission.
        self._admitted: dict[int, tuple[int, float]] = {}
        self._new_ticket = count(1).__next__
        self.bytes = 0
        # Waiting callers, oldest first: ticket, size, time of arrival, and the event that admits
        # the caller. A caller whose event is set is already admitted.
        self._waiting: deque[tuple[int, int, float, trio.Event]] = deque()
        # Set when no request is admitted any more, if a task waits for that.
        self._idle = RepeatedEvent()
        self._yielding = 0
        # `make_services` sets the loop's clock itself: this looks the clock up at each call.
        self.loop_time: Callable[[], float] = trio.current_time

    @property
    def writes(self) -> int:
        """Number of admitted requests."""
        return len(self._admitted)

    @property
    def throttled(self) -> int:
        """Number of callers that wait at the throttle."""
        return len(self._waiting)

    @property
    def wait_seconds(self) -> float:
        """Age of the oldest admitted request in seconds."""
        first = next(iter(self._admitted.values()), None)
        return 0.0 if first is None else self.loop_time() - first[1]

    def acquire_now(self, size: int) -> int | None:
        """Return a ticket for `release` if there is capacity; None if the caller has to wait."""
        if self._waiting or not self._has_capacity(size):
            return None
        self.bytes += size
        ticket = self._new_ticket()
        self._admitted[ticket] = (size, self.loop_time())
        return ticket

    async def acquire(self, size: int) -> int:
        """Wait for capacity; return a ticket for `release`. A cancelled call takes no capacity."""
        ticket = self.acquire_now(size)
        if ticket is not None:
            return ticket
        ticket, called = self._new_ticket(), trio.Event()
        waiting = (ticket, size, self.loop_time(), called)
        self._waiting.append(waiting)
        try:
            await called.wait()
        except BaseException:
            if called.is_set():
                self.release(ticket)
            else:
                self._waiting.remove(waiting)
            raise
        return ticket

    def release(self, ticket: int) -> None:
        """Release the capacity of a request, unless it is released, and admit waiting callers."""
        admitted = self._admitted.pop(ticket, None)
        if admitted is None:
            return
        self.bytes -= admitted[0]
        while self._waiting and self._has_capacity(self._waiting[0][1]):
            first, size, since, called = self._waiting.popleft()
            self._admitted[first] = (size, since)
            self.bytes += size
            called.set()
        if self._yielding and not self._admitted:
            self._idle.set()

    async def yield_to_callers(self) -> None:
        """Wait until no request is admitted, for at most `MAX_YIELD_SECONDS`.

        For work that would delay the acknowledgements of callers and can wait. Not always a
        checkpoint.
        """
        if not self._admitted:
            return
        self._yielding += 1
        try:
            with trio.move_on_after(MAX_YIELD_SECONDS):
                while self._admitted:
                    await self._idle.wait()
        finally:
            self._yielding -= 1

    def _has_capacity(self, size: int) -> bool:
        """Return True if a request of this size fits; one above the limit is admitted alone."""
        fits = self.bytes + size <= self._max_bytes or not self.bytes
        return fits and len(self._admitted) < self._max_writes


@attrs.frozen
class StoreState:
    """Health of the store for users.

    `waiting` writes of `waiting_bytes` are queued at the writer or wait for recovery, the oldest
    for `wait_seconds`; `throttled` callers wait at the throttle. `findings` are losses and damage
    of the file, found when it was opened or checked.
    """

    degraded: bool = False
    problem: str | None = None
    hint: str | None = None
    read_only: bool = False
    waiting: int = 0
    waiting_bytes: int = 0
    wait_seconds: float = 0.0
    throttled: int = 0
    findings: tuple[StoreFinding, ...] = ()


class StoreHealth:
    """State of the store, with its backlog and throttle; the writer updates it."""

    def __init__(self) -> None:
        # Why the store cannot write at present; None while it can. A plain attribute, because each
        # request reads it. Invariant: only `_set_problem` changes it, with the value below.
        self.problem: StoreDegraded | None = None
        self._changes: AsyncValue[StoreDegraded | None] = AsyncValue(None)
        # Set if the file could not be opened for writing.
        self.is_read_only = False
        # Whether stored sessions are not recovered yet. Then a store that was degraded stays so for
        # everything but the recovery, although it may be able to write again.
        self.is_recovery_pending = False
        self.backlog = Backlog()
        self.throttle = WriteThrottle()
        # Damage of the file that was found since it was opened. It does not prevent writes.
        self.findings: tuple[StoreFinding, ...] = ()
        # Whether a task retries the degraded store.
        self.is_retrying = False
        self._on_change: Callable[[StoreState], None] | None = None
        self._on_commit: Callable[[float, int], None] | None = None

    def set_on_change(self, callback: Callable[[StoreState], None]) -> None:
        """Set the function that is called synchronously at every change."""
        self._on_change = callback

    def set_on_commit(self, callback: Callable[[float, int], None]) -> None:
        """Set the function that is called at every commit with its seconds and its writes."""
        self._on_commit = callback

    def committed(self, seconds: float, writes: int) -> None:
        """Call the callback for a commit of the writer."""
        if self._on_commit is not None:
            self._on_commit(seconds, writes)

    @property
    def is_degraded(self) -> bool:
        """Whether the store cannot write at present."""
        return self.problem is not None

    def _set_problem(self, problem: StoreDegraded | None) -> None:
        self.problem = self._changes.value = problem

    async def wait_healthy(self) -> None:
        """Wait until the store can write; for a read-only store that never happens."""
        await self._changes.wait_value(None)

    @property
    def state(self) -> StoreState:
        """Current state, without the numbers of waiting writes."""
        trouble = self.problem
        if trouble is None:
            return StoreState(findings=self.findings)
        return StoreState(
            findings=self.findings,
            degraded=True,
            problem=self._describe(trouble),
            hint=trouble.hint,
            read_only=self.is_read_only,
        )

    @property
    def full_state(self) -> StoreState:
        """Current state, with the numbers of waiting writes."""
        load = self.throttle
        return attrs.evolve(
            self.state,
            waiting=load.writes + len(self.backlog.writes),
            waiting_bytes=load.bytes,
            wait_seconds=load.wait_seconds,
            throttled=load.throttled,
        )

    def ran_unwritten(
        self, session_id: SessionId, turn: TurnId | None, call: CallId | None
    ) -> bool:
        """Return True if a pending record is of that turn, and of that tool call, if given."""
        return self.backlog.ran(session_id, turn, call)

    def refuse_if_degraded(self) -> None:
        """Raise `StoreDegraded` if the store cannot write at present."""
        problem = self.problem
        if problem is not None:
            # A new error each time: an exception accumulates its tracebacks.
            raise StoreDegraded(self._describe(problem), hint=problem.hint)

    def _describe(self, trouble: StoreDegraded) -> str:
        problem: str = trouble.args[0]
        return f"{problem}; sessions are not recovered yet" if self.is_recovery_pending else problem

    def degrade(self, trouble: StoreDegraded) -> None:
        """Mark the store as degraded."""
        is_news = self.problem is None
        self._set_problem(trouble)
        if is_news:
            self._notify()

    def recover(self) -> None:
        """Mark the store as healthy, unless it is read-only or recovery is pending."""
        if self.problem is not None and not self.is_read_only and not self.is_recovery_pending:
            self._set_problem(None)
            self._notify()

    def end_recovery(self) -> None:
        """Mark the stored sessions as recovered, and the store as healthy."""
        self.is_recovery_pending = False
        self.recover()

    def set_read_only(self, trouble: StoreDegraded) -> None:
        """Mark the store as read-only until it is opened again."""
        self.is_read_only = True
        self._set_problem(trouble)
        self._notify()

    def _notify(self) -> None:
        if self._on_change is not None:
            self._on_change(self.state)


def throttled_size(event: ev.Event) -> int | None:
    """Return about how many bytes the event adds to the store; None if it is not throttled."""
    if type(event) is ev.InputSubmitted:
        return event.attachment_bytes + len(event.text)
    if reduces_activity(event):
        return None
    return len(getattr(event, "text", None) or "")
