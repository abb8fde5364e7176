"""The end of `connect()` ends what waits in its block, on trio and on asyncio."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
import trio

import supervisor
from supervisor.client import AnswerLost, NoDaemon, connect, connect_once
from tests.support.asyncio_client import run_on_asyncio
from tests.support.served_supervisor import Connect, Kind, Sup, served

BOTH = pytest.mark.parametrize("connect", [connect, connect_once])
Waits = dict[str, Callable[[], Awaitable[Any]]]


@pytest.fixture
def kind() -> Kind:
    return "embedded"


@pytest.fixture
async def path(sup: Sup, folder: Path) -> AsyncIterator[Path]:
    """Serve the supervisor, which is on trio."""
    assert isinstance(sup, supervisor.Supervisor)
    async with served(sup, folder / "s") as made:
        yield made


async def end_of(feed: Any) -> str:  # noqa: ANN401 - of any kind
    async for _ in feed:
        pass
    return "ended"


async def open_waits(sup: supervisor.client.RemoteSupervisor, held: AsyncExitStack) -> Waits:
    """Return what waits until the connection is closed."""
    session = await sup.create("scripted")
    rows = await held.enter_async_context(sup.watch_sessions())
    items = await held.enter_async_context(session.watch())
    records = await held.enter_async_context(sup.watch())
    reconnecting = await held.enter_async_context(sup.watch())
    reconnecting._disconnect()
    reconnecting._pause = 1000
    return {
        "rows": lambda: end_of(rows),
        "items": lambda: end_of(items),
        "records": lambda: end_of(records),
        "reconnecting": lambda: end_of(reconnecting),
        "prompt": lambda: session.prompt("sleep 1000"),
        "stopped": session.wait_stopped,
    }


async def outcome_of(wait: Callable[[], Awaitable[Any]]) -> str:
    try:
        return str(await wait())
    except NoDaemon as error:
        return str(error.args[0])


EXPECTED = dict.fromkeys(("rows", "items", "records", "reconnecting"), "ended") | dict.fromkeys(
    ("prompt", "stopped"), "this connection has been closed"
)


async def until_prompted(sup: supervisor.client.RemoteSupervisor) -> None:
    while (await sup.stats()).running_turns == 0:
        pass


@BOTH
async def test_closing_on_trio_ends_feeds_and_requests(path: Path, connect: Connect) -> None:
    ends: dict[str, str] = {}

    async def note(name: str, wait: Callable[[], Awaitable[Any]]) -> None:
        ends[name] = await outcome_of(wait)

    with trio.fail_after(5):
        async with AsyncExitStack() as held, trio.open_nursery() as nursery, connect(path) as sup:
            for name, wait in (await open_waits(sup, held)).items():
                nursery.start_soon(note, name, wait)
            await until_prompted(sup)

    assert ends == EXPECTED


@BOTH
async def test_closing_on_asyncio_ends_feeds_and_requests(path: Path, connect: Connect) -> None:
    async def program() -> dict[str, str]:
        async with AsyncExitStack() as held, asyncio.timeout(5):
            async with connect(path) as sup:
                waits = await open_waits(sup, held)
                tasks = {
                    name: asyncio.create_task(outcome_of(wait)) for name, wait in waits.items()
                }
                await until_prompted(sup)
            return {name: await task for name, task in tasks.items()}

    assert await run_on_asyncio(program) == EXPECTED


async def test_a_change_cut_by_closing_may_have_taken_effect(folder: Path) -> None:
    async def never(stream: trio.SocketStream) -> None:
        body = b'{"name":"understudy","version":"1","api":"v1"}'
        while b"/v1/version" in (request := await stream.receive_some()):
            await stream.send_all(
                b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % len(body) + body
            )
        if request:
            asked.set()
            await stream.receive_some()

    async def change() -> None:
        with pytest.raises(AnswerLost, match="has been closed before the answer"):
            await sup._transport.request_bytes("POST", "v1/x")

    asked = trio.Event()
    listening = trio.socket.socket(trio.socket.AF_UNIX)
    await listening.bind(str(folder / "s"))
    listening.listen()
    with trio.fail_after(5):
        async with trio.open_nursery() as daemon:
            daemon.start_soon(trio.serve_listeners, never, [trio.SocketListener(listening)])
            async with trio.open_nursery() as nursery, connect(folder / "s") as sup:
                nursery.start_soon(change)
                await asked.wait()
            daemon.cancel_scope.cancel()
