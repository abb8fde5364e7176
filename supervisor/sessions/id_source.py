"""Source of unique ids: short, independent of the machine, and reproducible with a seed."""

from __future__ import annotations

import random
from itertools import count

_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"


class Ids:
    """Generator of ids: a prefix, a random part that identifies this run, and a number."""

    def __init__(self, chance: random.Random | None = None) -> None:
        # 60 random bits distinguish this run from all others; they need not be secret.
        bits = random.getrandbits if chance is None else chance.getrandbits
        self._run_id = _base_36(bits(60))
        self._next = count(1).__next__

    def new(self, prefix: str) -> str:
        """Return a new id like `turn_4f9k2x81bz0c_17`."""
        return f"{prefix}_{self._run_id}_{self._next()}"


def _base_36(number: int) -> str:
    digits = ""
    while number:
        number, digit = divmod(number, 36)
        digits = _DIGITS[digit] + digits
    return digits or "0"
