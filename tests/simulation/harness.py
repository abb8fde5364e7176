"""Harness for attacks on sessions: a real supervisor, an observed store, checked calls.

Rule 1: a refusal of a known kind is allowed; every other error ends the run.
Rule 2: a caller may be cancelled at any moment; then the outcome of its request is unknown.
"""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Awaitable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from itertools import count
from typing import Any, Final, TypeVar

import attrs
import pytest
import trio

import supervisor
import supervisor.runtime
from actors.testing import settle
from supervisor import (
    Delta,
    Gap,
    Info,
    InterruptReport,
    Record,
    Reset,
    Session,
    SessionNotActive,
    Settings,
    Supervisor,
    SupervisorError,
)
from supervisor.core.errors import NotStorable
from supervisor.core.ids import SessionId
from supervisor.sessions import feed
from supervisor.store.codec import encode
from supervisor.store.memory import MemoryStore
from supervisor.store.port import Stored, Write
from tests.simulation.timing import random_pause

from .oracle import Oracle
from .scripted_agents import ScriptedAgents

_OUTER_WAITS: Final = frozenset({"child", "process", "turn_slot", "child_slot"})

T = TypeVar("T")

# An error with this text leaves the outcome unknown, so it is not a refusal.
UNKNOWN = "did not answer"
# Faults of a store, chosen at random; None leaves the store alone or claims the session.
STORE_FAULTS = ("fails", "fails late", "refuses", "refuses", None, None, None)


