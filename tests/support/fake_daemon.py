"""A daemon as `top` sees it: what it sends is given by the test, what it is asked is kept."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

from supervisor.core.errors import SupervisorError
from supervisor.core.info import Info
from supervisor.core.receipts import InterruptReport
from supervisor.core.records import Record
from supervisor.handles.page import Page
from supervisor.handles.shapes import Why


class DaemonWentAway(SupervisorError):
    """The connection of a test has ended."""


class FakeFeed:
    """A feed of one test."""

    def __init__(self) -> None:
        self.items: asyncio.Queue[Any] = asyncio.Queue()
        self.is_connected = True

    def __aiter__(self) -> "FakeFeed":
        return self

    async def __anext__(self) -> object:
        item = await self.items.get()
        if isinstance(item, Exception):
            raise item
        return item


class FakeDaemon:
    """Streams what the test sends; `asked` has every call as (name, session id, argument)."""

    def __init__(self, *first: object) -> None:
        self.first = list(first)
        self.asked: list[tuple[Any, ...]] = []
        # What the daemon has besides what it streams, one session on each page of a list.
        self.stopped: list[Info] = []
        self.session_feeds: dict[str, FakeFeed] = {}
        self.chains: dict[str, Why] = {}
        self.records: dict[str, list[Record]] = {}
        self.feed: FakeFeed | None = None
        self.is_there = True

    @asynccontextmanager
    async def connect(self) -> AsyncIterator["FakeDaemon"]:
        if not self.is_there:
            raise DaemonWentAway("no daemon listens", hint="start one")
        yield self

    @asynccontextmanager
    async def watch_sessions(self) -> AsyncIterator[FakeFeed]:
        self.feed = FakeFeed()
        for item in self.first:
            self.feed.items.put_nowait(item)
        yield self.feed

    def send_items(self, *items: object) -> None:
        assert self.feed is not None
        for item in items:
            self.feed.items.put_nowait(item)

    def go_away(self) -> None:
        self.is_there = False
        self.send_items(DaemonWentAway("the daemon has ended", hint="start it"))

    def come_back(self, *first: object) -> None:
        self.is_there, self.first = True, list(first)

    def session(self, session_id: str) -> "FakeSession":
        return FakeSession(self, session_id)

    async def list(self, *, phase: str, limit: int, cursor: str | None) -> Page[Info]:
        assert phase == "stopped"
        assert limit > 0
        place = int(cursor or 0)
        is_last = place + 1 >= len(self.stopped)
        return Page(tuple(self.stopped[place : place + 1]), None if is_last else str(place + 1))

    async def answer(self, request_id: str, decision: str) -> None:
        self.asked.append(("answer", request_id, decision))

    async def answer_question(self, request_id: str, text: str) -> None:
        self.asked.append(("answer_question", request_id, text))


class FakeSession:
    """The handle of a session of `FakeDaemon`."""

    def __init__(self, daemon: FakeDaemon, session_id: str) -> None:
        self.id = session_id
        self._daemon = daemon

    async def why(self) -> object:
        found = self._daemon.chains.get(self.id)
        if found is None:
            raise DaemonWentAway("nobody knows", hint="read the row")
        return found

    @asynccontextmanager
    async def watch(self, after: int = 0) -> AsyncIterator[FakeFeed]:
        feed = self._daemon.session_feeds[self.id] = FakeFeed()
        for record in self._daemon.records.get(self.id, ()):
            feed.items.put_nowait(record)
        yield feed

    async def seen(self, seq: int) -> None:
        self._daemon.asked.append(("seen", self.id, seq))

    async def send(self, text: str) -> object:
        self._daemon.asked.append(("send", self.id, text))
        return SimpleNamespace(status="queued", position=0)

    async def steer(self, text: str) -> object:
        self._daemon.asked.append(("steer", self.id, text))
        return SimpleNamespace(status="staged", position=None)

    async def interrupt(self, scope: object, reason: str | None = None) -> InterruptReport:
        self._daemon.asked.append(("interrupt", self.id, scope))
        return InterruptReport(str(scope), matched=1, stopped=1, ladder_step="ask", seconds=0.2)

    async def stop(self) -> None:
        self._daemon.asked.append(("stop", self.id, None))

    async def resume(self) -> None:
        self._daemon.asked.append(("resume", self.id, None))
