"""A real daemon under load: killed, reloaded, and with stalled readers."""

from __future__ import annotations

import contextlib
import signal
import socket
from collections import Counter
from collections.abc import Iterator

import attrs
import pytest
import trio

import supervisor
from supervisor.client import (
    AnswerLost,
    NoDaemon,
    RemoteSession,
    RemoteSupervisor,
    RemoteWatcher,
    connect,
)
from tests.support.daemon_in_process import Home, temporary_home
from tests.support.daemon_process import Daemon, daemon

TEST_SECONDS = 90
SESSIONS = 5


@pytest.fixture
def home() -> Iterator[Home]:
    with temporary_home("[settings]\nexit_seconds = 0.2\nqueue_cap = 100") as made:
        yield made


@attrs.define
class Promises:
    """What clients were promised: by request id, the receipt that they got."""

    receipts: dict[tuple[str, str], supervisor.Receipt] = attrs.field(factory=dict)
    # Requests that were not answered: they may have happened.
    unknown: set[tuple[str, str]] = attrs.field(factory=set)

    async def send(self, session: RemoteSession, number: int) -> None:
        request = (session.id, f"request {number}")
        try:
            receipt = await session.send(f"text {number}", idempotency_key=request[1])
        except (AnswerLost, NoDaemon):
            self.unknown.add(request)
            raise
        self.unknown.discard(request)
        # A receipt says where it is, and that was said once; asked again it is the same.
        assert self.receipts.setdefault(request, receipt) == receipt


async def make(home: Home) -> list[str]:
    async with connect(home.socket) as sup:
        return [(await sup.create("echo")).id for _ in range(SESSIONS)]


async def load_until_killed(home: Home, ids: list[str], first: int, killed: Daemon) -> Promises:
    """Send from several tasks at once, and kill the daemon in the middle of it."""
    promises = Promises()

    async def keep_sending(sup: RemoteSupervisor, session_id: str) -> None:
        session = sup.session(session_id)
        number = first
        try:
            while True:
                number += 1
                await promises.send(session, number)
        except (AnswerLost, NoDaemon, supervisor.QueueFull):
            return

    with trio.fail_after(TEST_SECONDS):
        async with connect(home.socket) as sup, trio.open_nursery() as nursery:
            for session_id in ids:
                nursery.start_soon(keep_sending, sup, session_id)
            while len(promises.receipts) < 40:  # noqa: ASYNC110 - a count, not a time
                await trio.sleep(0.001)
            killed.process.kill()
    return promises


async def judge(home: Home, ids: list[str], promises: Promises) -> None:
    """What was promised is there once, whatever was not may be, and all of it has one fate."""
    with trio.fail_after(TEST_SECONDS):
        async with connect(home.socket) as sup:
            for session_id in ids:
                session = sup.session(session_id)
                mine = {key: one for key, one in promises.receipts.items() if key[0] == session_id}
                for (_, name), receipt in mine.items():
                    number = name.removeprefix("request ")
                    again = await session.send(f"text {number}", idempotency_key=name)
                    assert again == receipt
                    await session.result(receipt.input_id)
                records = [one for group in await session.history() for one in group.records]
                assert [one.seq for one in records] == list(range(1, len(records) + 1))
                settled = Counter(
                    one.body["input_id"] for one in records if one.kind == "input_settled"
                )
                accepted = [one.body["input_id"] for one in records if one.kind == "input_accepted"]
                assert {one.input_id for one in mine.values()} <= set(accepted)
                assert set(settled.values()) <= {1}
                unanswered = [key for key in promises.unknown if key[0] == session_id]
                assert len(accepted) <= len(mine) + len(unanswered)


def test_acknowledged_inputs_survive_a_kill_under_load(home: Home) -> None:
    with daemon(home) as first:
        ids = trio.run(make, home)
        promises = trio.run(load_until_killed, home, ids, 0, first)
        first.process.wait()

    with daemon(home) as second:
        trio.run(judge, home, ids, promises)
        second.leave()


