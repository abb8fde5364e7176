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
from typing import Final

import attrs
import trio
from trio_util import AsyncValue, RepeatedEvent

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
            for part in write.parts()
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


@attrs.frozen
class ThrottledWrite:
    """A request that the throttle admitted: its size and the time of its arrival."""

    bytes: int
    since: float = attrs.field(factory=trio.current_time)


class WriteThrottle:
    """Back-pressure before the writer; one per store."""

    def __init__(self, *, max_writes: int = MAX_WRITES, max_bytes: int = MAX_BYTES) -> None:
        self._max_writes = max_writes
        self._max_bytes = max_bytes
        # By identity, in order of arrival.
        self._admitted: dict[int, ThrottledWrite] = {}
        self.bytes = 0
        # Waiting callers, oldest first. A caller whose event is set is already admitted.
        self._waiting: deque[tuple[ThrottledWrite, trio.Event]] = deque()
        self._idle = RepeatedEvent()

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
        return 0.0 if first is None else trio.current_time() - first.since

    async def acquire(self, size: int) -> ThrottledWrite:
        """Wait for capacity; pass the result to `release`. A cancelled call takes no capacity."""
        carried = ThrottledWrite(size)
        if not self._waiting and self._has_capacity(carried):
            self._admit(carried)
            return carried
        called = trio.Event()
        self._waiting.append((carried, called))
        try:
            await called.wait()
        except BaseException:
            if called.is_set():
                self.release(carried)
            else:
                self._waiting.remove((carried, called))
            raise
        return carried

    def release(self, carried: ThrottledWrite) -> None:
        """Release the capacity of a request and admit waiting callers."""
        del self._admitted[id(carried)]
        self.bytes -= carried.bytes
        while self._waiting and self._has_capacity(self._waiting[0][0]):
            first, called = self._waiting.popleft()
            self._admit(first)
            called.set()
        if not self._admitted:
            self._idle.set()

    async def yield_to_callers(self) -> None:
        """Wait until no request is admitted, for at most `MAX_YIELD_SECONDS`.

        For work that would delay the acknowledgements of callers and can wait. Not always a
        checkpoint.
        """
        if self._admitted:
            with trio.move_on_after(MAX_YIELD_SECONDS):
                while self._admitted:
                    await self._idle.wait()

    def _has_capacity(self, carried: ThrottledWrite) -> bool:
        """Return True if the request fits; one above the byte limit is admitted alone."""
        fits = not self.bytes or self.bytes + carried.bytes <= self._max_bytes
        return fits and len(self._admitted) < self._max_writes

    def _admit(self, carried: ThrottledWrite) -> None:
        self._admitted[id(carried)] = carried
        self.bytes += carried.bytes


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
        self._problem: AsyncValue[StoreDegraded | None] = AsyncValue(None)
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
    def _error(self) -> StoreDegraded | None:
        error: StoreDegraded | None = self._problem.value
        return error

    @property
    def is_degraded(self) -> bool:
        """Whether the store cannot write at present."""
        return self._error is not None

    async def wait_healthy(self) -> None:
        """Wait until the store can write; for a read-only store that never happens."""
        await self._problem.wait_value(None)

    @property
    def state(self) -> StoreState:
        """Current state, without the numbers of waiting writes."""
        trouble = self._error
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
        error = self._error
        if error is not None:
            # A new error each time: an exception accumulates its tracebacks.
            raise StoreDegraded(self._describe(error), hint=error.hint)

    def _describe(self, trouble: StoreDegraded) -> str:
        problem: str = trouble.args[0]
        return f"{problem}; sessions are not recovered yet" if self.is_recovery_pending else problem

    def degrade(self, trouble: StoreDegraded) -> None:
        """Mark the store as degraded."""
        is_news = self._error is None
        self._problem.value = trouble
        if is_news:
            self._notify()

    def recover(self) -> None:
        """Mark the store as healthy, unless it is read-only or recovery is pending."""
        if self._error is not None and not self.is_read_only and not self.is_recovery_pending:
            self._problem.value = None
            self._notify()

    def end_recovery(self) -> None:
        """Mark the stored sessions as recovered, and the store as healthy."""
        self.is_recovery_pending = False
        self.recover()

    def set_read_only(self, trouble: StoreDegraded) -> None:
        """Mark the store as read-only until it is opened again."""
        self.is_read_only = True
        self._problem.value = trouble
        self._notify()

    def _notify(self) -> None:
        if self._on_change is not None:
            self._on_change(self.state)
