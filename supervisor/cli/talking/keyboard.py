"""Lines that somebody types, or pipes in; read in a thread, for a terminal makes one wait."""

from __future__ import annotations

import os
import sys
from typing import TextIO

import trio


def terminal_to_ask() -> TextIO | None:
    """Where a person can be asked: standard input, or the terminal behind it; None if nowhere."""
    if sys.stdin.isatty():
        return sys.stdin
    if not sys.stderr.isatty():
        return None  # nobody would see the question
    try:
        # Standard input is a pipe, but somebody sits there.
        descriptor = os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY)
    except OSError:
        return None
    return os.fdopen(descriptor, encoding=sys.stdin.encoding, errors="replace", closefd=True)


async def read_line(stream: TextIO) -> str | None:
    """The next line without its end, or None when there will be no more.

    Cancelled, it leaves its thread to a read that nobody waits for; so it is not read again.
    """
    line = await trio.to_thread.run_sync(stream.readline, abandon_on_cancel=True)
    return line.rstrip("\n") if line else None