class ObservedStore(MemoryStore):
    """A store that reports every commit to the oracle and fails on request."""

    def __init__(self, oracle: Oracle) -> None:
        super().__init__()
        self._referee = oracle
        # Faults of the next commits: `refuses`, `fails` (nothing stored), `fails late` (stored).
        self.faults: list[str] = []

    async def commit(self, writes: Sequence[Write]) -> list[SupervisorError | None]:
        fault = self.faults.pop() if self.faults else None
        for _ in range(random.randrange(3)):
            await trio.lowlevel.checkpoint()
        if fault == "fails":
            raise OSError("the disk failed")
        if fault == "refuses":
            return [NotStorable("refused on purpose", hint="try again") for _ in writes]
        answers = await super().commit(writes)
        for _ in range(random.randrange(3)):
            await trio.lowlevel.checkpoint()
        if fault == "fails late":
            raise OSError("the disk failed after the commit")
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
class Harness:
    """The supervisor of one run with its store, oracle and scripted agents."""

    oracle: Oracle
    store: ObservedStore
    scripted: ScriptedAgents
    sup: Supervisor
    numbers: Iterator[int] = attrs.Factory(count)

    def text(self, *actions: str) -> str:
        """Return a unique input text with the actions that the agent performs on it."""
        return f"{next(self.numbers)} {' '.join(actions)}".strip()

    # Checked calls ---------------------------------------------------------------------------

    async def attempt(self, do: Awaitable[T]) -> T | SupervisorError:
        """Await a request; return its answer or its refusal."""
        try:
            return await do
        except SupervisorError as error:
            self.oracle.check(bool(error.code and error.hint), f"{error!r} has no code or hint")
            return error

    async def send(self, session: Session, text: str, **how: Any) -> None:  # noqa: ANN401
        answer = await self.attempt(session.send(text, **how))
        if isinstance(answer, SupervisorError):
            self._refused(answer, text, how)
        else:
            self.oracle.record_receipt(answer, text, how.get("idempotency_key"))

    async def steer(self, session: Session, text: str, **how: Any) -> None:  # noqa: ANN401
        answer = await self.attempt(session.steer(text, **how))
        if isinstance(answer, SupervisorError):
            self._refused(answer, text, how)
        else:
            self.oracle.record_receipt(answer, text, how.get("idempotency_key"))

    async def prompt(self, session: Session, text: str, **how: Any) -> None:  # noqa: ANN401
        answer = await self.attempt(session.prompt(text, **how))
        if isinstance(answer, SupervisorError) or session.id in self.oracle.deleted_ids:
            return
        history = self.oracle.history(session.id)
        over = history.over.get(answer.turn_id)
        self.oracle.check(over is not None, f"{text!r} has a result before its turn ended")
        self.oracle.check(over == answer.outcome, f"the result of {text!r} has another outcome")

    def _refused(self, error: SupervisorError, text: str, how: dict[str, Any]) -> None:
        if UNKNOWN not in str(error) and how.get("idempotency_key") is None:
            self.oracle.record_refusal(text)

    async def interrupt(
        self,
        session: Session,
        scope: Any = "turn",  # noqa: ANN401
        **how: Any,  # noqa: ANN401
    ) -> None:
        """Interrupt a scope with a unique reason, so that the records show the target."""
        reason = f"reason {next(self.numbers)}"
        history = self.oracle.history(session.id)
        if not isinstance(scope, str):
            self.oracle.interrupt_targets[reason] = scope.id
        answer = await self.attempt(session.interrupt(scope, reason=reason, **how))
        if not isinstance(answer, InterruptReport):
            return
        hit = [target for target, reasons in history.interrupted.items() if reason in reasons]
        if answer.matched == 0:
            self.oracle.check(not hit, f"an interrupt reported no target and hit {hit}")
        elif answer.stopped and not isinstance(scope, str):
            still = scope.id == history.turn or scope.id in history.calls
            self.oracle.check(not still, f"{scope.id} was reported as stopped and is still open")

    async def stop(self, session: Session, **how: Any) -> None:  # noqa: ANN401
        """Stop, and check that the session has stopped since the request."""
        history = self.oracle.history(session.id)
        before = len(history.records)
        was_stopped = history.is_stopped
        answer = await self.attempt(session.stop(**how))
        if not isinstance(answer, SupervisorError):
            since = {record.kind for record in history.records[before:]}
            self.oracle.check(
                was_stopped or "session_stopped" in since,
                f"{session.id} reported a stop and did not stop",
            )

    async def inject_faults(self, session: Session) -> None:
        """Break commits, or claim the session as another supervisor would, at random moments."""
        for _ in range(3):
            await random_pause()
            fault = random.choice(STORE_FAULTS)
            if fault is not None:
                self.store.faults.append(fault)
            elif random.random() < 0.5:
                await self.store.claim([session.id])

    async def check_info(self, session: Session) -> None:
        """Check that the info shows committed records only."""
        info = await self.attempt(session.info())
        if isinstance(info, SupervisorError):
            return
        history = self.oracle.history(session.id)
        self.oracle.check(
            info.last_seq <= len(history.records) and info.turns <= len(history.begun),
            "the info shows what is not committed",
        )

    async def check_when_quiet(self) -> None:
        """Check, when every task is blocked, that infos equal the records."""
        await settle()
        histories = [*self.oracle.histories.values()]
        asked = {request for history in histories for request in history.asked}
        quiet = {history.id: len(history.records) for history in histories}
        waiting = {request.id for request in await self.sup.permissions()}
        if quiet == {
            history.id: len(history.records) for history in self.oracle.histories.values()
        }:
            self.oracle.check(waiting == asked, f"{waiting} are listed, {asked} are pending")
        for listed in (await self.sup.list()).items:
            info = await self.sup.session(listed.id).info()
            history = self.oracle.history(listed.id)
            if len(history.records) != quiet[listed.id]:
                continue  # the session changed meanwhile
            self.oracle.check(_are_one(info, listed), f"{info.id} differs between info and list")
            self.oracle.check(
                (info.last_seq, info.turns, info.queued, info.turn_id, info.generation)
                == (
                    len(history.records),
                    len(history.begun),
                    len(history.waiting),
                    history.turn,
                    history.generation,
                ),
                f"{info.id} has an info that differs from its records",
            )


def _are_one(info: Info, listed: Info) -> bool:
    """Return True if both show one state; what changes without a record may differ.

    The time of a running turn grows until its end is stored with a duration, and the wait for
    another session, for a process or for a slot ends when something outside of the session happens.
    """
    spent = attrs.evolve(info.spent, wall_seconds=listed.spent.wall_seconds)
    same = attrs.evolve(info, spent=spent)
    if _OUTER_WAITS & {info.waiting_for, listed.waiting_for}:
        same = attrs.evolve(same, waiting_for=listed.waiting_for)
    return same == listed


