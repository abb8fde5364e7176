"""The client on asyncio, for tests on trio: it runs in a thread of its own.

What a test awaits on trio is a task on asyncio; a cancellation of the wait cancels that task, and
an answer that arrives nevertheless is returned.
"""

from __future__ import annotations

import asyncio
import functools
import gc
import inspect
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import Any, Final, TypeVar
from weakref import WeakKeyDictionary

import trio

from supervisor.client import RemoteSession, RemoteSupervisor, connect
from supervisor.client.transport import Transport

T = TypeVar("T")
Work = Callable[[], Awaitable[T]]
# The thread that each open transport runs in.
_threads: Final[WeakKeyDictionary[Transport, AsyncioThread]] = WeakKeyDictionary()


class AsyncioThread:
    """An event loop of asyncio in a thread."""

    transport: Transport

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self.unhandled: list[dict[str, Any]] = []
        self._loop.set_exception_handler(lambda _, context: self.unhandled.append(context))
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()

    @property
    def is_closed(self) -> bool:
        return self._loop.is_closed()

    async def run(self, work: Work[T]) -> T:
        """Run the work as a task on asyncio and return what it returns."""
        ended = trio.Event()
        token = trio.lowlevel.current_trio_token()
        tasks: list[asyncio.Task[T]] = []

        def begin() -> None:
            tasks.append(self._loop.create_task(_as_coroutine(work)))
            tasks[0].add_done_callback(lambda _: token.run_sync_soon(ended.set))

        self._loop.call_soon_threadsafe(begin)
        try:
            await ended.wait()
        except trio.Cancelled:
            # A lambda, because the task may not exist yet.
            self._loop.call_soon_threadsafe(lambda: tasks[0].cancel())  # noqa: PLW0108
            with trio.CancelScope(shield=True):
                await ended.wait()
            if tasks[0].cancelled():
                raise
        return tasks[0].result()

    async def close(self) -> None:
        """End the loop; every task has ended, and nothing that was opened is left."""
        await self.run(self._loop.shutdown_asyncgens)
        await self.run(self._loop.shutdown_default_executor)
        left = await self.run(_other_tasks)
        self._loop.call_soon_threadsafe(self._loop.stop)
        await trio.to_thread.run_sync(self._thread.join)
        self._loop.close()
        gc.collect()  # what was not closed warns now
        assert (left, self.unhandled) == ([], [])


async def _as_coroutine(work: Work[T]) -> T:
    return await work()


async def _other_tasks() -> list[asyncio.Task[Any]]:
    return [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]


class _Requests:
    """The requests of a transport, on asyncio."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def request_bytes(self, *args: Any, **named: Any) -> bytes:  # noqa: ANN401 - as there
        thread = _threads[self._transport]
        return await thread.run(lambda: self._transport.request_bytes(*args, **named))


class _Bridge:
    """Runs the methods of a remote handle on asyncio when a task of trio calls them."""

    _transport: Transport

    def __getattribute__(self, name: str) -> Any:  # noqa: ANN401 - any method
        found = super().__getattribute__(name)
        thread = _threads[super().__getattribute__("_transport")]
        if not trio.lowlevel.in_trio_task() or thread.is_closed:
            return found
        if name == "_transport":
            return _Requests(found)
        if name.startswith("_") or not callable(found):
            return found
        if name in ("watch", "watch_sessions"):
            return lambda *args, **named: _watch(thread, lambda: found(*args, **named))
        if not inspect.iscoroutinefunction(found):
            return lambda *args, **named: _bridged(thread, found(*args, **named))

        @functools.wraps(found)
        async def run(*args: Any, **named: Any) -> Any:  # noqa: ANN401 - any method
            return _bridged(thread, await thread.run(lambda: found(*args, **named)))

        return run


class _Session(_Bridge, RemoteSession):
    """A session on asyncio."""

    __slots__ = ()


class _Supervisor(_Bridge, RemoteSupervisor):
    """A supervisor on asyncio."""


def _bridged(thread: AsyncioThread, answer: Any) -> Any:  # noqa: ANN401 - any answer
    if isinstance(answer, RemoteSession):
        return _Session(thread.transport, answer.id)
    return [_bridged(thread, one) for one in answer] if isinstance(answer, list) else answer


class _Feed:
    """A feed on asyncio."""

    def __init__(self, thread: AsyncioThread, feed: Any) -> None:  # noqa: ANN401 - of either kind
        self._thread = thread
        self._feed = feed

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - any attribute
        return getattr(self._feed, name)

    def __aiter__(self) -> _Feed:
        return self

    async def __anext__(self) -> Any:  # noqa: ANN401 - an item of either kind
        return await self._thread.run(self._feed.__anext__)


@asynccontextmanager
async def _watch(
    thread: AsyncioThread, watch: Callable[[], AbstractAsyncContextManager[Any]]
) -> AsyncIterator[_Feed]:
    async with _entered(thread, watch) as feed:
        yield _Feed(thread, feed)


@asynccontextmanager
async def _entered(
    thread: AsyncioThread, enter: Callable[[], AbstractAsyncContextManager[T]]
) -> AsyncIterator[T]:
    """Enter the block on asyncio, and leave it there."""
    stack = AsyncExitStack()

    async def begin() -> T:
        return await stack.enter_async_context(enter())

    try:
        yield await thread.run(begin)
    finally:
        with trio.CancelScope(shield=True):
            await thread.run(stack.aclose)


@asynccontextmanager
async def connect_on_asyncio(
    *args: Any,  # noqa: ANN401 - as connect
    connect: Callable[..., AbstractAsyncContextManager[RemoteSupervisor]] = connect,
    **named: Any,  # noqa: ANN401 - as connect
) -> AsyncIterator[RemoteSupervisor]:
    """Connect on asyncio; what is called on the supervisor and its sessions runs there."""
    thread = AsyncioThread()
    try:
        async with _entered(thread, lambda: connect(*args, **named)) as sup:
            thread.transport = sup._transport
            _threads[sup._transport] = thread
            yield _Supervisor(sup._transport)
    finally:
        with trio.CancelScope(shield=True):
            await thread.close()


async def run_on_asyncio(work: Work[T]) -> T:
    """Run a program on asyncio; check that it leaves no task, and closes what it opens."""
    thread = AsyncioThread()
    try:
        return await thread.run(work)
    finally:
        with trio.CancelScope(shield=True):
            await thread.close()
