"""Ids: a prefix that tells the kind, and twelve random characters.

Rule 1: an id says nothing about its place or time, and is never used for order.
Rule 2: a seeded source of random numbers makes the same ids again, so that a run can be repeated.
"""

from __future__ import annotations

import random
from typing import Final

RANDOM_CHARACTERS: Final = 12
_DIGITS: Final = b"0123456789abcdefghijklmnopqrstuvwxyz"
# Each byte as a digit. Bytes of an incomplete last group are dropped: no digit is more likely.
_DIGIT_OF_BYTE: Final = bytes(_DIGITS[byte % len(_DIGITS)] for byte in range(256))
_DROPPED: Final = bytes(range(256 - 256 % len(_DIGITS), 256))
# Random bytes drawn at once: each draw is a call of the operating system.
_BULK_BYTES: Final = 4_096


class Ids:
    """Generator of ids: a prefix, and 12 random characters of [0-9a-z], which are 62 bits.

    Among a billion ids, two are equal with a probability of 1 in 10. The store refuses a session
    with the id of another one, and `Lifecycle.draw_id` draws again; other ids need to differ only
    within their session.
    """

    def __init__(self, chance: random.Random | None = None) -> None:
        # They need not be secret.
        self._random_bytes = random.randbytes if chance is None else chance.randbytes
        self._characters = ""
        self._next = 0

    def new(self, prefix: str) -> str:
        """Return a new id like `turn_4f9k2x81bz0c`."""
        start = self._next
        end = self._next = start + RANDOM_CHARACTERS
        if end > len(self._characters):
            drawn = self._random_bytes(_BULK_BYTES).translate(_DIGIT_OF_BYTE, _DROPPED)
            self._characters = drawn.decode("ascii")
            start, self._next = 0, RANDOM_CHARACTERS
            end = RANDOM_CHARACTERS
        return f"{prefix}_{self._characters[start:end]}"