@asynccontextmanager
async def open_harness(
    *,
    settings: Settings | None = None,
    outside: trio.Nursery | None = None,
    scripted: ScriptedAgents | None = None,
) -> AsyncIterator[Harness]:
    """Open a checked supervisor; on exit no task of it may be left.

    Tasks in `outside` continue after the exit. `scripted` brings its own oracle.
    """
    scripted = scripted or ScriptedAgents(Oracle())
    oracle = scripted.oracle
    store = ObservedStore(oracle)
    tasks = trio.lowlevel.current_statistics().tasks_living
    with _observed_by(store):
        async with supervisor.open(agents=scripted.agents, settings=settings) as sup:
            scripted.sup = sup
            yield Harness(oracle, store, scripted, sup)
    tasks += _tasks_in(outside) if outside is not None else 0
    tasks += _abandoned_threads()
    left = trio.lowlevel.current_statistics().tasks_living - tasks
    oracle.check(left == 0, f"{left} tasks are left after the exit")
    oracle.close()


def _tasks_in(nursery: trio.Nursery) -> int:
    """Return the number of tasks in a nursery and in the nurseries inside it."""
    tasks = nursery.child_tasks
    return len(tasks) + sum(_tasks_in(inner) for task in tasks for inner in task.child_nurseries)


def _abandoned_threads() -> int:
    """Return the number of simulated threads that run.

    Callers abandon a look at a workspace that takes too long, and nothing can end its thread.
    """
    root = trio.lowlevel.current_root_task()
    assert root is not None
    started = [task for nursery in root.child_nurseries for task in nursery.child_tasks]
    return sum(task.name.startswith("thread: ") for task in started)


@contextmanager
def _observed_by(store: ObservedStore) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(supervisor.runtime, "MemoryStore", lambda: store)
        patch.setattr(feed, "MAX_UNREAD", 8)  # so that a watcher is too slow even in a short run
        yield


async def watch(harness: Harness, session: Session, *, items: int, after: int = 0) -> int:
    """Read `items` items, sometimes slowly; return the number of the last record."""
    checker = FeedChecker(harness.oracle, session.id, last=after)
    # A watcher that starts after the exit gets SessionNotActive and no item.
    with suppress(SessionNotActive):
        async with session.watch(after=after) as watcher:
            async for item in watcher:
                checker.check_item(item)
                items -= 1
                if not items:
                    break
                if random.random() < 0.2:
                    await random_pause()
    return checker.last


@attrs.define
class FeedChecker:
    """Checks of one watcher: each record once, in order, after and as its commit."""

    oracle: Oracle
    session_id: str
    last: int
    # Streamed text by part; None once some of it was missed.
    parts: dict[str, str | None] = attrs.Factory(dict)
    closed: set[str] = attrs.Factory(set)

    def check_item(self, item: Record | Delta | Gap | Reset) -> None:
        match item:
            case Record():
                self._check_record(item)
            case Delta():
                self._check_delta(item)
            case Gap():
                self.oracle.check(item.first == self.last + 1, f"{item} was seen after {self.last}")
                self.last = item.last
            case Reset():
                self.oracle.check(False, f"{item} was seen after {self.last}")  # noqa: FBT003 - never

    def _check_record(self, record: Record) -> None:
        self.oracle.check(record.seq == self.last + 1, f"{record.seq} was seen after {self.last}")
        self.last = record.seq
        records = self.oracle.history(self.session_id).records
        durable = record.seq <= len(records)
        self.oracle.check(durable, f"{record.seq} was seen before its commit")
        if durable:
            # Compared as bytes: a record from the store has lists instead of tuples.
            same = encode(records[record.seq - 1]) == encode(record)
            self.oracle.check(same, f"{record.seq} was seen with another content")
        part = record.body.get("part")
        if part is not None and record.kind != "user_text":
            self.closed.add(part)
            shown = self.parts.pop(part, None) or ""
            whole = record.body["text"]
            self.oracle.check(
                whole.startswith(shown), f"{shown!r} was streamed, {whole!r} is recorded"
            )

    def _check_delta(self, delta: Delta) -> None:
        self.oracle.check(delta.part not in self.closed, f"{delta.part} continues after its record")
        shown = self.parts.get(delta.part, "" if delta.offset == 0 else None)
        if shown is not None and delta.offset == len(shown):
            self.parts[delta.part] = shown + delta.text
        else:
            self.parts[delta.part] = None
