"""What a user types while a full screen starts: kept, and put into its line of input.

Rule 1: the terminal is as it was before when the block ends, also after an error.
"""

from __future__ import annotations

import contextlib
import os
import select
import sys
import termios
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from supervisor.core.text import printable

_READ_BYTES: Final = 4096
_MAX_BYTES: Final = 65_536
_ERASE: Final = "\x7f\b"
# Places in the attributes of a terminal.
_INPUT_FLAGS: Final = 0
_LOCAL_FLAGS: Final = 3


class TypedAhead:
    """The keys that wait on a terminal."""

    def __init__(self, terminal: int) -> None:
        self._terminal = terminal

    def take(self) -> str:
        """Return the text typed so far, without the line ends after it."""
        read = b""
        while len(read) < _MAX_BYTES and select.select([self._terminal], [], [], 0)[0]:
            piece = os.read(self._terminal, _READ_BYTES)
            if not piece:
                break
            read += piece
        return typed_text(read.decode(errors="ignore"))


def typed_text(keys: str) -> str:
    """Return the text that the keys make: line ends unified, what was erased left out."""
    text: list[str] = []
    for character in keys.replace("\r\n", "\n").replace("\r", "\n"):
        if character not in _ERASE:
            text.append(character)
        elif text:
            text.pop()
    return printable("".join(text)).strip("\n")


@contextmanager
def hold_typed() -> Iterator[TypedAhead]:
    """Let keys wait during the block, without an echo; Ctrl-C and Ctrl-Z act as always."""
    terminal = sys.stdin.fileno()
    before = termios.tcgetattr(terminal)
    held = termios.tcgetattr(terminal)
    # Whole lines would wait for their end, and the line end of Enter would be another key.
    held[_LOCAL_FLAGS] &= ~(termios.ICANON | termios.ECHO)
    held[_INPUT_FLAGS] &= ~termios.ICRNL
    termios.tcsetattr(terminal, termios.TCSANOW, held)
    try:
        yield TypedAhead(terminal)
    finally:
        with contextlib.suppress(termios.error):  # the terminal may be gone
            termios.tcsetattr(terminal, termios.TCSANOW, before)
