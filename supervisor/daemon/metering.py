"""What the supervisor does and how it is, made into figures."""

from __future__ import annotations

import contextlib
import math
from importlib.metadata import version
from pathlib import Path
from typing import Final

import trio

from actors import ActorError
from supervisor.api.doors import Doors
from supervisor.core.ids import SessionId
from supervisor.core.records import Record
from supervisor.sessions.surface.supervisor import Supervisor
from supervisor.telemetry import Metrics, Picture, RecordMeter, measure_lag

from .inside import agent_of, look, ping, taps_of
from .listening.connections import Connections

# How often actors are asked whether they answer.
PING_SECONDS: Final = 5.0
# An agent whom the configuration does not know, such as one that came in with a file.
_OTHER: Final = "other"


class Metering:
    """Feeds the figures, from the moment that it is opened."""

    def __init__(
        self, sup: Supervisor, connections: Connections, doors: Doors, database: str
    ) -> None:
        self._sup = sup
        self._doors = doors
        self._connections = connections
        self._files = {
            name: Path(f"{database}{ending}")
            for name, ending in (("database", ""), ("wal", "-wal"))
        }
        self._version = version("understudy")
        # How many sessions there are, the stopped ones included.
        self._sessions = 0
        self.metrics = Metrics(self._look)
        self._records = RecordMeter(self.metrics)

    async def open(self) -> None:
        """Count from now on."""
        taps = taps_of(self._sup)
        taps.of_records.append(self._take)
        taps.of_deletions.append(self._deleted)
        taps.of_commits.append(self._committed)
        self._sessions += (await self._sup.stats()).sessions

    async def run(self) -> None:
        """Measure the loop and the mailboxes, until cancelled."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(measure_lag, self.metrics.loop_lag_seconds.observe)
            nursery.start_soon(self._ping)

    async def _ping(self) -> None:
        while True:
            with contextlib.suppress(ActorError):  # whoever does not answer is others' trouble
                for actor, seconds in (await ping(self._sup, timeout_seconds=math.inf)).items():
                    self.metrics.mailbox_wait_seconds.labels(actor).observe(seconds)
            await trio.sleep(PING_SECONDS)

    def _take(self, record: Record) -> None:
        if record.kind == "session_created":
            self._sessions += 1
        agent = agent_of(self._sup, record) or _OTHER
        self._records.take(record.kind, record.body, at=record.at, agent=agent)

    def _deleted(self, _: SessionId) -> None:
        self._sessions -= 1

    def _committed(self, seconds: float, writes: int) -> None:
        self.metrics.commit_seconds.observe(seconds)
        self.metrics.commit_writes.observe(writes)

    def _look(self) -> Picture:
        return Picture(
            version=self._version,
            streams=self._doors.streams,
            connections=len(self._connections),
            connections_taken=self._connections.taken,
            connections_refused=self._connections.refused,
            store_bytes={name: _size(file) for name, file in self._files.items()},
            events_dropped=self._sup.hooks.dropped,
            **look(self._sup, sessions=self._sessions),
        )


def _size(file: Path) -> int:
    try:
        return file.stat().st_size
    except OSError:
        return 0
