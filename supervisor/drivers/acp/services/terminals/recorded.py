"""Processes that an agent has us run, on record for as long as they live."""

# What `open` does is said by the port.
# ruff: noqa: D102

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from supervisor.drivers.identity import ProcessIdentity, is_alive
from supervisor.drivers.port import Office
from supervisor.drivers.process.port import BeforeItRuns, Launch, Process, Processes

logger = logging.getLogger("supervisor")


class RecordedProcesses:
    """See `process.port.Processes`; each is forgotten when it was seen dead, and not before."""

    def __init__(self, processes: Processes, office: Office) -> None:
        self._processes = processes
        self._office = office

    @asynccontextmanager
    async def open(self, launch: Launch, *, before_it_runs: BeforeItRuns) -> AsyncIterator[Process]:
        noted: list[ProcessIdentity] = []

        async def note(identity: ProcessIdentity) -> None:
            noted.append(identity)
            await self._office.note_process(identity)
            await before_it_runs(identity)

        try:
            async with self._processes.open(launch, before_it_runs=note) as process:
                yield process
        finally:
            for identity in noted:
                self._forget(identity)

    def _forget(self, identity: ProcessIdentity) -> None:
        if is_alive(identity):
            # It stays on record, and is looked for when we start again.
            logger.error("process %d was sent SIGKILL and lives on", identity.pid)
        else:
            self._office.forget_process(identity)
