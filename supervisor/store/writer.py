"""The persistence actor: the only one who writes, many writes in one commit.

Rule 1: whoever asks is answered after the commit, never before.
Rule 2: what is asked is written in the order of asking; a claim has its place in that order, so
        the old incarnation's writes are before it, or refused.
"""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from itertools import islice
from typing import Any, Final, TypeVar

import attrs

from actors import Actor, Ask, Later, MailboxFull
from supervisor.core.errors import SupervisorError
from supervisor.core.ids import SessionId

from .port import Process, Store, Stored, Write

T = TypeVar("T")

MAX_BATCH: Final = 1_000


@attrs.frozen
class Commit(Ask[SupervisorError | None]):
    """Make this durable; the answer is None, or why it was refused."""

    write: Write


@attrs.frozen
class CommitAll(Ask[list[SupervisorError | None]]):
    """Make these durable, of many sessions; an answer for each."""

    writes: tuple[Write, ...]


@attrs.frozen
class Claim(Ask[Stored | None]):
    """Make the session the asker's own, and say what is there."""

    session_id: SessionId


@attrs.frozen
class Delete(Ask[None]):
    """Leave nothing of the session."""

    session_id: SessionId


@attrs.frozen
class NoteProcess(Ask[None]):
    """Remember a process that was started, before it is used."""

    process: Process


@attrs.frozen
class ForgetProcess(Ask[None]):
    """The process is dead, and was seen so."""

    process: Process


class _Flush:
    """Told to oneself: everything that was in the mailbox before is in the batch by now."""


_FLUSH: Final = _Flush()


class Writer(Actor):
    """One for each store, started before and stopped after everyone who writes."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._batch: list[Write] = []
        # Who is to be told what became of them: so many writes each, in order; None for one alone.
        self._askers: list[tuple[Later[Any], int | None]] = []
        # Who wants which session. Claims are made after the writes that were asked before them, and
        # as many as there are at once: thousands of sessions may wake together.
        self._claims: list[tuple[Later[Stored | None], SessionId]] = []
        # Whether a _FLUSH is in the mailbox, behind everything that is in the batch. One that comes
        # when the batch has gone already finds nothing, or the beginning of the next.
        self._flush_is_due = False

    async def receive(self, message: Any) -> Any:  # noqa: ANN401 - an actor's mailbox
        if type(message) is Commit:
            return await self._answer_later((message.write,), None)
        if type(message) is CommitAll:
            return await self._answer_later(message.writes, len(message.writes))
        if type(message) is Claim:
            claimed: Later[Stored | None] = Later()
            self._claims.append((claimed, message.session_id))
            await self._flush_in_time()
            return claimed
        return await self._do(message)

    async def _do(self, message: Any) -> Any:  # noqa: ANN401 - see `receive`
        """What is done on its own, after all that was asked before it."""
        await self._flush()
        match message:
            case Delete(session_id):
                return await _or_failed(self._store.delete(session_id))
            case NoteProcess(process):
                return await _or_failed(self._store.note_process(process))
            case ForgetProcess(process):
                return await _or_failed(self._store.forget_process(process))
            case _:
                return None

    async def _answer_later(self, writes: Sequence[Write], count: int | None) -> Later[Any]:
        if self._claims:
            claimed = {session_id for _, session_id in self._claims}
            if any(write.session_id in claimed for write in writes):
                await self._flush()  # whoever writes after a claim is not who has claimed
        later: Later[Any] = Later()
        self._batch += writes
        self._askers.append((later, count))
        await self._flush_in_time()
        return later

    async def _flush_in_time(self) -> None:
        if len(self._batch) + len(self._claims) >= MAX_BATCH:
            await self._flush()
        elif not self._flush_is_due:
            self._flush_soon()

    async def on_stop(self, _: object) -> None:
        """Whatever was taken in is written, however we end."""
        await self._flush()

    def _flush_soon(self) -> None:
        try:
            self.ref.tell(_FLUSH)
        except MailboxFull:
            return  # so there is another message, and with it another chance
        self._flush_is_due = True

    async def _flush(self) -> None:
        batch, self._batch = self._batch, []
        askers, self._askers = self._askers, []
        self._flush_is_due = False
        if batch:
            answers = iter(await self._store.commit(batch))
            for later, count in askers:
                later.answer(next(answers) if count is None else list(islice(answers, count)))
        if self._claims:
            await self._claim()

    async def _claim(self) -> None:
        claims, self._claims = self._claims, []
        try:
            found = await self._store.claim([session_id for _, session_id in claims])
        except Exception as error:  # noqa: BLE001 - raised in those who asked
            for later, _ in claims:
                later.fail(error)
            return
        for (later, _), stored in zip(claims, found, strict=True):
            later.answer(stored)


async def _or_failed(work: Awaitable[T]) -> T | Later[T]:
    """What it gives, or its failure for whoever asked: one session's trouble is nobody else's."""
    try:
        return await work
    except Exception as error:  # noqa: BLE001 - raised in the asker
        failed: Later[T] = Later()
        failed.fail(error)
        return failed
