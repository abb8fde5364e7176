"""A connection and its far end, controlled by the test."""

from __future__ import annotations

import itertools
import math
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import trio
from trio.testing import memory_stream_pair

from supervisor.json_rpc.lines import LineSplitter
from supervisor.json_rpc.rpc_connection import CallTimeout, ConnectionLost, RpcConnection
from supervisor.json_rpc.rpc_handlers import RpcHandlers
from supervisor.json_rpc.rpc_messages import (
    RpcError,
    RpcMessage,
    RpcNotification,
    RpcRequest,
    RpcResult,
    encode,
    parse,
)


class FarEnd:
    """The agent's end of a connection, controlled by the test."""

    def __init__(self, stream: trio.abc.Stream) -> None:
        self._stream = stream
        self._lines = LineSplitter()
        self._heard: deque[RpcMessage] = deque()

    async def hears(self) -> RpcMessage:
        """Return the next message that the agent received; fail on a partial line."""
        while not self._heard:
            data = await self._stream.receive_some()
            assert data, "nothing more will come"
            for line in self._lines.feed(bytes(data)):
                assert isinstance(line, bytes)
                message = parse(line)
                assert isinstance(message, RpcMessage)
                self._heard.append(message)
        return self._heard.popleft()

    async def hears_request(self) -> RpcRequest:
        request = await self.hears()
        assert isinstance(request, RpcRequest)
        return request

    async def says(self, *said: RpcMessage | bytes) -> None:
        """Send the messages in one write."""
        await self._stream.send_all(
            b"".join(item if isinstance(item, bytes) else encode(item) for item in said)
        )

    async def answers(self, result: object = None) -> RpcRequest:
        request = await self.hears_request()
        await self.says(RpcResult(request.id, result))
        return request

    async def hangs_up(self) -> None:
        await self._stream.aclose()


@asynccontextmanager
async def connected(
    handlers: RpcHandlers | None = None,
    **options: Any,  # noqa: ANN401 - options of RpcConnection
) -> AsyncIterator[tuple[RpcConnection, FarEnd]]:
    """Open a served connection and its far end; close it at the end of the block."""
    near, far = memory_stream_pair()
    connection = RpcConnection(near.send_all, receiver(near), name="the agent", **options)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(connection.serve, handlers or RpcHandlers())
        yield connection, FarEnd(far)
        nursery.cancel_scope.cancel()


def receiver(stream: trio.abc.ReceiveStream) -> Any:  # noqa: ANN401 - a ReceiveBytes
    async def receive() -> bytes:
        return bytes(await stream.receive_some())

    return receive


class RecordingHandlers:
    """Handlers that record their params, and wait where the test says."""

    def __init__(self) -> None:
        self.entries: list[Any] = []
        self.may_go_on: dict[object, trio.Event] = {}

    def hold(self, what: object) -> trio.Event:
        """Return an event that the handler of these params waits for."""
        return self.may_go_on.setdefault(what, trio.Event())

    async def note(self, params: Any) -> None:  # noqa: ANN401 - any JSON value
        self.entries.append(params)
        if params in self.may_go_on:
            await self.may_go_on[params].wait()
            self.entries.append(f"{params} done")

    async def serve(self, params: Any) -> object:  # noqa: ANN401 - any JSON value
        await self.note(params)
        return {"served": params}

    @property
    def handlers(self) -> RpcHandlers:
        return RpcHandlers(requests={"ask": self.serve}, notifications={"tell": self.note})


def tell(*params: object) -> list[RpcMessage]:
    return [RpcNotification("tell", each) for each in params]


def ask(*params: object) -> list[RpcMessage]:
    return [RpcRequest(number, "ask", each) for number, each in zip(itertools.count(1), params)]


FOR_EVER = math.inf

Call = Callable[[], Awaitable[object]]


class CallResults:
    """Results of calls made in tasks of their own."""

    def __init__(self, nursery: trio.Nursery) -> None:
        self._nursery = nursery
        self.came: dict[str, object] = {}

    def of(self, name: str, call: Call) -> trio.CancelScope:
        scope = trio.CancelScope()

        async def run() -> None:
            with scope:
                try:
                    self.came[name] = await call()
                except (RpcError, ConnectionLost, CallTimeout) as error:
                    self.came[name] = error

        self._nursery.start_soon(run)
        return scope

    def reason(self, name: str) -> str:
        lost = self.came[name]
        assert isinstance(lost, ConnectionLost)
        return lost.reason
