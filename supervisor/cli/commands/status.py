"""`understudy status`: the daemon, and whether it is well."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import attrs
import click

from supervisor.cli.async_runner import run_blocking
from supervisor.cli.common_options import chosen_host
from supervisor.cli.failures import NO_DAEMON, OK
from supervisor.cli.options import json_option
from supervisor.cli.output import Screen
from supervisor.cli.result_output import show_whole_fields
from supervisor.cli.target import load_configuration
from supervisor.cli.text_format import Cell, counted, format_duration, format_timestamp

if TYPE_CHECKING:
    from supervisor.configuration import DaemonSettings
    from supervisor.handles.views import Stats


# A daemon that hangs is reported after this time.
_SILENCE_SECONDS: Final = 5.0


@attrs.frozen(kw_only=True)
class DaemonStatus:
    """The state of a daemon; of that of another host, the process and the files are unknown."""

    running: bool
    listening: bool
    host: str | None = None
    pid: int | None = None
    version: str | None = None
    started_at: float | None = None
    uptime_seconds: float | None = None
    socket: str | None = None
    tcp_port: int | None = None
    state_folder: str | None = None
    log: str | None = None
    stats: Stats | None = None


@click.command()
@json_option
def status(*, as_json: bool) -> int:
    """Show the daemon's process, addresses, files, sessions and store.

    Exits with 5 if no daemon is running.
    """
    screen = Screen(as_json=as_json)
    return run_blocking(screen, partial(_status, screen))


async def _status(screen: Screen) -> int:
    found = await _find_status(screen)
    if screen.as_json:
        screen.data(found)
    else:
        show_whole_fields(screen, _fields(found))
        if found.running and not found.listening:
            screen.note("It starts or exits, or waits for room on the disk; see its log.")
        elif not found.running:
            screen.note("`understudy serve --detach` starts it, and so does `understudy new`.")
    return OK if found.running else NO_DAEMON


async def _find_status(screen: Screen) -> DaemonStatus:
    from supervisor.client import AnswerLost  # noqa: PLC0415 - late

    host = chosen_host()
    if host is None:
        found = _local_status(load_configuration(None).daemon)
        if not found.listening:
            return found
    else:
        found = DaemonStatus(running=True, listening=True, host=host)
    try:
        return await _with_answers(screen, found)
    except AnswerLost as error:
        if host is not None or screen.as_json:
            raise
        show_whole_fields(screen, _fields(found))
        raise AnswerLost(
            f"the daemon (process {found.pid}) does not answer",
            hint="see `understudy logs`; `understudy down` ends it",
        ) from error


def _local_status(settings: DaemonSettings) -> DaemonStatus:
    """Return what the system tells about the configured daemon."""
    from supervisor.daemon.listeners import (  # noqa: PLC0415 - slow to import
        find_daemon,
        find_starting_daemon,
    )
    from supervisor.daemon.process_note import read_process_note  # noqa: PLC0415 - as above

    listening = find_daemon(settings.socket)
    process = listening or find_starting_daemon(settings.socket)
    note = None if process is None else read_process_note(settings.socket, process.pid)
    log = settings.log_file if note is None else note.log_file
    since = None if process is None else process.since
    return DaemonStatus(
        running=process is not None,
        listening=listening is not None,
        pid=None if process is None else process.pid,
        started_at=since,
        uptime_seconds=None if since is None else max(0.0, time.time() - since),
        socket=settings.socket,
        tcp_port=None if note is None else note.tcp_port,
        state_folder=settings.state_folder if note is None else note.state_folder,
        log=log if Path(log).exists() else None,
    )


async def _with_answers(screen: Screen, found: DaemonStatus) -> DaemonStatus:
    """Return the status with what the daemon answers."""
    from supervisor.api.reports import VersionReport  # noqa: PLC0415 - slow to import
    from supervisor.cli.daemon_start import reach_daemon  # noqa: PLC0415 - as above
    from supervisor.client.address import find_address  # noqa: PLC0415 - as above
    from supervisor.client.blocking import BlockingClient  # noqa: PLC0415 - as above
    from supervisor.client.supervisor import RemoteSupervisor  # noqa: PLC0415 - as above
    from supervisor.client.transport import Transport  # noqa: PLC0415 - as above

    with reach_daemon(screen) as place:
        address = find_address(place.address, place.token_file, os.environ)
        transport = Transport(BlockingClient(address), address)
        version = await transport.request(
            VersionReport, "GET", "v1/version", timeout_seconds=_SILENCE_SECONDS
        )
        stats = await RemoteSupervisor(transport).stats()
    return attrs.evolve(found, version=version.version, stats=stats)


def _fields(found: DaemonStatus) -> Iterator[tuple[str, Cell | str]]:
    where = f" on {found.host}" if found.host else ""
    if not found.running:
        yield "daemon", Cell("not running", "yellow")
    elif not found.listening:
        yield "daemon", Cell("running, not listening", "yellow")
    else:
        yield "daemon", Cell(f"running{where}", "green")
    texts: tuple[tuple[str, object], ...] = (
        ("pid", found.pid),
        ("version", found.version),
        ("since", _since(found)),
        ("socket", found.socket),
        ("tcp", found.tcp_port and f"127.0.0.1:{found.tcp_port}"),
        ("state", found.state_folder),
        ("log", found.log),
    )
    for name, value in texts:
        if value is not None:
            yield name, str(value)
    if found.stats is not None:
        yield from _stats_fields(found.stats)


def _since(found: DaemonStatus) -> str | None:
    if found.started_at is None or found.uptime_seconds is None:
        return None
    return f"{format_timestamp(found.started_at)} ({format_duration(found.uptime_seconds)})"


def _stats_fields(stats: Stats) -> Iterator[tuple[str, Cell | str]]:
    turns = counted(stats.running_turns, "running turn")
    yield "sessions", f"{stats.live} live of {stats.sessions}, {turns}, {stats.queued} queued"
    if stats.permissions:
        yield "inbox", Cell(counted(stats.permissions, "pending request"), "magenta")
    store = stats.store
    if store.degraded:
        yield "store", Cell(f"degraded: {store.problem}; {store.hint}", "red")
    else:
        yield "store", Cell("read-only" if store.read_only else "healthy", "green")
    if stats.damaged:
        yield "damaged", Cell(counted(len(stats.damaged), "session"), "red")
