"""Server-sent events, read from chunks of bytes as they come."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import attrs

# Beyond any event that there is: the largest record, and what JSON makes of it.
_MOST_BYTES: Final = 256 * 1024 * 1024


class TooLong(Exception):
    """What comes is no event: it has no end."""


@attrs.frozen
class Event:
    """One event; `id` is what to go on after, if it has one."""

    name: str
    data: bytes
    id: str | None


class Parser:
    """Fed with chunks, gives the events that are whole."""

    def __init__(self) -> None:
        self._rest = b""
        self._name = ""
        self._data: list[bytes] = []
        self._id: str | None = None

    def feed(self, chunk: bytes) -> Iterator[Event]:
        """What has become whole by this chunk; raises `TooLong`."""
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        if len(self._rest) > _MOST_BYTES:
            raise TooLong
        for line in lines:
            if line.endswith(b"\r"):
                line = line[:-1]  # noqa: PLW2901 - the same line
            event = self._take(line)
            if event is not None:
                yield event

    def _take(self, line: bytes) -> Event | None:
        if not line:
            return self._whole()
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if name == b"data":
            self._data.append(value)
        elif name == b"event":
            self._name = value.decode("utf-8", "replace")
        elif name == b"id":
            self._id = value.decode("utf-8", "replace")
        return None

    def _whole(self) -> Event | None:
        data, self._data = self._data, []
        name, self._name = self._name, ""
        number, self._id = self._id, None
        return Event(name, b"\n".join(data), number) if data else None
