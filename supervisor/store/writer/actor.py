"""The persistence actor: the only one who writes, many writes in one commit.

Rule 1: whoever asks is answered after the commit, never before.
Rule 2: what is asked is written in the order of asking; a claim has its place in that order, so
        the old incarnation's writes are before it, or refused.
Rule 3: while the store is degraded nothing is lost and nobody is kept waiting in the dark: writes
        are answered with `Held`, and tried again in their order until they are written, or taken
        back by who asked for them, which is possible while it is certain that they are not.
"""

from __future__ import annotations

import contextlib
import logging
import math
from collections.abc import Awaitable, Sequence
from functools import partial
from itertools import islice
from typing import Any, Final, TypeAlias, TypeVar

import attrs
import trio

from actors import Actor, ActorStopped, Ask, Crashed, Exit, Later, MailboxFull, Ref
from supervisor.core.errors import StoreDegraded, SupervisorError
from supervisor.core.ids import SessionId
from supervisor.store.port import Process, Store, Stored, Write

from .health import Health
from .held import Held, in_doubt
from .pieces import Arrival, Pieces

T = TypeVar("T")
logger = logging.getLogger("supervisor")

MAX_BATCH: Final = 1_000
# While the store is degraded: how soon it is tried again at first, and how late at last.
FIRST_RETRY_SECONDS: Final = 0.1
LAST_RETRY_SECONDS: Final = 2.0


# None when it is written; why it was refused; or that it waits for the store to be well.
Written: TypeAlias = SupervisorError | Held | None


@attrs.frozen
class Commit(Ask[Written]):
    """Make this durable."""

    write: Write


@attrs.frozen
class CommitAll(Ask[list[Written]]):
    """Make these durable, of many sessions; an answer for each."""

    writes: tuple[Write, ...]


@attrs.frozen
class Bring(Ask[Written]):
    """Make a new session durable that is large: in pieces, and others are written in between.

    Nobody sees anything of it before it is whole.
    """

    write: Write


@attrs.frozen
class Claim(Ask[Stored | None]):
    """Make the session the asker's own, and say what is there."""

    session_id: SessionId


@attrs.frozen
class ClaimAll(Ask[list[Stored | None]]):
    """Make these sessions the asker's own."""

    session_ids: tuple[SessionId, ...]


@attrs.frozen
class Delete(Ask[None]):
    """Leave nothing of the session; answered when that is so, while others are written."""

    session_id: SessionId


@attrs.frozen
class Cleared(Ask[None]):
    """Answered when nothing is left of what was deleted before, by whatever write."""


class Tidy:
    """Leave nothing, not even a word, of what was deleted before."""


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


@attrs.frozen
class Retry(Ask[None]):
    """Look whether the store is well again; answered when that is known."""


class _NextPiece:
    """Told to oneself: whoever was waiting had a turn, so there may be another piece."""


_FLUSH: Final = _Flush()
_NEXT_PIECE: Final = _NextPiece()


