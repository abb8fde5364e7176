"""`understudy down`: stop the daemon, and show what that interrupts."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Final

import click

from supervisor.cli.async_runner import run_blocking
from supervisor.cli.blocking_progress import BlockingProgress
from supervisor.cli.failures import OK
from supervisor.cli.options import json_option
from supervisor.cli.output import Screen
from supervisor.cli.target import load_configuration
from supervisor.cli.text_format import counted
from supervisor.core.errors import StoreDegraded, SupervisorError

if TYPE_CHECKING:
    from supervisor.configuration import Configuration
    from supervisor.core.info import Info

# Added to the time that the daemon gives itself; it ends its process in any case.
_GRACE_SECONDS: Final = 60.0
_POLL_SECONDS: Final = 0.1
_LOOK_SECONDS: Final = 0.5
# A daemon that hangs is not asked about its turns for the whole time of a request.
_SILENCE_SECONDS: Final = 3.0
_FORCED: Final = 6
_STUCK: Final = 7
_MAX_NAMED: Final = 5


class DaemonNotEnded(SupervisorError):
    """The daemon was asked to end, and has not ended in time."""


@click.command()
@click.option("--now", is_flag=True, help="Interrupt running turns at once.")
@json_option
def down(*, now: bool, as_json: bool) -> int:
    """Stop the daemon, and wait until it has ended; running turns may finish first.

    Turns that do not finish within settings.exit_seconds, or with --now all, are interrupted and
    listed. Accepted inputs are kept, and run after the next start. Exits with the code of serve: 0
    if every turn ended by itself, 6 if some were interrupted, 7 if a task did not end. Without a
    daemon there is nothing to do.
    """
    screen = Screen(as_json=as_json)
    return run_blocking(screen, partial(_down, screen, load_configuration(None), now=now))


async def _down(screen: Screen, configuration: Configuration, *, now: bool) -> int:
    from supervisor.daemon.listeners import (  # noqa: PLC0415 - slow to import
        find_daemon,
        find_starting_daemon,
    )
    from supervisor.daemon.process_note import read_process_note  # noqa: PLC0415 - as above

    settings = configuration.daemon
    daemon = find_daemon(settings.socket) or find_starting_daemon(settings.socket)
    if daemon is None:
        if screen.as_json:
            screen.data({"was_running": False, "pid": None, "exit_code": None, "interrupted": []})
        else:
            screen.note("The daemon is not running.")
        return OK
    is_silent = await _is_silent(settings.socket)
    running = () if is_silent else await _running(settings.socket) or ()
    with _end_of(daemon.pid) as has_ended:
        # One that drains already needs one signal more; a third would end it without order.
        twice = now and not is_silent and not await _is_draining(settings.socket)
        _signal(daemon.pid, twice=twice)
        if is_silent:
            screen.note(
                f"The daemon (process {daemon.pid}) does not answer; waiting for its end."
                f" `kill -9 {daemon.pid}` is safe: the next start recovers."
            )
        if running and not now:
            screen.note(
                f"{counted(len(running), 'turn')} may end within"
                f" {configuration.settings.exit_seconds:g} s: {_names(running)}."
                " `understudy down --now` interrupts them."
            )
        running = await _wait(screen, configuration, daemon.pid, has_ended, running, now=now)
    note = read_process_note(settings.socket, daemon.pid)
    code = None if note is None else note.exit_code
    return _report(screen, daemon.pid, code, running)


async def _is_silent(socket: str) -> bool:
    """Return True if the daemon listens and does not answer: it hangs, or is suspended."""
    from supervisor.client import AnswerLost  # noqa: PLC0415 - late
    from supervisor.client.address import Address  # noqa: PLC0415 - slow to import
    from supervisor.client.blocking import BlockingClient  # noqa: PLC0415 - as above
    from supervisor.client.transport import Transport  # noqa: PLC0415 - as above

    address = Address(socket, None)
    transport = Transport(BlockingClient(address), address)
    try:
        await transport.request_bytes("GET", "v1/version", timeout_seconds=_SILENCE_SECONDS)
    except AnswerLost:
        return True
    except SupervisorError:
        return False
    return False


async def _is_draining(socket: str) -> bool:
    """Return True if the daemon does not accept work, or does not answer any more or yet."""
    from supervisor.api.reports import HealthReport  # noqa: PLC0415 - slow to import
    from supervisor.client.address import Address  # noqa: PLC0415 - as above
    from supervisor.client.blocking import BlockingClient  # noqa: PLC0415 - as above
    from supervisor.client.transport import Transport  # noqa: PLC0415 - as above

    address = Address(socket, None)
    try:
        await Transport(BlockingClient(address), address).request(HealthReport, "GET", "v1/ready")
    except StoreDegraded:
        return False
    except SupervisorError:
        return True
    return False


def _signal(pid: int, *, twice: bool) -> None:
    """Request the exit; two different signals are never taken for one."""
    try:
        for number in (signal.SIGTERM, signal.SIGINT) if twice else (signal.SIGTERM,):
            os.kill(pid, number)
    except ProcessLookupError:
        return
    except PermissionError:
        raise DaemonNotEnded(
            f"process {pid} belongs to another user", hint="stop it as that user"
        ) from None


async def _wait(
    screen: Screen,
    configuration: Configuration,
    pid: int,
    has_ended: Callable[[], bool],
    running: tuple[Info, ...],
    *,
    now: bool,
) -> tuple[Info, ...]:
    """Wait until the process has ended; return the sessions whose turns ran until then."""
    settings = configuration.settings
    seconds = settings.exit_seconds + settings.ladder.total_seconds + _GRACE_SECONDS
    deadline, look_at = time.monotonic() + seconds, time.monotonic() + _LOOK_SECONDS
    with BlockingProgress(screen) as progress:
        while not has_ended():
            if time.monotonic() > deadline:
                raise DaemonNotEnded(
                    f"the daemon (process {pid}) has not ended within {seconds:g} s",
                    hint=f"see `understudy logs`; after `kill -9 {pid}` the next start recovers",
                )
            names = f": {_names(running)}" if running else ""
            progress.show(f"stopping the daemon{names}")
            time.sleep(_POLL_SECONDS)  # noqa: ASYNC251 - this coroutine never suspends
            if running and not now and time.monotonic() > look_at:
                socket = configuration.daemon.socket
                found = None if await _is_silent(socket) else await _running(socket)
                running = running if found is None else found
                look_at = time.monotonic() + _LOOK_SECONDS
    return running


async def _running(socket: str) -> tuple[Info, ...] | None:
    """Return the sessions with a running turn; None if the daemon does not answer."""
    from supervisor.client import connect_blocking  # noqa: PLC0415 - late

    with contextlib.suppress(SupervisorError):
        async with connect_blocking(socket) as sup:
            found = [await sup.list(phase=phase) for phase in ("running", "interrupting")]
            # By id: a turn that is interrupted between the two requests is in both answers.
            return tuple({info.id: info for page in found for info in page.items}.values())
    return None


@contextmanager
def _end_of(pid: int) -> Iterator[Callable[[], bool]]:
    """Yield a function that returns True once the process has ended."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        yield lambda: True
        return
    except (OSError, AttributeError):  # a system without pidfd
        yield lambda: not _exists(pid)
        return
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    try:
        yield lambda: bool(poll.poll(0))
    finally:
        os.close(descriptor)


def _exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def _report(screen: Screen, pid: int, code: int | None, running: tuple[Info, ...]) -> int:
    interrupted = running if code in (_FORCED, _STUCK, None) else ()
    if screen.as_json:
        screen.data(
            {
                "was_running": True,
                "pid": pid,
                "exit_code": code,
                "interrupted": [info.id for info in interrupted],
            }
        )
        return code or OK
    screen.line(f"The daemon (process {pid}) has ended{_EXIT_TEXTS.get(code, '')}.")
    for info in interrupted:
        screen.line(f"  interrupted: {info.id}{f'  {info.name}' if info.name else ''}")
    return code or OK


_EXIT_TEXTS: Final = {
    0: "; every turn ended by itself",
    1: " after a failure; `understudy logs` shows it",
    _FORCED: "; turns were interrupted, accepted inputs are kept",
    _STUCK: "; a task did not end, the next start recovers",
    None: "; its exit code is not known",
}


def _names(running: tuple[Info, ...]) -> str:
    named = ", ".join(info.name or info.id for info in running[:_MAX_NAMED])
    return f"{named} and others" if len(running) > _MAX_NAMED else named
