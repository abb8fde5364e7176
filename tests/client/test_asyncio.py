"""Programs on asyncio: cancellation by its own means. The other tests run on asyncio too."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import socket
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

import supervisor
from supervisor.client import backup_copy, connect, connect_once
from supervisor.client.asyncio_loop import AsyncioLoop
from supervisor.client.connection import Connection
from tests.support.asyncio_client import run_on_asyncio
from tests.support.served_supervisor import Connect, Kind, Sup, served

BOTH = pytest.mark.parametrize("connect", [connect, connect_once])


@pytest.fixture
def kind() -> Kind:
    return "embedded"


@pytest.fixture
async def path(sup: Sup, folder: Path) -> AsyncIterator[Path]:
    """Serve the supervisor, which is on trio."""
    assert isinstance(sup, supervisor.Supervisor)
    async with served(sup, folder / "s") as made:
        yield made


@BOTH
async def test_a_program_on_asyncio_uses_the_daemon(path: Path, connect: Connect) -> None:
    async def program() -> list[str]:
        async with connect(path) as sup, asyncio.timeout(20):
            session = await sup.create("echo")
            results = await asyncio.gather(*[session.prompt(text) for text in ("one", "two")])
            await session.stop()
            assert (await session.wait_stopped()).phase is supervisor.Phase.STOPPED
            return [result.text for result in results]

    assert await run_on_asyncio(program) == ["one", "two"]


async def test_a_feed_read_with_timeouts_of_asyncio_loses_no_record(path: Path) -> None:
    async def program() -> list[int]:
        async with connect(path) as sup:
            session = await sup.create("scripted")
            await session.send("sleep 0.02\nsay a\nsleep 0.02\nsay b\nsleep 0.02\ntool t 0.02")
            numbers: list[int] = []
            async with session.watch() as feed:
                while True:
                    with contextlib.suppress(TimeoutError):
                        async with asyncio.timeout(0.002):
                            item = await anext(feed)
                        if isinstance(item, supervisor.Record):
                            numbers.append(item.seq)
                            if item.kind == "turn_ended":
                                return numbers

    numbers = await run_on_asyncio(program)

    assert numbers == list(range(1, len(numbers) + 1))


async def test_a_closed_feed_ends_for_the_task_that_reads_it(path: Path) -> None:
    async def program() -> str:
        async with connect(path) as sup, sup.watch() as feed:
            reading = asyncio.create_task(anext(feed, "the end"))
            while not feed._stream:  # noqa: ASYNC110 - it is about to wait
                await asyncio.sleep(0)
            feed.close()
            return await reading  # type: ignore[return-value] # of the default

    assert await run_on_asyncio(program) == "the end"


async def test_a_copy_cancelled_on_asyncio_leaves_nothing_behind(
    path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def stuck(*_: object) -> int:
        this = asyncio.current_task()
        assert this is not None
        this.cancel()
        await asyncio.Event().wait()
        raise AssertionError

    async def program() -> None:
        async with connect(path) as sup:
            with pytest.raises(asyncio.CancelledError):
                await asyncio.create_task(sup.backup(folder / "copies" / "copy.db"))

    monkeypatch.setattr(backup_copy, "_download", stuck)
    (folder / "copies").mkdir()
    await run_on_asyncio(program)

    assert not [*(folder / "copies").iterdir(), *(folder / "backups").iterdir()]


# Without a supervisor ------------------------------------------------------------------------


class AskedForever:
    """A server on asyncio that answers about its version only, and knows who hung up."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.hung_up = asyncio.Event()
        self.connections: list[asyncio.Task[Any] | None] = []

    async def attend(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections.append(asyncio.current_task())
        body = b'{"name":"understudy","version":"1","api":"v1"}'
        while b"/v1/version" in (request := await reader.read(65536)):
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % len(body) + body)
        if request:
            self.asked.set()
            await reader.read()
            self.hung_up.set()
        writer.close()
        await writer.wait_closed()


@BOTH
def test_a_cancelled_request_closes_its_connection(folder: Path, connect: Connect) -> None:
    async def program() -> None:
        daemon = AskedForever()
        server = await asyncio.start_unix_server(daemon.attend, folder / "s")
        async with server, asyncio.timeout(20):
            async with connect(folder / "s") as sup:
                asking = asyncio.create_task(sup.stats())
                await daemon.asked.wait()
                asking.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await asking
                await daemon.hung_up.wait()
                assert await sup._transport.request_bytes("GET", "v1/version")
            await asyncio.gather(*filter(None, daemon.connections))

    asyncio.run(program())
    gc.collect()  # what is open still warns now


@pytest.mark.parametrize("order", [1, -1], ids=["data first", "cancellation first"])
def test_data_that_arrives_with_a_cancellation_is_kept(order: int) -> None:
    async def program() -> bytes:
        ours, theirs = socket.socketpair()
        alarm, trigger = socket.socketpair()
        connection = Connection(ours, AsyncioLoop())
        ours.setblocking(False)  # noqa: FBT003 - the standard library's signature
        with theirs, alarm, trigger, contextlib.closing(connection):
            reading = asyncio.create_task(connection.receive(10))
            asyncio.get_running_loop().add_reader(alarm, reading.cancel)
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            # One round of the loop sees both.
            for one in (theirs, trigger)[::order]:
                one.send(b"data")
            with pytest.raises(asyncio.CancelledError):
                await reading
            asyncio.get_running_loop().remove_reader(alarm)
            return await asyncio.wait_for(connection.receive(10), 20)

    assert asyncio.run(program()) == b"data"


@pytest.mark.parametrize("limit", [None, 0.0], ids=["cancel", "timeout"])
def test_a_cancelled_call_in_a_thread_returns_before_it_ends_the_task(limit: float | None) -> None:
    returned: list[Any] = []

    async def work_in_thread(entered: asyncio.Event) -> None:
        may_end = threading.Event()

        def work() -> str:
            loop.call_soon_threadsafe(entered.set)
            may_end.wait()
            return "made"

        loop = asyncio.get_running_loop()
        loop.call_later(0.05, may_end.set)
        async with asyncio.timeout(limit):
            returned.append(await AsyncioLoop().run_in_thread(work))
            await asyncio.Event().wait()

    async def program() -> None:
        entered = asyncio.Event()
        working = asyncio.create_task(work_in_thread(entered))
        await entered.wait()
        if limit is None:
            working.cancel()
        await working

    with pytest.raises(asyncio.CancelledError if limit is None else TimeoutError):
        asyncio.run(program())
    assert returned == ["made"]