async def reload_under_load(home: Home, made: Daemon) -> None:
    """Send from several tasks, and have the configuration read again and again, both ways."""
    done = 0

    async def keep_prompting(sup: RemoteSupervisor) -> None:
        nonlocal done
        session = await sup.create("echo")
        for number in range(20):
            assert (await session.prompt(f"text {number}")).text == f"text {number}"
            done += 1

    with trio.fail_after(TEST_SECONDS):
        async with connect(home.socket) as sup:
            old = await sup.create("echo")
            async with trio.open_nursery() as nursery:
                for _ in range(SESSIONS):
                    nursery.start_soon(keep_prompting, sup)
                cap = 100
                while done < SESSIONS * 20:
                    cap += 1
                    made.signal(signal.SIGHUP)
                    home.write(f"[settings]\nexit_seconds = 0.2\nqueue_cap = {cap}")
                    said = await sup.reload()
                    # A signal may have been before us; one of the two has taken it over.
                    assert said.settings in ((), ("queue_cap",))
                    home.write("[settings]\nqueue_cap = -1")
                    with pytest.raises(supervisor.ConfigError):
                        await sup.reload()
            assert (await old.prompt("still here")).text == "still here"


def test_a_reload_under_load_interrupts_no_session(home: Home) -> None:
    with daemon(home) as made:
        trio.run(reload_under_load, home, made)

        home.write("[settings]\nexit_seconds = 0.2")
        assert made.leave() == 0
        assert "Traceback" not in made.log()


async def numbers_until(feed: RemoteWatcher, kind: str) -> list[int]:
    """The numbers of all records up to one of that kind."""
    seen: list[int] = []
    async for item in feed:
        if isinstance(item, supervisor.Record):
            seen.append(item.seq)
            if item.kind == kind:
                break
    return seen


async def watch_over_a_kill(home: Home, first: Daemon) -> list[int]:
    """Watch a session while its daemon is killed and started again; the numbers that were seen."""
    with trio.fail_after(TEST_SECONDS):
        async with connect(home.socket) as sup:
            session = await sup.create("echo")
            async with session.watch() as feed:
                await session.prompt("before")
                seen = await numbers_until(feed, "turn_ended")
                first.kill()
                with daemon(home) as second:
                    await session.prompt("after")
                    seen += await numbers_until(feed, "turn_ended")
                    second.leave()
    return seen


def test_a_watcher_continues_after_a_kill_without_a_gap(home: Home) -> None:
    with daemon(home) as first:
        seen = trio.run(watch_over_a_kill, home, first)

    assert seen == list(range(1, len(seen) + 1))


STALLED = 100


async def flood_beside_stalled(home: Home) -> None:
    """A hundred readers that take nothing, and one that does, of a session that says much."""
    with trio.fail_after(TEST_SECONDS):
        async with connect(home.socket) as sup:
            session = await sup.create("scripted")
            stalled = [stand_still(home, f"/v1/sessions/{session.id}") for _ in range(STALLED)]
            async with session.watch() as feed:
                asked = await session.send("flood 5000")
                seen = await everything_until(feed, "turn_ended")
            assert (await session.result(asked.input_id)).outcome == "completed"
            assert len(await (await sup.create("echo")).transcript()) == 0
            # It may be too slow for some of it, as on a machine with much to do; then it is told.
            assert seen == set(range(1, max(seen) + 1))
            taken = [rest_of(stream) for stream in stalled]
    # What was kept for them is bounded, however much there was.
    assert max(taken) < 512 * 1024


async def everything_until(feed: RemoteWatcher, kind: str) -> set[int]:
    """The numbers of all records up to one of that kind, those included that were missed."""
    seen: set[int] = set()
    async for item in feed:
        if isinstance(item, supervisor.Gap):
            seen |= set(range(item.first, item.last + 1))
        elif isinstance(item, supervisor.Record):
            seen.add(item.seq)
            if item.kind == kind:
                break
    return seen


def stand_still(home: Home, at: str) -> socket.socket:
    """Begin to read a stream, and read no more."""
    made = socket.socket(socket.AF_UNIX)
    made.settimeout(TEST_SECONDS)
    made.connect(home.socket)
    made.sendall(f"GET {at}/stream?follow=1 HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
    assert made.recv(12) == b"HTTP/1.1 200"
    made.settimeout(0)
    return made


def rest_of(stream: socket.socket) -> int:
    """How many bytes the system has for a reader; and it hangs up."""
    size = 0
    with contextlib.suppress(BlockingIOError):
        while True:
            size += len(stream.recv(65536))
    stream.close()
    return size


def test_stalled_readers_do_not_affect_other_clients(home: Home) -> None:
    with daemon(home) as made:
        trio.run(flood_beside_stalled, home)

        assert made.leave() == 0
