"""The run of the daemon: take the lock, recover, listen, drain, exit.

Rule 1: no request is accepted before recovery has decided the outcome of every stored session, and
        `READY` is sent only when requests are answered.
Rule 2: the order of the exit: refuse new work, end or interrupt turns, end streams, close
        connections, suspend sessions, flush the store, then remove the socket and its lock.
Rule 3: whatever begins the exit, a request or a failure, also bounds its time: `ExitWatchdog` ends
        the process if the order of rule 2 takes longer.
"""

from __future__ import annotations

import enum
import logging
import os
import signal
import threading
from collections.abc import Callable, Iterable, Mapping
from contextlib import AsyncExitStack, ExitStack
from functools import partial
from pathlib import Path
from typing import Final, TypeAlias

import attrs
import trio

from supervisor.api.app import make_app
from supervisor.api.backup_folder import BackupFolder
from supervisor.api.drain import DrainState
from supervisor.configuration import AgentCatalog, Configuration, DaemonSettings, make_agents
from supervisor.drivers.port import AgentKind
from supervisor.handles.supervisor import Supervisor
from supervisor.handles.views import Introspection
from supervisor.http_server.connections import (
    BY_DESCRIPTORS,
    BY_SETTING,
    Connections,
    open_connections,
)
from supervisor.http_server.gate import PEER_UID
from supervisor.mcp_server.tool import Toolbox
from supervisor.runtime import open as open_supervisor

from .descriptors import connection_limit, within_descriptors
from .disk_room import open_when_room
from .exit_watchdog import ExitWatchdog
from .folders import make_folder
from .listeners import Listeners, hold_socket_lock, keep_socket, open_listeners
from .logging_ import EventLog, SecretFilter
from .metrics import DaemonMetrics
from .process_note import note_start
from .reload import Load, Reloader
from .signals import DaemonSignals, Urgency, handle_signals
from .systemd import Notifier, report_status, run_watchdog


class ExitCode(enum.IntEnum):
    """Exit codes: 0 to 2 as for every command, the others only for the daemon."""

    CLEAN = 0  # every turn ended by itself
    FAILED = 1  # the daemon could not start or continue; a restart may help
    MISCONFIGURED = 2  # the configuration is invalid; a retry does not help
    FORCED = 6  # turns were interrupted; accepted inputs are kept and continue after a restart
    STUCK = 7  # a task did not end, and the process exited without it


logger = logging.getLogger("supervisor.daemon")

MakeToolbox: TypeAlias = Callable[[Supervisor], Toolbox]

# Added to the time that turns have to end, before the process exits without tasks that do not end.
_EXIT_GRACE_SECONDS: Final = 10.0
# After the time that turns have to end by themselves, if the store does not answer.
_WITHOUT_STORE_SECONDS: Final = 4.5
# Exit code of a process that ends at once: the shell's code for SIGKILL.
_KILLED: Final = 128 + signal.SIGKILL

# Name of the backup folder in the state folder.
_BACKUPS: Final = "backups"

# Time in which open streams receive the last records.
_STREAM_FLUSH_SECONDS: Final = 0.25


async def serve(
    configuration: Configuration,
    *,
    load: Load | None = None,
    environ: Mapping[str, str] | None = None,
    signals: DaemonSignals | None = None,
    secret_filter: SecretFilter | None = None,
    exit_watchdog: ExitWatchdog | None = None,
    make_toolbox: MakeToolbox | None = None,
    task_status: trio.TaskStatus[Supervisor] = trio.TASK_STATUS_IGNORED,
) -> ExitCode:
    """Serve until `signals` or a process signal request the exit; return the exit code.

    Errors are raised without exception groups. Process signals are handled only in the main thread.
    `make_toolbox` makes the tools of `/mcp`, which is not served without it.
    `task_status` is started when requests are answered. If the exit takes too long, the watchdog
    (by default one that calls `os._exit`) ends the process.
    """
    with ExitStack() as held:
        service = _Daemon(
            configuration=configuration,
            load=load,
            environ=os.environ if environ is None else environ,
            signals=signals or DaemonSignals(),
            secret_filter=secret_filter or SecretFilter(),
            exit_watchdog=exit_watchdog or held.enter_context(ExitWatchdog()),
            make_toolbox=make_toolbox,
            task_status=task_status,
        )
        return await service.run()