class Writer(Actor):
    """One for each store, started before and stopped after everyone who writes."""

    def __init__(self, store: Store, health: Health | None = None) -> None:
        self._store = store
        self._health = health or Health()
        self._batch: list[Write] = []
        # Who is to be told what became of them: so many writes each, in order; None for one alone.
        self._askers: list[tuple[Later[Any], int | None]] = []
        # Who wants which session. Claims are made after the writes that were asked before them, and
        # as many as there are at once: thousands of sessions may wake together.
        self._claims: list[tuple[Later[Stored | None], SessionId]] = []
        # Whether a _FLUSH is in the mailbox, behind everything that is in the batch. One that comes
        # when the batch has gone already finds nothing, or the beginning of the next.
        self._flush_is_due = False
        # What was held by the one before us, if that has crashed, is ours now.
        self._backlog = self._health.backlog
        self._held = self._backlog.writes
        self._pieces = Pieces(store)
        # Whether a _NEXT_PIECE is in the mailbox.
        self._piece_is_due = False

    async def on_start(self) -> None:
        """Go on with what whoever wrote before us has not finished."""
        await self._pieces.look_for_leftovers()
        self._go_on_soon()

    async def receive(self, message: Any) -> Any:  # noqa: ANN401 - an actor's mailbox
        if type(message) is Commit:
            if self._claims or self._held or len(self._batch) >= MAX_BATCH - 1:
                return await self._answer_later((message.write,), None)
            # The usual case, without a wait: as many come as all sessions have decisions.
            self._batch.append(message.write)
            return self._owe(None)
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
        if message is _NEXT_PIECE:
            await self._do_a_piece()
        elif type(message) is Tidy:
            self._pieces.tidy()
            self._go_on_soon()
        elif type(message) is Retry:
            await self._try_again()
        elif message is not _FLUSH:
            return self._refused() if self._held else await self._or_failed(self._work(message))
        return None

    async def _work(self, message: Any) -> Any:  # noqa: ANN401 - see `receive`
        match message:
            case ClaimAll(session_ids):
                return await self._store.claim(session_ids)
            case Bring(write):
                return self._in_pieces(self._pieces.bring(write))
            case Delete(session_id):
                await self._store.delete(session_id)
                return self._in_pieces(self._pieces.when_cleared())
            case Cleared():
                return self._in_pieces(self._pieces.when_cleared())
            case NoteProcess(process):
                await self._store.note_process(process)
            case ForgetProcess(process):
                await self._store.forget_process(process)
        return None

    async def _answer_later(self, writes: Sequence[Write], count: int | None) -> Any:  # noqa: ANN401
        if self._claims:
            claimed = {session_id for _, session_id in self._claims}
            if any(write.session_id in claimed for write in writes):
                await self._flush()  # whoever writes after a claim is not who has claimed
        if self._held:
            held = self._hold(writes)
            return held[0] if count is None else held
        self._batch += writes
        later = self._owe(count)
        await self._flush_in_time()
        return later

    def _owe(self, count: int | None) -> Later[Any]:
        """An answer to whoever has brought the last so many writes of the batch."""
        later: Later[Any] = Later()
        self._askers.append((later, count))
        if not self._flush_is_due:
            self._flush_soon()
        return later

    async def _flush_in_time(self) -> None:
        if len(self._batch) + len(self._claims) >= MAX_BATCH:
            await self._flush()
        elif not self._flush_is_due:
            self._flush_soon()

    async def on_stop(self, reason: Exit) -> None:
        """Whatever was taken in is written, however we end.

        After a crash what is held is left to the next incarnation: brakes that were answered are
        not forgotten.
        """
        try:
            await self._flush()
            await self._try_again()
        finally:
            if not (isinstance(reason, Crashed) and self._backlog.survives_another()):
                self._backlog.give_up()

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
            answers = iter(await self._commit(batch))
            for later, count in askers:
                later.answer(next(answers) if count is None else list(islice(answers, count)))
        if self._claims:
            await self._claim()
        if self._pieces.are_left:
            self._go_on_soon()

    async def _commit(self, batch: Sequence[Write]) -> Sequence[Written]:
        try:
            if any(write.removes for write in batch):
                self._pieces.clear()
            return await self._store_all(batch)
        except StoreDegraded as trouble:
            self._health.degrade(trouble)
            return self._hold(batch, is_in_doubt=not trouble.is_certain)

    async def _store_all(self, writes: Sequence[Write]) -> Sequence[SupervisorError | None]:
        began = trio.current_time()
        try:
            return await self._store.commit(writes)
        finally:
            if self._health.on_commit is not None:
                self._health.on_commit(trio.current_time() - began, len(writes))

    async def _claim(self) -> None:
        claims, self._claims = self._claims, []
        try:
            self._health.refuse_if_degraded()
            found = await self._store.claim([session_id for _, session_id in claims])
        except Exception as error:  # noqa: BLE001 - raised in those who asked
            if isinstance(error, StoreDegraded):
                self._health.degrade(error)
            for later, _ in claims:
                later.fail(error)
            return
        for (later, _), stored in zip(claims, found, strict=True):
            later.answer(stored)

    async def _or_failed(self, work: Awaitable[T]) -> T | Later[T]:
        """What it gives, or its failure for whoever asked: one session's trouble is its own."""
        try:
            return await work
        except Exception as error:  # noqa: BLE001 - raised in the asker
            if isinstance(error, StoreDegraded):
                self._health.degrade(error)
            failed: Later[T] = Later()
            failed.fail(error)
            return failed

    # Pieces ---------------------------------------------------------------------------------

    def _in_pieces(self, later: Later[T]) -> Later[T]:
        self._go_on_soon()
        return later

    def _go_on_soon(self) -> None:
        """Have a piece done when all who wait by now had their turn."""
        if self._piece_is_due or not self._pieces.are_left:
            return
        # If it is full there is another flush, and another chance; if we end, the next one goes on.
        with contextlib.suppress(MailboxFull, ActorStopped):
            self.ref.tell(_NEXT_PIECE)
            self._piece_is_due = True

    async def _do_a_piece(self) -> None:
        self._piece_is_due = False
        if self._health.is_degraded:
            return  # it goes on when the store is well
        try:
            arrival = await self._pieces.do_one()
        except StoreDegraded as trouble:
            self._health.degrade(trouble)
            return
        if arrival is not None:
            [answer] = await self._commit([arrival.write])
            if isinstance(answer, Held):
                answer.then(partial(self._brought, arrival))
            else:
                self._brought(arrival, answer)
            arrival.later.answer(answer)
        self._go_on_soon()

    def _brought(self, arrival: Arrival, refusal: SupervisorError | None) -> None:
        if refusal is not None:
            self._pieces.refused(arrival)
            self._go_on_soon()

    # Degraded -------------------------------------------------------------------------------

    def _hold(self, writes: Sequence[Write], *, is_in_doubt: bool = False) -> list[Held]:
        held = [Held(is_in_doubt=is_in_doubt) for _ in writes]
        self._held += zip(writes, held, strict=True)
        return held

    def _refused(self) -> Later[Any]:
        failed: Later[Any] = Later()
        try:
            self._health.refuse_if_degraded()
        except StoreDegraded as trouble:
            failed.fail(trouble)
        return failed

    async def _try_again(self) -> None:
        """Write what is held, the first first; whoever is written is told."""
        try:
            while self._backlog.forget_withdrawn():
                some = self._held[:MAX_BATCH]
                with in_doubt([held for _, held in some]):
                    answers = await self._store_all([write for write, _ in some])
                self._backlog.crashes = 0
                del self._held[: len(some)]
                for (_, held), answer in zip(some, answers, strict=True):
                    held.settle(answer)
            if self._health.is_degraded:
                await self._store.probe()
                self._health.recover()
            self._go_on_soon()
        except StoreDegraded as trouble:
            self._health.degrade(trouble)


async def keep_trying(writer: Ref, health: Health) -> None:
    """Have a degraded store looked at until it is well."""
    if health.is_looked_after:
        return  # one is enough, however often it falls ill
    health.is_looked_after = True
    pause = FIRST_RETRY_SECONDS
    while health.is_degraded and not health.is_given_up:
        await trio.sleep(pause)
        pause = min(2.0 * pause, LAST_RETRY_SECONDS)
        # One at a time: a try may take long. Whatever comes of it, the writer says how it is.
        with contextlib.suppress(Exception):
            await writer.ask(Retry(), timeout_seconds=math.inf)
    health.is_looked_after = False
