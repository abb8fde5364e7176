"""`understudy logs`: the log of a detached daemon, and what is added to it."""

from __future__ import annotations

import contextlib
import io
import os
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final

import click
import orjson

from supervisor.cli.async_runner import run_blocking
from supervisor.cli.failures import FileNotThere
from supervisor.cli.options import Count, json_option
from supervisor.cli.output import Screen
from supervisor.cli.target import load_configuration
from supervisor.cli.text_format import Cell

if TYPE_CHECKING:
    from supervisor.configuration import DaemonSettings

_POLL_SECONDS: Final = 0.2
_BLOCK_BYTES: Final = 64 * 1024
_STYLES: Final = {"warning": "yellow", "error": "red", "critical": "red"}


@click.command()
@click.option("-f", "--follow", is_flag=True, help="Print lines as they are added, until Ctrl-C.")
@click.option(
    "-n",
    "--lines",
    "count",
    default=100,
    show_default=True,
    metavar="COUNT",
    type=Count(0),
    help="Number of lines from the end.",
)
@json_option
def logs(*, follow: bool, count: int, as_json: bool) -> int:
    """Print the last lines of the log of a daemon that runs in the background.

    The log file is daemon.log in the state folder, with one older file, daemon.log.1. A daemon in a
    terminal logs there, one of systemd to the journal: journalctl --user -u understudy.
    """
    screen = Screen(as_json=as_json)
    path = _find_log(load_configuration(None).daemon)
    return run_blocking(screen, partial(_logs, screen, path, count, follow=follow))


def _find_log(settings: DaemonSettings) -> Path:
    """Return the path of the log: of the daemon that runs, else of the configured one."""
    from supervisor.daemon.listeners import find_daemon  # noqa: PLC0415 - slow to import
    from supervisor.daemon.process_note import read_process_note  # noqa: PLC0415 - as above

    daemon = find_daemon(settings.socket)
    note = None if daemon is None else read_process_note(settings.socket, daemon.pid)
    return Path(settings.log_file if note is None else note.log_file)


async def _logs(screen: Screen, path: Path, count: int, *, follow: bool) -> None:
    try:
        file = path.open("rb")
    except FileNotFoundError:
        raise FileNotThere(
            f"no log at {path}",
            hint="a daemon in a terminal logs there, and one of systemd to the journal:"
            " `journalctl --user -u understudy`",
        ) from None
    with contextlib.ExitStack() as opened:
        opened.enter_context(file)
        lines = _last_lines(file, count)
        older = path.with_name(f"{path.name}.1")
        if len(lines) < count:
            with contextlib.suppress(FileNotFoundError), older.open("rb") as before:
                lines = [*_last_lines(before, count - len(lines)), *lines]
        for line in lines:
            _show(screen, line)
        if follow:
            for line in _added_lines(path, file, opened):
                _show(screen, line)


def _last_lines(file: BinaryIO, count: int) -> list[bytes]:
    """Return the last lines; leave the position at the end of the file."""
    end = start = file.seek(0, io.SEEK_END)
    data = b""
    while start > 0 and data.count(b"\n") <= count:
        start = max(0, start - _BLOCK_BYTES)
        file.seek(start)
        data = file.read(end - start)
    file.seek(end)
    return data.splitlines()[-count:] if count else []


def _added_lines(path: Path, file: BinaryIO, opened: contextlib.ExitStack) -> Iterator[bytes]:
    """Yield each line that is added, also after the file was replaced by a new one."""
    rest = b""
    while True:
        *lines, rest = (rest + file.read()).split(b"\n")
        yield from lines
        if not _is_same(path, file):
            *lines, rest = (rest + file.read()).split(b"\n")
            yield from lines
            with contextlib.suppress(FileNotFoundError):
                file = opened.enter_context(path.open("rb"))
        time.sleep(_POLL_SECONDS)


def _is_same(path: Path, file: BinaryIO) -> bool:
    try:
        return os.path.samestat(path.stat(), os.fstat(file.fileno()))
    except FileNotFoundError:
        return True


def _show(screen: Screen, line: bytes) -> None:
    """Print a line; with --json as the object that it is, or as one with the text."""
    text = line.decode(errors="replace")
    if screen.as_json:
        found: object = None
        with contextlib.suppress(orjson.JSONDecodeError):
            found = orjson.loads(line)
        screen.data(found if isinstance(found, dict) else {"message": text})
        return
    words = text.split(maxsplit=3)
    level = words[2] if len(words) > 2 else ""  # noqa: PLR2004 - date, time, level
    screen.line(Cell(text, _STYLES.get(level)))
