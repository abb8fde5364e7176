"""The whole life of the daemon: lock, recover, listen, drain, leave.

Rule 1: nobody is let in before every stored session has its fate, and systemd hears `READY` only
        when requests are answered.
Rule 2: leaving has an order: no new work, turns end or are interrupted, streams end, connections
        close, sessions rest, the store is flushed, the socket and its lock go last.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Final

import attrs
import trio

from supervisor.api.app import make_app
from supervisor.api.doors import Doors
from supervisor.api.gate import PEER_UID
from supervisor.configuration import Configuration, DaemonSettings, make_agents
from supervisor.runtime import open as open_supervisor
from supervisor.sessions.surface.supervisor import Supervisor

from .exits import Exit
from .inside import (
    agent_of,
    has_left,
    in_a_few_words,
    running_turns,
    store_state,
    taps_of,
    wait_for_answers,
)
from .listening.connections import Connections, open_connections
from .listening.folders import make_folder
from .listening.sockets import holding
from .metering import Metering
from .reloading import Load, Reloading
from .system.notify import Notifier
from .system.orders import Orders, obey_signals
from .system.watchdog import give_signs_of_life, keep_status
from .telling.journal import Journal
from .telling.logs import Cover
from .ways import Ways, bound

logger = logging.getLogger("supervisor.daemon")

# Beyond what leaving itself may take, before we go without whoever holds us.
_HELD_SECONDS: Final = 10.0
_LOOK_SECONDS: Final = 0.2
# For those who watch to be given what happened last.
_FAREWELL_SECONDS: Final = 0.25


async def serve(
    configuration: Configuration,
    *,
    load: Load | None = None,
    environ: Mapping[str, str] | None = None,
    orders: Orders | None = None,
    cover: Cover | None = None,
    end_process: Callable[[int], object] = os._exit,
    task_status: trio.TaskStatus[Supervisor] = trio.TASK_STATUS_IGNORED,
) -> Exit:
    """Serve until `orders`, or a signal, say to leave; raises why it cannot, bare.

    Signals are obeyed in the main thread. `task_status` is told when requests are answered. If
    something will not end, the process is ended by `end_process`.
    """
    service = _Service(
        configuration=configuration,
        load=load,
        environ=os.environ if environ is None else environ,
        orders=orders or Orders(),
        cover=cover or Cover(),
        end_process=end_process,
        task_status=task_status,
    )
    make_folder(Path(configuration.daemon.socket).parent, others="nothing")
    make_folder(Path(configuration.daemon.state_folder), others="look")
    with holding(Path(configuration.daemon.socket)):
        return await service.run()


@attrs.define(kw_only=True, eq=False)
class _Service:
    """One life."""

    configuration: Configuration
    load: Load | None
    environ: Mapping[str, str]
    orders: Orders
    cover: Cover
    end_process: Callable[[int], object]
    task_status: trio.TaskStatus[Supervisor]
    _journal: Journal | None = None

    @property
    def _daemon(self) -> DaemonSettings:
        return self.configuration.daemon

    async def run(self) -> Exit:
        """All of it; what fails is raised bare, whatever nurseries are around it."""
        failure: Exception | None = None
        async with trio.open_nursery() as nursery:
            if threading.current_thread() is threading.main_thread():
                await nursery.start(obey_signals, self.orders)
            try:
                await self._live(nursery)
            except Exception as error:  # noqa: BLE001 - raised again below
                failure = error
            nursery.cancel_scope.cancel(reason="the daemon has left")
        if failure is not None:
            raise failure
        is_forced = self.orders.haste != "peace" or (
            self._journal is not None and self._journal.is_forced
        )
        logger.info("left%s", ", and turns were interrupted for it" if is_forced else "")
        return Exit.FORCED if is_forced else Exit.CLEAN

    async def _live(self, nursery: trio.Nursery) -> None:
        agents = make_agents(self.configuration, environ=self.environ)
        with trio.CancelScope() as life:
            nursery.start_soon(self._hurry, life)
            async with open_supervisor(
                self._daemon.database, agents=agents, settings=self.configuration.settings
            ) as sup:
                nursery.start_soon(self._go_without_who_holds_us, sup)
                await self._attend(sup)

    async def _attend(self, sup: Supervisor) -> None:
        """Let people in, until it is time to leave."""
        with bound(self._daemon, self.cover) as ways:  # before any nursery wraps what it raises
            async with (
                open_connections(
                    most=self._daemon.max_connections, peer_name=PEER_UID
                ) as connections,
                trio.open_nursery() as nursery,
            ):
                await self._let_in(sup, ways, connections, nursery)

    async def _let_in(
        self, sup: Supervisor, ways: Ways, connections: Connections, nursery: trio.Nursery
    ) -> None:
        notifier, doors = Notifier(self.environ), Doors()
        metering = Metering(sup, connections, doors, self._daemon.database)
        self._journal = Journal(partial(agent_of, sup))
        taps_of(sup).of_records.append(self._journal.take)
        await metering.open()
        reloading = Reloading(sup, self.configuration, self.load, self.environ)
        for way in ways:
            app = make_app(
                sup,
                gate=way.gate,
                doors=doors,
                metrics=metering.metrics.render,
                store_state=partial(store_state, sup),
                also=[reloading.operation()],
            )
            await connections.listen(way.listener, app)
        doors.open()
        status = f"listening on {' and '.join(way.where for way in ways)}"
        logger.info("%s", status)
        notifier.ready(status)
        nursery.start_soon(reloading.run, self.orders, notifier, status)
        nursery.start_soon(give_signs_of_life, notifier, partial(_ask_all, sup))
        nursery.start_soon(keep_status, notifier, partial(in_a_few_words, sup))
        nursery.start_soon(metering.run)
        self.task_status.started(sup)
        try:
            await self._drain(sup, doors, notifier)
        finally:
            doors.close()
        await connections.close()
        nursery.cancel_scope.cancel(reason="the daemon leaves")

    async def _drain(self, sup: Supervisor, doors: Doors, notifier: Notifier) -> None:
        await self.orders.wait_to_leave()
        settings = self.configuration.settings
        status = f"leaving: {running_turns(sup)} turns may end within {settings.exit_seconds:g} s"
        notifier.stopping(status)
        logger.info("%s", status)
        doors.drain()
        await sup.drain()
        if doors.streams:
            await trio.sleep(_FAREWELL_SECONDS)

    async def _hurry(self, life: trio.CancelScope) -> None:
        await self.orders.wait_to_hurry()
        life.cancel(reason="told to leave fast")

    async def _go_without_who_holds_us(self, sup: Supervisor) -> None:
        """End the process when all that is ours is over, and somebody's task is not."""
        while not has_left(sup):  # noqa: ASYNC110 - a look five times a second costs nothing
            await trio.sleep(_LOOK_SECONDS)
        # Observers and zombies are waited for that long by the supervisor itself.
        await trio.sleep(2 * self.configuration.settings.exit_seconds + _HELD_SECONDS)
        logger.error("left without what would not end; the next start puts all in order")
        self.end_process(Exit.HELD)


async def _ask_all(sup: Supervisor, timeout_seconds: float) -> None:
    await wait_for_answers(sup, timeout_seconds=timeout_seconds)
