"""Metrics of a daemon, compared with the actual state."""

from __future__ import annotations

import re
from pathlib import Path

import httpx
import pytest
import trio
from prometheus_client.parser import text_string_to_metric_families

import supervisor
import supervisor.runtime
from supervisor.client import RemoteSession
from supervisor.store.writer import Writer
from tests.support.daemon_in_process import Home, running
from tests.support.fake_store import FailingStore


@pytest.fixture
def home(folder: Path) -> Home:
    made = Home(folder)
    made.write("[settings]\nexit_seconds = 0.1\n[settings.limits]\nmax_children = 1")
    return made


async def scrape(home: Home) -> dict[str, float]:
    """Every sample by its name and its labels, as Prometheus would read it."""
    transport = httpx.AsyncHTTPTransport(uds=home.socket)
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
        answer = await client.get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    return {
        sample.name + "".join(f"|{value}" for value in sample.labels.values()): sample.value
        for family in text_string_to_metric_families(answer.text)
        for sample in family.samples
    }


async def some_life(parent: RemoteSession) -> None:
    """Run a turn, a child, a refused spawn, and a stop."""
    await parent.prompt("hello")
    child = await parent.spawn("echo", "go")
    await child.wait()
    with pytest.raises(supervisor.SpawnRefused):
        await parent.spawn("echo", "go")
    await child.stop()


async def test_records_are_counted(home: Home) -> None:
    async with running(home) as daemon:
        await some_life(await daemon.remote.create("echo"))
        busy = await daemon.remote.create("scripted")
        await busy.send("use 120\nsleep 60")
        await busy.send("next")
        await busy.interrupt(queued="cancel")
        found = await scrape(home)

        assert found["understudy_sessions_created_total|echo"] == 2
        assert found["understudy_turns_total|echo|completed"] == 2
        assert found["understudy_turns_total|scripted|interrupted"] == 1
        assert found["understudy_inputs_total|cancelled"] == 1
        assert found["understudy_interrupts_total|turn"] == 1
        assert found["understudy_interrupt_seconds_count"] == 1
        assert found["understudy_spawns_total"] == 1
        assert found["understudy_spawns_refused_total|max_children"] == 1
        assert found["understudy_commit_seconds_count"] > 5
        assert found["understudy_commit_writes_sum"] >= found["understudy_commit_writes_count"]


async def test_gauges_equal_the_stats(home: Home) -> None:
    async with running(home) as daemon:
        remote = daemon.remote
        await some_life(await remote.create("echo"))
        await (await remote.create("scripted")).send("sleep 60")
        doomed = await remote.create("echo")
        await remote.delete(doomed.id)
        await (await remote.create("echo")).stop()

        stats, found = await remote.stats(), await scrape(home)

        phases = {name: found[f"understudy_sessions|{name}"] for name in stats.phases}
        assert phases == stats.phases
        assert found["understudy_turns_running"] == stats.running_turns == 1
        assert found["understudy_store_degraded"] == 0
        assert found["understudy_connections"] >= 1
        assert found["understudy_store_bytes|database"] > 0


async def test_stored_sessions_are_counted(home: Home) -> None:
    async with running(home) as daemon:
        await daemon.remote.create("echo")
        await (await daemon.remote.create("echo")).stop()

    async with running(home):
        found = await scrape(home)

    assert (found["understudy_sessions|suspended"], found["understudy_sessions|stopped"]) == (1, 1)


async def test_labels_contain_no_ids(home: Home) -> None:
    async with running(home) as daemon:
        session = await daemon.remote.create("echo")
        await some_life(session)
        found = await scrape(home)

    ids = re.compile(r"\b(?:s|in|turn|call|req)_[a-z0-9]{12}\b")
    assert ids.fullmatch(session.id)
    assert not [name for name in found if any(map(ids.search, name.split("|")[1:]))]


async def test_a_failing_instrument_does_not_stop_sessions(
    home: Home, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    from supervisor.telemetry import RecordMeter  # noqa: PLC0415 - for this test alone

    def fail(*_: object, **__: object) -> None:
        raise ValueError

    monkeypatch.setattr(RecordMeter, "count", fail)
    async with running(home) as daemon:
        session = await daemon.remote.create("echo")

        assert (await session.prompt("hello")).text == "hello"
    assert "instrumentation callback raised" in caplog.text


async def test_ping_asks_the_registry_and_the_writer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with supervisor.open() as sup:
        await sup.introspect().check_responsive(timeout_seconds=5)

        async def hang(*_: object) -> None:
            await trio.sleep_forever()

        monkeypatch.setattr(sup._services.store, "last_position", hang)
        with pytest.raises(trio.TooSlowError):
            await sup.introspect().check_responsive(timeout_seconds=0.05)


async def test_a_hanging_writer_fails_the_watchdog_check(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    may_go = trio.Event()

    async def hang(self: Writer) -> None:
        await may_go.wait()

    async with supervisor.open() as sup:
        monkeypatch.setattr(Writer, "_flush", hang)
        with pytest.raises(Exception, match=r"|") as caught:
            await sup.introspect().check_responsive(timeout_seconds=0.05)
        may_go.set()
        monkeypatch.undo()

    assert type(caught.value).__name__ in ("AskTimeout", "TooSlowError")


async def test_a_degraded_store_passes_the_watchdog_check(monkeypatch: pytest.MonkeyPatch) -> None:
    store = FailingStore()
    monkeypatch.setattr(supervisor.runtime, "MemoryStore", lambda: store)
    async with supervisor.open() as sup, trio.open_nursery() as nursery:
        session = await sup.create("echo")
        store.start_failing()
        nursery.start_soon(session.send, "hello")  # which waits until it is well again
        while not sup._services.health.is_degraded:
            await trio.lowlevel.checkpoint()

        await sup.introspect().check_responsive(timeout_seconds=5)
        assert (await sup.introspect().ping(timeout_seconds=5)).keys() == {"registry", "writer"}
        store.is_failing = False
