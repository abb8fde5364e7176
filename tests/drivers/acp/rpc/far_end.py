"""A connection and the other end of it, in the hands of a test."""

from __future__ import annotations

import itertools
import math
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import trio
from trio.testing import memory_stream_pair

from supervisor.drivers.acp.rpc.connection import Connection
from supervisor.drivers.acp.rpc.messages import (
    Answer,
    Message,
    Notification,
    Request,
    encode,
    parse,
)
from supervisor.drivers.acp.rpc.serving import Handlers
from supervisor.drivers.process.lines import Lines


class FarEnd:
    """What the agent would be: hears what was sent, says what the test wants."""

    def __init__(self, stream: trio.abc.Stream) -> None:
        self._stream = stream
        self._lines = Lines()
        self._heard: deque[Message] = deque()

    async def hears(self) -> Message:
        """The next message that it was sent; whole lines only, or the test fails."""
        while not self._heard:
            data = await self._stream.receive_some()
            assert data, "nothing more will come"
            for line in self._lines.feed(bytes(data)):
                assert isinstance(line, bytes)
                message = parse(line)
                assert isinstance(message, Message)
                self._heard.append(message)
        return self._heard.popleft()

    async def hears_request(self) -> Request:
        request = await self.hears()
        assert isinstance(request, Request)
        return request

    async def says(self, *said: Message | bytes) -> None:
        """All of it in one piece."""
        await self._stream.send_all(
            b"".join(item if isinstance(item, bytes) else encode(item) for item in said)
        )

    async def answers(self, result: object = None) -> Request:
        request = await self.hears_request()
        await self.says(Answer(request.id, result))
        return request

    async def hangs_up(self) -> None:
        await self._stream.aclose()


@asynccontextmanager
async def connected(
    handlers: Handlers | None = None,
    **options: Any,  # noqa: ANN401 - those of a Connection
) -> AsyncIterator[tuple[Connection, FarEnd]]:
    """Both ends, at work; at the end of the block the connection is closed."""
    near, far = memory_stream_pair()
    connection = Connection(near.send_all, receiver(near), name="the agent", **options)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(connection.serve, handlers or Handlers())
        yield connection, FarEnd(far)
        nursery.cancel_scope.cancel()


def receiver(stream: trio.abc.ReceiveStream) -> Any:  # noqa: ANN401 - what a Connection takes
    async def receive() -> bytes:
        return bytes(await stream.receive_some())

    return receive


class Diary:
    """Handlers that write down what they are told, and wait where they were told to."""

    def __init__(self) -> None:
        self.entries: list[Any] = []
        self.may_go_on: dict[object, trio.Event] = {}

    def hold(self, what: object) -> trio.Event:
        """Have the handler of these params wait until the event is set."""
        return self.may_go_on.setdefault(what, trio.Event())

    async def note(self, params: Any) -> None:  # noqa: ANN401 - what was told
        self.entries.append(params)
        if params in self.may_go_on:
            await self.may_go_on[params].wait()
            self.entries.append(f"{params} done")

    async def serve(self, params: Any) -> object:  # noqa: ANN401 - what was asked
        await self.note(params)
        return {"served": params}

    @property
    def handlers(self) -> Handlers:
        return Handlers(requests={"ask": self.serve}, notifications={"tell": self.note})


def tell(*params: object) -> list[Message]:
    return [Notification("tell", each) for each in params]


def ask(*params: object) -> list[Message]:
    return [Request(number, "ask", each) for number, each in zip(itertools.count(1), params)]


FOR_EVER = math.inf
