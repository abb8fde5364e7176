"""Where an attack plays: a real supervisor over a store that is judged, and verbs that look twice.

Rule 1: every refusal of a known kind is fine; every other error ends the run.
Rule 2: whoever calls may give up at any moment, and then nothing is known of what was asked.
"""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Awaitable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from itertools import count
from typing import Any, TypeVar

import attrs
import pytest
import trio

import supervisor
import supervisor.runtime
from actors.testing import settle
from supervisor import (
    Delta,
    Gap,
    InterruptReport,
    Record,
    Session,
    SessionNotActive,
    Settings,
    Supervisor,
    SupervisorError,
)
from supervisor.core.errors import NotStorable
from supervisor.core.ids import SessionId
from supervisor.sessions.shell import feed
from supervisor.store.codec import encode
from supervisor.store.memory import MemoryStore
from supervisor.store.port import Stored, Write
from tests.simulation.stage import wander

from .cast import Cast
from .referee import Referee

T = TypeVar("T")

# Says that the outcome is unknown, and so is no refusal.
UNKNOWN = "did not answer"


class JudgedStore(MemoryStore):
    """A store that tells the referee of every commit, and fails as often as it is told to."""

    def __init__(self, referee: Referee) -> None:
        super().__init__()
        self._referee = referee
        # How many of the next commits shall be refused, or fail before or after they are kept.
        self.troubles: list[str] = []

    async def commit(self, writes: Sequence[Write]) -> list[SupervisorError | None]:
        trouble = self.troubles.pop() if self.troubles else None
        for _ in range(random.randrange(3)):
            await trio.lowlevel.checkpoint()
        if trouble == "fails":
            raise OSError("the disk is gone")
        if trouble == "refuses":
            return [NotStorable("refused on purpose", hint="try again") for _ in writes]
        answers = await super().commit(writes)
        for _ in range(random.randrange(3)):
            await trio.lowlevel.checkpoint()
        if trouble == "fails late":
            raise OSError("the disk is gone, after all was kept")
        return answers

    def _commit(self, write: Write) -> SupervisorError | None:
        refusal = super()._commit(write)
        if refusal is None:
            self._referee.committed(write)
        return refusal

    async def claim(self, session_ids: Sequence[SessionId]) -> list[Stored | None]:
        claimed = await super().claim(session_ids)
        for stored in claimed:
            if stored is not None:
                self._referee.claimed(stored.row.id, stored.epoch)
        return claimed

    def _remove(self, session_id: SessionId) -> None:
        super()._remove(session_id)
        self._referee.deleted(session_id)


@attrs.define(eq=False)
class Stage:
    """What an attack has in hand."""

    referee: Referee
    store: JudgedStore
    cast: Cast
    sup: Supervisor
    numbers: Iterator[int] = attrs.Factory(count)

    def text(self, *deeds: str) -> str:
        """An input that nobody else has sent, and what the agent does when it gets it."""
        return f"{next(self.numbers)} {' '.join(deeds)}".strip()

    # Verbs ----------------------------------------------------------------------------------

    async def try_to(self, do: Awaitable[T]) -> T | SupervisorError:
        """Whatever comes of it, if it is an answer or a refusal."""
        try:
            return await do
        except SupervisorError as error:
            self.referee.check(bool(error.code and error.hint), f"{error!r} has no code or hint")
            return error

    async def send(self, session: Session, text: str, **how: Any) -> None:  # noqa: ANN401
        answer = await self.try_to(session.send(text, **how))
        if isinstance(answer, SupervisorError):
            self._refused(answer, text, how)
        else:
            self.referee.accepted(answer, text, how.get("idempotency_key"))

    async def steer(self, session: Session, text: str, **how: Any) -> None:  # noqa: ANN401
        answer = await self.try_to(session.steer(text, **how))
        if isinstance(answer, SupervisorError):
            self._refused(answer, text, how)
        else:
            self.referee.accepted(answer, text, how.get("idempotency_key"))

    async def prompt(self, session: Session, text: str, **how: Any) -> None:  # noqa: ANN401
        answer = await self.try_to(session.prompt(text, **how))
        if isinstance(answer, SupervisorError) or session.id in self.referee.gone:
            return
        book = self.referee.book(session.id)
        over = book.over.get(answer.turn_id)
        self.referee.check(over is not None, f"{text!r} has a result before its turn is over")
        self.referee.check(over == answer.outcome, f"the result of {text!r} says another outcome")

    def _refused(self, error: SupervisorError, text: str, how: dict[str, Any]) -> None:
        if UNKNOWN not in str(error) and how.get("idempotency_key") is None:
            self.referee.was_refused(text)

    async def interrupt(
        self,
        session: Session,
        scope: Any = "turn",  # noqa: ANN401
        **how: Any,  # noqa: ANN401
    ) -> None:
        """Interrupt something; the reason is its own, so that the records say whom it hit."""
        reason = f"reason {next(self.numbers)}"
        book = self.referee.book(session.id)
        if not isinstance(scope, str):
            self.referee.meant[reason] = scope.id
        answer = await self.try_to(session.interrupt(scope, reason=reason, **how))
        if not isinstance(answer, InterruptReport):
            return
        hit = [target for target, reasons in book.interrupted.items() if reason in reasons]
        if answer.matched == 0:
            self.referee.check(not hit, f"an interrupt says that it hit nothing, and hit {hit}")
        elif answer.stopped and not isinstance(scope, str):
            still = scope.id == book.turn or scope.id in book.calls
            self.referee.check(not still, f"{scope.id} was reported stopped, and is there")

    async def stop(self, session: Session, **how: Any) -> None:  # noqa: ANN401
        """Stop, and see that it has been stopped since it was asked."""
        book = self.referee.book(session.id)
        before = len(book.records)
        was_stopped = book.is_stopped
        answer = await self.try_to(session.stop(**how))
        if not isinstance(answer, SupervisorError):
            since = {record.kind for record in book.records[before:]}
            self.referee.check(
                was_stopped or "session_stopped" in since, f"{session.id} did not stop and says so"
            )

    async def look(self, session: Session) -> None:
        """What is shown is of some commit, and not of the future."""
        info = await self.try_to(session.info())
        if isinstance(info, SupervisorError):
            return
        book = self.referee.book(session.id)
        self.referee.check(
            info.last_seq <= len(book.records) and info.turns <= len(book.begun),
            "what is shown has not happened yet",
        )

    async def look_when_quiet(self) -> None:
        """When nobody moves, what is shown is what is recorded, no more and no less."""
        await settle()
        books = [*self.referee.books.values()]
        asked = {request for book in books for request in book.asked}
        quiet = {book.id: len(book.records) for book in books}
        waiting = {request.id for request in await self.sup.permissions()}
        if quiet == {book.id: len(book.records) for book in self.referee.books.values()}:
            self.referee.check(waiting == asked, f"{waiting} are shown, {asked} wait")
        for listed in (await self.sup.list()).items:
            info = await self.sup.session(listed.id).info()
            book = self.referee.book(listed.id)
            if len(book.records) != quiet[listed.id]:
                continue  # somebody moved after all
            self.referee.check(info == listed, f"{info.id} is shown and listed differently")
            self.referee.check(
                (info.last_seq, info.turns, info.queued, info.turn_id, info.generation)
                == (
                    len(book.records),
                    len(book.begun),
                    len(book.waiting),
                    book.turn,
                    book.generation,
                ),
                f"{info.id} is not shown as it is recorded",
            )


