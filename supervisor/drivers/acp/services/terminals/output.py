"""What a terminal has put out: the end of it, as text, and never more bytes than were asked for."""

from __future__ import annotations

from typing import Final

_CONTINUES_MASK: Final = 0b1100_0000
_CONTINUES: Final = 0b1000_0000
_LONGEST_CHARACTER: Final = 4


class Output:
    """Bytes as they come; the oldest go when there are too many."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._kept = bytearray()
        self._is_cut = False
        self._is_over = False

    def add(self, data: bytes) -> None:
        """Take in what came next."""
        self._kept += data
        # Twice as much may be held for a while, so that each byte is moved at most once.
        if len(self._kept) > 2 * self._max_bytes:
            self._cut()

    def end(self) -> None:
        """Nothing more will come: what looks like the beginning of a character is none."""
        self._is_over = True

    @property
    def is_cut(self) -> bool:
        """Whether something went."""
        return self._is_cut or len(self._kept) > self._max_bytes

    def text(self, max_bytes: int | None = None) -> str:
        """The end of it, at most so many bytes as UTF-8; half a character is left out or marked."""
        self._cut()
        most = self._max_bytes if max_bytes is None else min(max_bytes, self._max_bytes)
        kept = self._kept if self._is_over else _without_half_a_character(self._kept)
        text = bytes(_from_whole_character(_tail(kept, most))).decode(errors="replace")
        # A byte that is no character becomes a mark of three.
        encoded = text.encode()
        return bytes(_from_whole_character(_tail(encoded, most))).decode()

    def _cut(self) -> None:
        if len(self._kept) > self._max_bytes:
            del self._kept[: len(self._kept) - self._max_bytes]
            self._is_cut = True


def _tail(data: bytes | bytearray, count: int) -> bytes | bytearray:
    return data[len(data) - count :] if len(data) > count else data


def _from_whole_character(data: bytes | bytearray) -> bytes | bytearray:
    """Without the rest of a character whose beginning was cut off."""
    for place, byte in enumerate(data[: _LONGEST_CHARACTER - 1]):
        if byte & _CONTINUES_MASK != _CONTINUES:
            return data[place:]
    return data[_LONGEST_CHARACTER - 1 :]


def _without_half_a_character(data: bytearray) -> bytearray:
    """Without the beginning of a character whose rest has not come yet."""
    for back in range(1, min(_LONGEST_CHARACTER, len(data) + 1)):
        byte = data[-back]
        if byte & _CONTINUES_MASK != _CONTINUES:
            return data[:-back] if back < _length_of(byte) else data
    return data


def _length_of(first: int) -> int:
    """How many bytes a character has that begins so."""
    for length, (mask, bits) in _BEGINNINGS.items():
        if first & mask == bits:
            return length
    return 1


_BEGINNINGS: Final = {
    2: (0b1110_0000, 0b1100_0000),
    3: (0b1111_0000, 0b1110_0000),
    4: (0b1111_1000, 0b1111_0000),
}
