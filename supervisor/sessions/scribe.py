"""The scribe: writes the output of all sessions, in time, and of many sessions in one go.

One task for all of them. A task, a timer and a question to the writer for each would cost a
thousand busy sessions more than all that their agents say.
"""

from __future__ import annotations

import contextlib
import math
from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Final

import trio

from actors import ActorStopped, MailboxFull, Ref
from supervisor.core.errors import SupervisorError
from supervisor.core.records import Record
from supervisor.store.port import Write
from supervisor.store.writer import CommitAll
from supervisor.store.writer.held import Held

from .shell.log import PART_SECONDS
from .shell.reports import NotWritten

if TYPE_CHECKING:
    from .shell.actor import SessionActor

# After so many sessions everybody else gets a turn.
MAX_SESSIONS: Final = 50
# Whoever is due so soon goes along with who is due now: a commit costs about the same for both, and
# whoever waits for an acknowledgement has half as many of them in the way.
EARLY_SECONDS: Final = 0.05


class Scribe:
    """Is told who has output, and sees that it is written."""

    def __init__(self, writer: Ref) -> None:
        self._writer = writer
        # When their text must be a record, the first first: all wait equally long.
        self._later: deque[tuple[float, SessionActor]] = deque()
        # Who has records that are complete.
        self._now: deque[SessionActor] = deque()
        self._wake: trio.Event | None = None

    def write_later(self, actor: SessionActor) -> None:
        """It has text; what is not written by then is written in 250 ms."""
        if not actor.log.is_noted:
            actor.log.is_noted = True
            self._later.append((trio.current_time() + PART_SECONDS, actor))
            if len(self._later) == 1:
                self._rouse()

    def write_now(self, actor: SessionActor) -> None:
        """It has records that nothing will be added to."""
        if not actor.log.is_hurried:
            actor.log.is_hurried = True
            self._now.append(actor)
            self._rouse()

    async def run(self) -> None:
        """Write what there is, for ever; runs until cancelled."""
        while True:
            await self._wait()
            # Whoever is roused and cancelled at once must not take what it cannot send any more:
            # from here to the writer's mailbox nothing waits.
            await trio.lowlevel.checkpoint_if_cancelled()
            await self._write(self._collect())

    async def _wait(self) -> None:
        if self._now:
            await trio.lowlevel.checkpoint()
            return
        due = self._later[0][0] if self._later else math.inf
        self._wake = trio.Event()
        with trio.move_on_at(due):
            await self._wake.wait()
        self._wake = None

    def _collect(self) -> list[tuple[SessionActor, tuple[Record, ...]]]:
        """Records that are to be written now, of some sessions."""
        found: list[tuple[SessionActor, tuple[Record, ...]]] = []
        until = trio.current_time() + EARLY_SECONDS
        while len(found) < MAX_SESSIONS:
            if self._now:
                actor = self._now.popleft()
                actor.log.is_hurried = False
            elif self._later and self._later[0][0] <= until:
                actor = self._later.popleft()[1]
                actor.log.is_noted = False
                actor.log.close_part()
            else:
                break
            records = actor.log.take_unsent()
            if records:
                found.append((actor, records))
        return found

    async def _write(self, found: list[tuple[SessionActor, tuple[Record, ...]]]) -> None:
        if not found:
            return
        writes = tuple(
            Write(records[0].session_id, actor.epoch, records) for actor, records in found
        )
        try:
            answers = await self._writer.ask(CommitAll(writes), timeout_seconds=math.inf)
        except Exception as error:  # noqa: BLE001 - it becomes the trouble of each of them
            for actor, _ in found:
                _tell(actor, error)
            return
        for (actor, records), answer in zip(found, answers, strict=True):
            if isinstance(answer, Held):
                answer.then(partial(_written, actor, records[-1].seq))
            else:
                _written(actor, records[-1].seq, answer)

    def _rouse(self) -> None:
        if self._wake is not None:
            self._wake.set()


def _written(actor: SessionActor, last: int, refusal: SupervisorError | None) -> None:
    if refusal is not None:
        _tell(actor, refusal)
    else:
        actor.log.committed(last)


def _tell(actor: SessionActor, error: Exception) -> None:
    with contextlib.suppress(ActorStopped, MailboxFull):  # its own next commit finds out too
        actor.ref.tell(NotWritten(actor, error), urgent=True)