@asynccontextmanager
async def open_stage(
    *,
    settings: Settings | None = None,
    outside: trio.Nursery | None = None,
    cast: Cast | None = None,
) -> AsyncIterator[Stage]:
    """A supervisor, held to its word until it has left; then nothing of it may be left.

    In `outside` are those who go on when it has. A cast brings its own referee.
    """
    cast = cast or Cast(Referee())
    referee = cast.referee
    store = JudgedStore(referee)
    tasks = trio.lowlevel.current_statistics().tasks_living
    with _judged(store):
        async with supervisor.open(agents=cast.agents, settings=settings) as sup:
            yield Stage(referee, store, cast, sup)
    tasks += _tasks_in(outside) if outside is not None else 0
    left = trio.lowlevel.current_statistics().tasks_living - tasks
    referee.check(left == 0, f"{left} tasks are left after leaving")
    referee.close()


def _tasks_in(nursery: trio.Nursery) -> int:
    """All tasks in it, and in the nurseries that these have opened."""
    tasks = nursery.child_tasks
    return len(tasks) + sum(_tasks_in(inner) for task in tasks for inner in task.child_nurseries)


@contextmanager
def _judged(store: JudgedStore) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(supervisor.runtime, "MemoryStore", lambda: store)
        patch.setattr(feed, "MAX_UNREAD", 8)  # so that somebody is too slow in a short run
        yield


async def watch(stage: Stage, session: Session, *, items: int, after: int = 0) -> int:
    """Read so many items, now and then slowly; gives the number of the last record seen."""
    eye = Eye(stage.referee, session.id, last=after)
    # Whoever comes when the supervisor has left is told so, and has seen nothing.
    with suppress(SessionNotActive):
        async with session.watch(after=after) as watcher:
            async for item in watcher:
                eye.see(item)
                items -= 1
                if not items:
                    break
                if random.random() < 0.2:
                    await wander()
    return eye.last


@attrs.define
class Eye:
    """One who watches: each record once, in order, after its commit, and as it was committed."""

    referee: Referee
    session_id: str
    last: int
    # Text that is on its way, by its part; None once some of it was missed.
    parts: dict[str, str | None] = attrs.Factory(dict)
    closed: set[str] = attrs.Factory(set)

    def see(self, item: Record | Delta | Gap) -> None:
        match item:
            case Record():
                self._see_record(item)
            case Delta():
                self._see_delta(item)
            case Gap():
                self.referee.check(item.first == self.last + 1, f"{item} seen after {self.last}")
                self.last = item.last

    def _see_record(self, record: Record) -> None:
        self.referee.check(record.seq == self.last + 1, f"{record.seq} was seen after {self.last}")
        self.last = record.seq
        records = self.referee.book(self.session_id).records
        durable = record.seq <= len(records)
        self.referee.check(durable, f"{record.seq} was seen before its commit")
        if durable:
            # As bytes: what comes from the store has lists where there were tuples.
            same = encode(records[record.seq - 1]) == encode(record)
            self.referee.check(same, f"{record.seq} was seen as something else")
        part = record.body.get("part")
        if part is not None and record.kind != "user_text":
            self.closed.add(part)
            shown = self.parts.pop(part, None) or ""
            whole = record.body["text"]
            self.referee.check(whole.startswith(shown), f"{shown!r} was shown, {whole!r} is so")

    def _see_delta(self, delta: Delta) -> None:
        self.referee.check(delta.part not in self.closed, f"{delta.part} goes on after its record")
        shown = self.parts.get(delta.part, "" if delta.offset == 0 else None)
        if shown is not None and delta.offset == len(shown):
            self.parts[delta.part] = shown + delta.text
        else:
            self.parts[delta.part] = None
