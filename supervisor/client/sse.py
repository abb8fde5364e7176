"""An incremental parser of server-sent events."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import attrs

# Larger than any event: the largest record, encoded as JSON.
_MAX_EVENT_BYTES: Final = 256 * 1024 * 1024


class EventTooLong(Exception):
    """The input is not an event stream: an event has no end."""


@attrs.frozen
class ServerSentEvent:
    """One event; the stream can continue after `id`, if it has one."""

    name: str
    data: bytes
    id: str | None


class SseParser:
    """Turns chunks of bytes into complete events."""

    def __init__(self) -> None:
        self._rest = b""
        self._name = ""
        self._data: list[bytes] = []
        self._id: str | None = None

    def feed(self, chunk: bytes) -> Iterator[ServerSentEvent]:
        """Yield the events that this chunk completes; raise `EventTooLong`."""
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        if len(self._rest) > _MAX_EVENT_BYTES:
            raise EventTooLong
        for line in lines:
            if line.endswith(b"\r"):
                line = line[:-1]  # noqa: PLW2901 - the same line without its carriage return
            event = self._parse_line(line)
            if event is not None:
                yield event

    def _parse_line(self, line: bytes) -> ServerSentEvent | None:
        if not line:
            return self._finish_event()
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if name == b"data":
            self._data.append(value)
        elif name == b"event":
            self._name = value.decode("utf-8", "replace")
        elif name == b"id":
            self._id = value.decode("utf-8", "replace")
        return None

    def _finish_event(self) -> ServerSentEvent | None:
        data, self._data = self._data, []
        name, self._name = self._name, ""
        number, self._id = self._id, None
        return ServerSentEvent(name, b"\n".join(data), number) if data else None
