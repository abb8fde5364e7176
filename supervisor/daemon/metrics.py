"""The daemon's metrics: counts records and commits, measures lag and mailbox waits."""

from __future__ import annotations

import contextlib
import math
from contextlib import aclosing
from importlib.metadata import version
from pathlib import Path
from typing import Final

import attrs
import trio
from trio_util import periodic

from actors import ActorError
from supervisor.api.drain import DrainState
from supervisor.core.facts import AnyRecord
from supervisor.core.ids import SessionId
from supervisor.handles.supervisor import Supervisor
from supervisor.http_server.connections import Connections
from supervisor.telemetry import Metrics, MetricsSnapshot, RecordMeter, measure_lag

# Interval between two pings of the core actors.
PING_SECONDS: Final = 5.0
# Label of an agent that is not configured, such as that of an imported session.
_UNKNOWN_AGENT: Final = "other"


class DaemonMetrics:
    """Collects the daemon's metrics after `open()`."""

    def __init__(
        self, sup: Supervisor, connections: Connections, drain_state: DrainState, database: str
    ) -> None:
        self._sup = sup
        self._inside = sup.introspect()
        self._drain_state = drain_state
        self._connections = connections
        self._files = {
            name: Path(f"{database}{ending}")
            for name, ending in (("database", ""), ("wal", "-wal"))
        }
        self._version = version("understudy")
        # Number of sessions, including stopped ones.
        self._sessions = 0
        self.metrics = Metrics(self._snapshot)
        self._records = RecordMeter(self.metrics)

    async def open(self) -> None:
        """Start to count records and commits."""
        instruments = self._inside.instruments
        instruments.record_callbacks.append(self._on_record)
        instruments.deletion_callbacks.append(self._on_deletion)
        instruments.commit_callbacks.append(self._on_commit)
        self._sessions += (await self._sup.stats()).sessions

    async def run(self) -> None:
        """Measure loop lag and mailbox waits until cancelled."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(measure_lag, self.metrics.loop_lag_seconds.observe)
            nursery.start_soon(self._ping)

    async def _ping(self) -> None:
        # aclosing: a cancelled ping leaves the generator suspended, which trio warns about.
        async with aclosing(periodic(PING_SECONDS)) as ticks:
            async for _ in ticks:
                await self._ping_once()

    async def _ping_once(self) -> None:
        with contextlib.suppress(ActorError):  # the watchdog reports an actor that does not reply
            for actor, seconds in (await self._inside.ping(timeout_seconds=math.inf)).items():
                self.metrics.mailbox_wait_seconds.labels(actor).observe(seconds)

    def _on_record(self, record: AnyRecord) -> None:
        if record.kind == "session_created":
            self._sessions += 1
        agent = self._inside.agent_of(record) or _UNKNOWN_AGENT
        self._records.count(record.kind, record.body, at=record.at, agent=agent)

    def _on_deletion(self, _: SessionId) -> None:
        self._sessions -= 1

    def _on_commit(self, seconds: float, writes: int) -> None:
        self.metrics.commit_seconds.observe(seconds)
        self.metrics.commit_writes.observe(writes)

    def _snapshot(self) -> MetricsSnapshot:
        return MetricsSnapshot(
            version=self._version,
            streams=self._drain_state.open_streams,
            connections=len(self._connections),
            connections_taken=self._connections.accepted,
            connections_refused=self._connections.refused,
            store_bytes={name: _size(file) for name, file in self._files.items()},
            events_dropped=self._sup.hooks.dropped,
            **attrs.asdict(self._inside.gauges(sessions=self._sessions), recurse=False),
        )


def _size(file: Path) -> int:
    try:
        return file.stat().st_size
    except OSError:
        return 0
