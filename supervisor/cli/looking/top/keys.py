"""Keys of a terminal, one by one, without waiting for the end of a line."""

from __future__ import annotations

import codecs
import os
import termios
import tty
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from typing import Final

import trio

_NAMED: Final = {
    "\x1b[A": "up",
    "\x1b[B": "down",
    "\x1bOA": "up",
    "\x1bOB": "down",
    "\r": "enter",
    "\n": "enter",
    "\x7f": "backspace",
    "\x08": "backspace",
    "\x1b": "escape",
}
_LONGEST: Final = 3


@contextmanager
def key_by_key(descriptor: int) -> Iterator[None]:
    """Have keys come at once and unseen; Ctrl-C is still Ctrl-C. As it was, afterwards."""
    before = termios.tcgetattr(descriptor)
    tty.setcbreak(descriptor)
    try:
        yield
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)


async def keys(descriptor: int) -> AsyncIterator[str]:
    """The keys, those that are no letters by their names; ends when there is no terminal more."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    while True:
        await trio.lowlevel.wait_readable(descriptor)
        data = os.read(descriptor, 1024)
        if not data:
            return
        for key in split(decoder.decode(data)):
            yield key


def split(text: str) -> Iterator[str]:
    """What was read together, key by key; a sequence that we do not know is no key."""
    at = 0
    while at < len(text):
        if text[at] != "\x1b":
            yield _NAMED.get(text[at], text[at])
            at += 1
            continue
        found = next(
            (one for one in _NAMED if len(one) == _LONGEST and text.startswith(one, at)), None
        )
        if found is not None:
            yield _NAMED[found]
            at += len(found)
        elif text[at + 1 : at + 2] in ("[", "O"):
            at = _end_of_sequence(text, at + 2)
        else:
            yield "escape"
            at += 1


def _end_of_sequence(text: str, at: int) -> int:
    while at < len(text) and not "@" <= text[at] <= "~":
        at += 1
    return at + 1
