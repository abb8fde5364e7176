"""Flush streamed output to the writer within 250 ms, batching sessions.

One task serves all sessions. With a thousand busy sessions, a task, a timer and a writer request
per session would cost more than the output itself.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Final

import trio
from trio_util import RepeatedEvent

from actors import Ref
from supervisor.core.errors import SupervisorError
from supervisor.core.facts import NumberedFact
from supervisor.store.pending import PendingWrite, WriteThrottle
from supervisor.store.port import Write
from supervisor.store.writer_messages import CommitAll

from .log import PART_SECONDS, Log

# Sessions per batch; after each batch other tasks run.
MAX_BATCH_SESSIONS: Final = 50
# Size of a batch, and of the part of one session in it. An acknowledgement waits for at most one
# batch, and sessions take turns.
MAX_BATCH_BYTES: Final = 32 * 1024
MAX_SESSION_BYTES: Final = 8 * 1024
# Output due within this time is flushed with output due now: a commit costs about the same for
# both, and other commits wait behind half as many flushes.
EARLY_SECONDS: Final = 0.05


class OutputFlusher:
    """Queue of session logs that have output for the store."""

    def __init__(
        self,
        writer: Ref,
        throttle: WriteThrottle,
        loop_time: Callable[[], float] = trio.current_time,
    ) -> None:
        self._writer = writer
        self._throttle = throttle
        self._loop_time = loop_time
        # Logs with an open part and the deadline for its record. In order of the deadline, because
        # all have the same delay.
        self._scheduled: deque[tuple[float, Log]] = deque()
        # Logs with complete records.
        self._queued: deque[Log] = deque()
        self._wake = RepeatedEvent()

    def request_flush(self, log: Log) -> None:
        """Flush the log's output: complete records with the next batch, open text in 250 ms."""
        if log.has_unsent:
            self.flush_soon(log)
        elif not log.flush_scheduled:
            self.schedule_flush(log)

    def schedule_flush(self, log: Log) -> None:
        """Flush the log's open text in 250 ms, unless it is flushed earlier."""
        log.flush_scheduled = True
        self._scheduled.append((self._loop_time() + PART_SECONDS, log))
        if len(self._scheduled) == 1:
            self._wake.set()

    def flush_soon(self, log: Log) -> None:
        """Flush the log's complete records with the next batch."""
        if not log.flush_queued:
            log.flush_queued = True
            self._queued.append(log)
            self._wake.set()

    async def run(self) -> None:
        """Write batches until cancelled."""
        while True:
            await self._wait()
            # Otherwise an acknowledgement that is decided now would wait for this batch too.
            await self._throttle.yield_to_callers()
            # A task that is woken and cancelled at the same time must not take records that it can
            # no longer send. Nothing is awaited from here until the writer's mailbox has them.
            await trio.lowlevel.checkpoint_if_cancelled()
            await self._write(self._collect())

    async def _wait(self) -> None:
        if self._queued:
            await trio.lowlevel.checkpoint()
            return
        due = self._scheduled[0][0] if self._scheduled else math.inf
        # Nothing is awaited between the checks above and the wait, so no wake-up is missed.
        with trio.move_on_at(due):
            await self._wake.wait()

    def _collect(self) -> list[tuple[Log, tuple[NumberedFact, ...]]]:
        """Return the records of the next batch, and remove them from their logs."""
        found: list[tuple[Log, tuple[NumberedFact, ...]]] = []
        until = trio.current_time() + EARLY_SECONDS
        room = MAX_BATCH_BYTES
        while room > 0 and len(found) < MAX_BATCH_SESSIONS:
            if self._queued:
                log = self._queued.popleft()
                log.flush_queued = False
            elif self._scheduled and self._scheduled[0][0] <= until:
                log = self._scheduled.popleft()[1]
                log.flush_scheduled = False
                log.close_part()
                if not log.has_unsent:
                    continue  # a step has sent it: most turns end within 250 ms of their text
            else:
                break
            records, size = log.take_some_unsent(MAX_SESSION_BYTES)
            room -= size
            if records:
                found.append((log, records))
            if log.has_unsent:
                self.flush_soon(log)  # after all others
        return found

    async def _write(self, found: list[tuple[Log, tuple[NumberedFact, ...]]]) -> None:
        if not found:
            return
        writes = tuple(Write(records[0].session_id, log.epoch, records) for log, records in found)
        try:
            answers = await self._writer.ask(CommitAll(writes), timeout_seconds=math.inf)
        except Exception as error:  # noqa: BLE001 - reported to each session
            for log, _ in found:
                log.fail(error)
            return
        for (log, records), answer in zip(found, answers, strict=True):
            if isinstance(answer, PendingWrite):
                answer.on_settled(partial(_written, log, records[-1].seq))
            else:
                _written(log, records[-1].seq, answer)


def _written(log: Log, last: int, refusal: SupervisorError | None) -> None:
    if refusal is not None:
        log.fail(refusal)
    else:
        log.mark_committed(last)
