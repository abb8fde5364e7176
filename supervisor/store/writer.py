"""The persistence actor: the only component that writes; it groups many writes into one commit.

Rule 1: a request is answered after the commit, never before.
Rule 2: writes are committed in the order of the requests. A claim has its place in that order, so
        the writes of the old incarnation are committed before it, or refused.
Rule 3: while the store is degraded no write is lost and no caller blocks: a write is answered with
        `PendingWrite` and retried in order until it is written, or withdrawn by its caller, which
        is possible while it is certain that it was not written.
"""

from __future__ import annotations

import contextlib
import logging
import math
from collections.abc import Awaitable, Sequence
from functools import partial
from itertools import islice
from typing import Any, Final, TypeAlias, TypeVar

import trio

from actors import Actor, ActorStopped, Crashed, Exit, Later, MailboxFull, Ref
from supervisor.core.errors import StoreDegraded, SupervisorError

from .chunks import ChunkedInsert, ChunkQueue
from .pending import PendingWrite, StoreHealth, unknown_outcome
from .pending_claims import PendingClaims
from .port import Store, Stored, Write
from .writer_messages import (
    AwaitPurge,
    Claim,
    ClaimAll,
    Commit,
    CommitAll,
    Delete,
    Flush,
    ForgetProcess,
    InsertChunked,
    NoteProcess,
    OptimizeIndex,
    QueuedWrite,
    Retry,
    WriteResult,
)

T = TypeVar("T")

# The receiver of an answer for its number of writes; None for one write.
_Waiter: TypeAlias = tuple["Later[Any] | QueuedWrite", int | None]

logger = logging.getLogger("supervisor")

MAX_BATCH: Final = 1_000
# While the store is degraded: the first and the longest pause between two retries.
FIRST_RETRY_SECONDS: Final = 0.1
MAX_RETRY_SECONDS: Final = 2.0


class _Flush:
    """Sent to self: every message that was in the mailbox before is in the batch now."""


class _NextChunk:
    """Sent to self: the messages that waited were handled, so the next chunk may run."""


_FLUSH: Final = _Flush()

_NEXT_CHUNK: Final = _NextChunk()