@attrs.define(kw_only=True, eq=False)
class _Daemon:
    """One run of the daemon."""

    configuration: Configuration
    load: Load | None
    environ: Mapping[str, str]
    signals: DaemonSignals
    secret_filter: SecretFilter
    exit_watchdog: ExitWatchdog
    make_toolbox: MakeToolbox | None
    task_status: trio.TaskStatus[Supervisor]
    agent_catalog: AgentCatalog = attrs.field(init=False)
    _introspection: Introspection | None = None
    _has_lock: bool = False

    def __attrs_post_init__(self) -> None:
        self.agent_catalog = AgentCatalog(self.configuration.agents, self.environ)

    @property
    def _daemon(self) -> DaemonSettings:
        return self.configuration.daemon

    async def run(self) -> ExitCode:
        """Run until the exit; raise errors without the exception groups of nurseries."""
        failure: Exception | None = None
        self.signals.limit_exit = self._limit_exit
        async with trio.open_nursery() as nursery:
            if threading.current_thread() is threading.main_thread():
                await nursery.start(handle_signals, self.signals)
            try:
                await self._run_supervisor(nursery)
            except Exception as error:  # noqa: BLE001 - raised again below
                failure = error
            nursery.cancel_scope.cancel(reason="the daemon has exited")
        if failure is not None:
            raise failure
        # Also after a fast exit: one that found no running turn has interrupted none.
        is_forced = (
            self._introspection is not None and self._introspection.shutdown.has_interrupted_turns
        )
        logger.info("exited%s", ", turns were interrupted" if is_forced else "")
        return ExitCode.FORCED if is_forced else ExitCode.CLEAN

    async def _run_supervisor(self, nursery: trio.Nursery) -> None:
        agents = make_agents(self.configuration, environ=self.environ)
        # Not move_on_when(): its nursery would wrap errors in exception groups.
        with trio.CancelScope() as scope:
            nursery.start_soon(self._cancel_on_fast_leave, scope)
            nursery.start_soon(self._limit_exit_before_start)
            async with AsyncExitStack() as held:
                sup = await open_when_room(
                    partial(self._open, held, agents), self.signals, Notifier(self.environ)
                )
                if sup is None:
                    return
                self._introspection = sup.introspect()
                self._introspection.shutdown.on_store_failed = self._limit_exit_without_store
                try:
                    await self._open_listeners(sup)
                finally:
                    self._limit_unrequested_exit()

    async def _open(self, held: AsyncExitStack, agents: Iterable[AgentKind]) -> Supervisor:
        """Take the lock of the socket, unless an earlier attempt has, and open the store."""
        if not self._has_lock:
            socket = Path(self._daemon.socket)
            make_folder(socket.parent, others="nothing")
            make_folder(Path(self._daemon.state_folder), others="look")
            held.enter_context(hold_socket_lock(socket))
            self._has_lock = True
        return await held.enter_async_context(
            open_supervisor(
                self._daemon.database,
                agents=agents,
                agent_source=self.agent_catalog,
                settings=within_descriptors(self.configuration.settings),
            )
        )

    async def _open_listeners(self, sup: Supervisor) -> None:
        """Accept connections until the daemon has drained."""
        # Entered before the nurseries, so that its errors are raised bare.
        with open_listeners(self._daemon, self.secret_filter) as listeners:
            wanted = self._daemon.max_connections
            most = connection_limit(
                connections=wanted,
                listeners=len(listeners),
                agents=self.configuration.settings.max_agent_processes,
            )
            async with (
                open_connections(
                    max_connections=most,
                    limited=BY_SETTING if most == wanted else BY_DESCRIPTORS,
                    peer_state_key=PEER_UID,
                ) as connections,
                trio.open_nursery() as nursery,
            ):
                await self._serve_until_drained(sup, listeners, connections, nursery)

    async def _serve_until_drained(
        self,
        sup: Supervisor,
        listeners: Listeners,
        connections: Connections,
        nursery: trio.Nursery,
    ) -> None:
        notifier, drain_state = Notifier(self.environ), DrainState()
        metrics = DaemonMetrics(sup, connections, drain_state, self._daemon.database)
        event_log = EventLog(sup.introspect().agent_of)
        sup.introspect().instruments.record_callbacks.append(event_log.log_record)
        await metrics.open()
        backups = BackupFolder(Path(self._daemon.state_folder) / _BACKUPS)
        await trio.to_thread.run_sync(backups.remove_unfinished)
        reloader = Reloader(sup, self.configuration, self.load, self.environ, self.agent_catalog)
        note_start(self._daemon)
        toolbox = None if self.make_toolbox is None else self.make_toolbox(sup)
        for listener in listeners:
            app = make_app(
                sup,
                gate=listener.gate,
                drain_state=drain_state,
                metrics=metrics.metrics.render,
                store_state=sup.introspect().store_state,
                backup_folder=backups.path,
                extra_operations=[reloader.operation()],
                toolbox=toolbox,
            )
            await connections.listen(listener.socket, app)
            if listener.path is not None:
                nursery.start_soon(keep_socket, listener.path, partial(connections.listen, app=app))
        drain_state.open()
        status = f"listening on {' and '.join(listener.display_name for listener in listeners)}"
        logger.info("%s", status)
        notifier.ready(status)
        nursery.start_soon(reloader.run, self.signals, notifier, status)
        nursery.start_soon(run_watchdog, notifier, partial(_check_responsive, sup))
        nursery.start_soon(report_status, notifier, sup.introspect().status_line)
        nursery.start_soon(metrics.run)
        self.task_status.started(sup)
        try:
            await self._drain(sup, drain_state, notifier)
        finally:
            drain_state.close()
        await connections.close()
        nursery.cancel_scope.cancel(reason="the daemon exits")

    async def _drain(self, sup: Supervisor, drain_state: DrainState, notifier: Notifier) -> None:
        await self.signals.wait_to_leave()
        settings = self.configuration.settings
        running = sup.introspect().running_turns()
        turns = "1 turn" if running == 1 else f"{running} turns"
        status = f"draining: {turns} may end within {settings.exit_seconds:g} s"
        notifier.stopping(status)
        logger.info("%s", status)
        drain_state.drain()
        await sup.drain()
        with trio.move_on_after(_STREAM_FLUSH_SECONDS):
            await drain_state.wait_no_streams()

    async def _cancel_on_fast_leave(self, scope: trio.CancelScope) -> None:
        await self.signals.wait_to_leave_fast()
        scope.cancel(reason="a fast exit was requested")

    # Bounds of the exit ---------------------------------------------------------------------

    def _limit_exit(self, urgency: Urgency) -> None:
        """Bound the time of a requested exit; also called in a signal handler."""
        if urgency == "now":
            line = "exiting at once: agents are killed, the next start recovers"
            self.exit_watchdog.exit_within(0.0, _KILLED, line)
            return
        patience = self.configuration.settings.exit_seconds if urgency == "graceful" else 0.0
        self.exit_watchdog.exit_within(
            patience + self._longest_ladder() + _EXIT_GRACE_SECONDS,
            ExitCode.STUCK,
            "exiting although tasks have not ended; the next start recovers",
        )

    async def _limit_exit_before_start(self) -> None:
        """Bound the time of an exit that is requested while the store is being opened.

        Its disk may not answer, and no cancellation ends the thread that waits for it.
        """
        await self.signals.wait_to_leave()
        with trio.move_on_after(self.configuration.settings.exit_seconds):
            await self.signals.wait_to_leave_fast()
        await trio.sleep(_WITHOUT_STORE_SECONDS)
        if self._introspection is None:
            line = "exiting although the store has not been opened; the next start recovers"
            self.exit_watchdog.exit_within(0.0, ExitCode.STUCK, line)

    def _limit_unrequested_exit(self) -> None:
        """Bound the time of an exit that a failure has begun."""
        if self.signals.urgency == "none":
            self.exit_watchdog.exit_within(
                self._longest_ladder() + _EXIT_GRACE_SECONDS,
                ExitCode.FAILED,
                "exiting after an internal failure, without an orderly shutdown",
            )

    def _longest_ladder(self) -> float:
        settings, inside = self.configuration.settings, self._introspection
        live = 0.0 if inside is None else inside.longest_ladder_seconds()
        return max(settings.ladder.total_seconds, live)

    def _limit_exit_without_store(self) -> None:
        """Bound the time of the exit further, because the store does not answer."""
        assert self._introspection is not None
        seconds = self._introspection.shutdown.seconds_until(_WITHOUT_STORE_SECONDS)
        self.exit_watchdog.exit_within(
            max(1.0, seconds),
            ExitCode.FAILED if self.signals.urgency == "none" else ExitCode.STUCK,
            "exiting although the store has not answered; the next start recovers",
        )


async def _check_responsive(sup: Supervisor, timeout_seconds: float) -> None:
    await sup.introspect().check_responsive(timeout_seconds=timeout_seconds)
