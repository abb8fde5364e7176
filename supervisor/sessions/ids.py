"""Names that nobody has used: location-free, short, and the same again under the same seed."""

from __future__ import annotations

import random
from itertools import count

_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"


class Ids:
    """Makes ids: a prefix, some letters of this run's own, and a number."""

    def __init__(self, chance: random.Random | None = None) -> None:
        # 60 bits of chance tell this run from all others; that they are secret is not needed.
        bits = random.getrandbits if chance is None else chance.getrandbits
        self._run = _in_base_36(bits(60))
        self._next = count(1).__next__

    def new(self, prefix: str) -> str:
        """An id like `turn_4f9k2x81bz0c_17`."""
        return f"{prefix}_{self._run}_{self._next()}"


def _in_base_36(number: int) -> str:
    digits = ""
    while number:
        number, digit = divmod(number, 36)
        digits = _DIGITS[digit] + digits
    return digits or "0"