class Writer(Actor):
    """The writer of one store: started before all actors that write and stopped after them."""

    def __init__(self, store: Store, health: StoreHealth | None = None) -> None:
        self._store = store
        self._health = health or StoreHealth()
        self._batch: list[Write] = []
        # Answers owed for the batch, in order, each with its number of writes; None for one write.
        self._waiters: list[_Waiter] = []
        # Those of the batch that is being committed.
        self._waiters_in_commit: list[_Waiter] = []
        # Claims are made after the writes requested before them, and all in one call: thousands
        # of sessions may start together.
        self._claims: list[tuple[Later[Stored | None], Claim]] = []
        # True while a _FLUSH is in the mailbox, behind everything in the batch. If the batch was
        # flushed earlier, it finds an empty batch or the start of the next one.
        self._flush_scheduled = False
        # Includes the pending writes of a previous incarnation that crashed.
        self._backlog = self._health.backlog
        self._pending = self._backlog.writes
        self._pending_claims = PendingClaims(store, self._health)
        self._chunks = ChunkQueue(store)
        # True while a _NEXT_CHUNK is in the mailbox.
        self._chunk_scheduled = False

    async def on_start(self) -> None:
        """Continue the chunked work that an earlier writer left unfinished."""
        await self._chunks.load_unfinished()
        self._schedule_chunk()

    async def receive(self, message: Any) -> Any:  # noqa: ANN401 - an actor's mailbox
        if isinstance(message, QueuedWrite):
            if self._claims or self._pending or len(self._batch) >= MAX_BATCH - 1:
                await self._add_queued(message)
                return None
            # The usual case, without an await: there is one for each decision of each session.
            self._batch.append(message.write)
            self._add_waiter(message, None)
            return None
        if type(message) is Commit:
            return await self._answer_later((message.write,), None)
        if type(message) is CommitAll:
            return await self._answer_later(message.writes, len(message.writes))
        if type(message) is Claim:
            claimed: Later[Stored | None] = Later()
            self._claims.append((claimed, message))
            await self._flush_if_full()
            return claimed
        return await self._handle_alone(message)

    async def _handle_alone(self, message: Any) -> Any:  # noqa: ANN401 - see `receive`
        """Handle a message that is not batched, after all requests before it."""
        await self._flush()
        if message is _NEXT_CHUNK:
            await self._run_chunk()
        elif type(message) is OptimizeIndex:
            self._chunks.schedule_optimize()
            self._schedule_chunk()
        elif type(message) is Retry:
            return await self._retry_pending()
        elif message is not _FLUSH:
            return (
                self._refuse_degraded()
                if self._pending
                else await self._result_or_failure(self._dispatch(message))
            )
        return None

    async def _dispatch(self, message: Any) -> Any:  # noqa: ANN401 - see `receive`
        match message:
            case ClaimAll(session_ids):
                return await self._store.claim(session_ids)
            case InsertChunked(write):
                return self._in_chunks(self._chunks.insert(write))
            case Delete(session_id):
                await self._store.delete(session_id)
                return self._in_chunks(self._chunks.purge())
            case AwaitPurge():
                return self._in_chunks(self._chunks.purge())
            case NoteProcess(process):
                await self._store.record_process(process)
            case ForgetProcess(process):
                await self._store.forget_process(process)
            case Flush():
                await self._store.check_file()
        return None

    async def _add_queued(self, message: QueuedWrite) -> None:
        try:
            await self._flush_claims_of((message.write,))
        except BaseException:
            message.lost(ActorStopped(self.ref.name, was_in_hand=True))
            raise
        if self._pending:
            [pending] = self._add_pending((message.write,))
            message.written(pending)
            return
        self._batch.append(message.write)
        self._add_waiter(message, None)
        await self._flush_if_full()

    async def _answer_later(self, writes: Sequence[Write], count: int | None) -> Any:  # noqa: ANN401
        await self._flush_claims_of(writes)
        if self._pending:
            pending = self._add_pending(writes)
            return pending[0] if count is None else pending
        self._batch += writes
        later: Later[Any] = Later()
        self._add_waiter(later, count)
        await self._flush_if_full()
        return later

    async def _flush_claims_of(self, writes: Sequence[Write]) -> None:
        """Flush if a session of the writes is being claimed.

        A write after a claim is not of the claiming incarnation.
        """
        if self._claims:
            claimed = {claim.session_id for _, claim in self._claims}
            if any(write.session_id in claimed for write in writes):
                await self._flush()

    def _add_waiter(self, waiter: Later[Any] | QueuedWrite, count: int | None) -> None:
        """Add the receiver of the answer for the last `count` writes of the batch."""
        self._waiters.append((waiter, count))
        if not self._flush_scheduled:
            self._schedule_flush()

    async def _flush_if_full(self) -> None:
        if len(self._batch) + len(self._claims) >= MAX_BATCH:
            await self._flush()
        elif not self._flush_scheduled:
            self._schedule_flush()

    async def on_stop(self, reason: Exit) -> None:
        """Write everything that was accepted, whatever the exit reason.

        After a crash the pending writes are left to the next incarnation, so that stops and
        interrupts that were already answered are not lost.
        """
        try:
            await self._flush()
            await self._retry_pending()
        finally:
            # After a failed commit, and after a crash here. Asks are failed by the actor's runtime.
            for waiter, _ in (*self._waiters_in_commit, *self._waiters):
                if isinstance(waiter, QueuedWrite):
                    waiter.lost(ActorStopped(self.ref.name, was_in_hand=True))
            if not (isinstance(reason, Crashed) and self._backlog.may_retry_after_crash()):
                self._backlog.abandon()

    def _schedule_flush(self) -> None:
        try:
            self.ref.tell(_FLUSH)
        except MailboxFull:
            return  # there is another message, and it schedules the flush
        self._flush_scheduled = True

    async def _flush(self) -> None:
        batch, self._batch = self._batch, []
        waiters, self._waiters = self._waiters, []
        self._flush_scheduled = False
        if batch:
            self._waiters_in_commit = waiters
            answers = iter(await self._commit(batch))
            self._waiters_in_commit = []
            for waiter, count in waiters:
                if isinstance(waiter, QueuedWrite):
                    waiter.written(next(answers))
                else:
                    waiter.answer(next(answers) if count is None else list(islice(answers, count)))
        if self._claims:
            await self._claim()
        if self._chunks.has_work:
            self._schedule_chunk()

    async def _commit(self, batch: Sequence[Write]) -> Sequence[WriteResult]:
        try:
            if any(write.deletes for write in batch):
                self._chunks.schedule_purge()
            return await self._commit_to_store(batch)
        except StoreDegraded as error:
            self._health.degrade(error)
            return self._add_pending(batch, has_unknown_outcome=not error.is_surely_unwritten)

    async def _commit_to_store(self, writes: Sequence[Write]) -> Sequence[SupervisorError | None]:
        started = trio.current_time()
        try:
            if self._backlog.claimed_epochs:
                await self._pending_claims.write()
            return await self._store.commit(writes)
        finally:
            self._health.committed(trio.current_time() - started, len(writes))

    async def _claim(self) -> None:
        claims, self._claims = self._claims, []
        try:
            self._health.refuse_if_degraded()
            await self._pending_claims.write()
            found = await self._store.claim([claim.session_id for _, claim in claims])
        except Exception as error:  # noqa: BLE001 - raised in the callers
            if isinstance(error, StoreDegraded):
                self._health.degrade(error)
            for later, claim in claims:
                await self._answer_unwritten_claim(later, claim, error)
            return
        for (later, _), stored in zip(claims, found, strict=True):
            later.answer(stored)

    async def _answer_unwritten_claim(
        self, later: Later[Stored | None], claim: Claim, error: Exception
    ) -> None:
        if not (claim.in_memory and isinstance(error, StoreDegraded)):
            later.fail(error)
            return
        try:
            later.answer(await self._pending_claims.add(claim.session_id, error))
        except Exception as refusal:  # noqa: BLE001 - raised in the caller
            later.fail(refusal)

    async def _result_or_failure(self, work: Awaitable[T]) -> T | Later[T]:
        """Await the work; pass its exception to the caller, so that the writer goes on."""
        try:
            return await work
        except Exception as error:  # noqa: BLE001 - raised in the caller
            if isinstance(error, StoreDegraded):
                self._health.degrade(error)
            failed: Later[T] = Later()
            failed.fail(error)
            return failed

    # Chunks ---------------------------------------------------------------------------------

    def _in_chunks(self, later: Later[T]) -> Later[T]:
        self._schedule_chunk()
        return later

    def _schedule_chunk(self) -> None:
        """Run a chunk after all messages that wait now were handled."""
        if self._chunk_scheduled or not self._chunks.has_work:
            return
        # Mailbox full: the next flush schedules it. Stopped: the next writer continues.
        with contextlib.suppress(MailboxFull, ActorStopped):
            self.ref.tell(_NEXT_CHUNK)
            self._chunk_scheduled = True

    async def _run_chunk(self) -> None:
        self._chunk_scheduled = False
        if self._health.is_degraded:
            return  # `_retry_pending` schedules it again when the store has recovered
        try:
            insert = await self._chunks.run_one()
        except StoreDegraded as error:
            self._health.degrade(error)
            return
        if insert is not None:
            [answer] = await self._commit([insert.write])
            if isinstance(answer, PendingWrite):
                answer.on_settled(partial(self._on_chunked_insert_committed, insert))
            else:
                self._on_chunked_insert_committed(insert, answer)
            insert.later.answer(answer)
        self._schedule_chunk()

    def _on_chunked_insert_committed(
        self, insert: ChunkedInsert, refusal: SupervisorError | None
    ) -> None:
        if refusal is not None:
            self._chunks.discard(insert)
            self._schedule_chunk()

    # Degraded -------------------------------------------------------------------------------

    def _add_pending(
        self, writes: Sequence[Write], *, has_unknown_outcome: bool = False
    ) -> list[PendingWrite]:
        pending = [PendingWrite(has_unknown_outcome=has_unknown_outcome) for _ in writes]
        self._pending += zip(writes, pending, strict=True)
        return pending

    def _refuse_degraded(self) -> Later[Any]:
        failed: Later[Any] = Later()
        try:
            self._health.refuse_if_degraded()
        except StoreDegraded as error:
            failed.fail(error)
        return failed

    async def _retry_pending(self) -> bool:
        """Write the pending writes in order and settle each; return True if the store can write."""
        try:
            await self._pending_claims.write()
            while self._backlog.drop_withdrawn():
                batch = self._pending[:MAX_BATCH]
                with unknown_outcome([pending for _, pending in batch]):
                    answers = await self._commit_to_store([write for write, _ in batch])
                self._backlog.crashes = 0
                del self._pending[: len(batch)]
                for (_, pending), answer in zip(batch, answers, strict=True):
                    pending.settle(answer)
            if self._health.is_degraded:
                await self._store.probe()
                self._health.recover()
            self._schedule_chunk()
        except StoreDegraded as error:
            self._health.degrade(error)
            return False
        return True


async def retry_until_healthy(writer: Ref, health: StoreHealth) -> None:
    """Retry a degraded store until it can write."""
    if health.is_retrying:
        return  # one retry loop is enough
    health.is_retrying = True
    pause = FIRST_RETRY_SECONDS
    while health.is_degraded and not health.is_read_only:
        await trio.sleep(pause)
        pause = min(2.0 * pause, MAX_RETRY_SECONDS)
        # One at a time: a retry may take long. The writer updates `health` in every case.
        with contextlib.suppress(Exception):
            await writer.ask(Retry(), timeout_seconds=math.inf)
    health.is_retrying = False
