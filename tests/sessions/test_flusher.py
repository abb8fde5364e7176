"""The scribe: what it takes out of a session's log is on its way to the store."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import trio

from actors import open_actors
from actors.testing import VirtualClock, settle
from supervisor.core.errors import SupervisorError
from supervisor.core.facts import AnyRecord
from supervisor.core.ids import SessionId
from supervisor.core.records import Record
from supervisor.sessions.flusher import OutputFlusher
from supervisor.sessions.log import PART_SECONDS
from supervisor.store.memory import MemoryStore
from supervisor.store.pending import WriteThrottle
from supervisor.store.port import Write
from supervisor.store.writer import Writer


class FakeLog:
    """As much of a session's log as the flusher uses."""

    flush_queued = flush_scheduled = False
    epoch = 0

    def __init__(self) -> None:
        self.unsent = [Record(SessionId("s_one"), 1, 1.0, None, "plan", {})]

    def close_part(self) -> None:
        """Do nothing: no part is open."""

    def fail(self, _: Exception) -> None:
        """Ignore the error: the session does not exist in the store."""

    @property
    def has_unsent(self) -> bool:
        return bool(self.unsent)

    def take_some_unsent(self, max_bytes: int) -> tuple[tuple[Record, ...], int]:
        taken, self.unsent = self.unsent, []
        return tuple(taken), min(1, max_bytes)


class Told(MemoryStore):
    """Keeps what it was told to keep."""

    def __init__(self) -> None:
        super().__init__()
        self.written: list[AnyRecord] = []
        self.commits: list[float] = []

    async def commit(self, writes: Sequence[Write]) -> list[SupervisorError | None]:
        self.written += [record for write in writes for record in write.records]
        self.commits.append(trio.current_time())
        return await super().commit(writes)


async def test_a_cancelled_flusher_takes_no_output_it_does_not_send() -> None:
    store, speaker = Told(), FakeLog()
    async with open_actors() as system:
        scribe = OutputFlusher(
            await system.start(lambda: Writer(store), name="writer"), WriteThrottle()
        )
        async with trio.open_nursery() as nursery:
            nursery.start_soon(scribe.run)
            await settle()
            scribe.flush_soon(cast("Any", speaker))
            nursery.cancel_scope.cancel()
        await settle()

    assert [record.seq for record in (*store.written, *speaker.unsent)] == [1]


async def commits_of_three(pauses: Sequence[float]) -> tuple[list[float], list[float]]:
    """When each of three has spoken, so long after the one before, and when that was written."""
    store = Told()
    spoken: list[float] = []
    async with open_actors() as system:
        scribe = OutputFlusher(
            await system.start(lambda: Writer(store), name="writer"), WriteThrottle()
        )
        async with trio.open_nursery() as nursery:
            nursery.start_soon(scribe.run)
            for pause in pauses:
                await trio.sleep(pause)
                spoken.append(trio.current_time())
                scribe.schedule_flush(cast("Any", FakeLog()))
            await trio.sleep(1.0)
            nursery.cancel_scope.cancel()
    return spoken, store.commits


def test_sessions_due_soon_are_flushed_with_the_first_due_session() -> None:
    spoken, commits = trio.run(commits_of_three, (0.0, 0.02, 0.02), clock=VirtualClock())

    assert commits == [spoken[0] + PART_SECONDS]


def test_a_session_with_fresh_output_is_not_flushed_early() -> None:
    spoken, commits = trio.run(commits_of_three, (0.0, 0.1, 0.1), clock=VirtualClock())

    assert commits == [one + PART_SECONDS for one in spoken]
