"""The scribe: what it takes out of a session's log is on its way to the store."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import trio

from actors import open_actors
from actors.testing import VirtualClock, settle
from supervisor.core.errors import SupervisorError
from supervisor.core.ids import SessionId
from supervisor.core.records import Record
from supervisor.sessions.scribe import Scribe
from supervisor.sessions.shell.log import PART_SECONDS
from supervisor.store.memory import MemoryStore
from supervisor.store.port import Write
from supervisor.store.writer import Writer


class Log:
    """As much of a session's log as the scribe knows."""

    is_hurried = is_noted = False

    def __init__(self) -> None:
        self.unsent = [Record(SessionId("s_one"), 1, 1.0, None, "plan", {})]

    def close_part(self) -> None:
        """It has none that is open."""

    def take_unsent(self) -> tuple[Record, ...]:
        taken, self.unsent = self.unsent, []
        return tuple(taken)


class Told(MemoryStore):
    """Keeps what it was told to keep."""

    def __init__(self) -> None:
        super().__init__()
        self.written: list[Record] = []
        self.commits: list[float] = []

    async def commit(self, writes: Sequence[Write]) -> list[SupervisorError | None]:
        self.written += [record for write in writes for record in write.records]
        self.commits.append(trio.current_time())
        return await super().commit(writes)


class Speaker:
    """As much of a session's actor as the scribe knows."""

    epoch = 0

    def __init__(self) -> None:
        self.log = Log()
        self.ref = cast("Any", self)

    def tell(self, *_: object, **__: object) -> None:
        """It was not written: there is no such session."""


async def test_who_is_cancelled_when_it_is_roused_takes_nothing_that_it_does_not_send() -> None:
    store, speaker = Told(), Speaker()
    async with open_actors() as system:
        scribe = Scribe(await system.start(lambda: Writer(store), name="writer"))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(scribe.run)
            await settle()
            scribe.write_now(cast("Any", speaker))
            nursery.cancel_scope.cancel()
        await settle()

    assert [record.seq for record in (*store.written, *speaker.log.unsent)] == [1]


async def commits_of_three(pauses: Sequence[float]) -> tuple[list[float], list[float]]:
    """When each of three has spoken, so long after the one before, and when that was written."""
    store = Told()
    spoken: list[float] = []
    async with open_actors() as system:
        scribe = Scribe(await system.start(lambda: Writer(store), name="writer"))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(scribe.run)
            for pause in pauses:
                await trio.sleep(pause)
                spoken.append(trio.current_time())
                scribe.write_later(cast("Any", Speaker()))
            await trio.sleep(1.0)
            nursery.cancel_scope.cancel()
    return spoken, store.commits


def test_those_who_are_due_soon_go_along_with_the_first_who_is_due() -> None:
    spoken, commits = trio.run(commits_of_three, (0.0, 0.02, 0.02), clock=VirtualClock())

    assert commits == [spoken[0] + PART_SECONDS]


def test_nobody_goes_along_who_has_only_just_begun_to_speak() -> None:
    spoken, commits = trio.run(commits_of_three, (0.0, 0.1, 0.1), clock=VirtualClock())

    assert commits == [one + PART_SECONDS for one in spoken]
