"""Events of a text/event-stream."""

from __future__ import annotations

from typing import Any

import orjson


def event(data: dict[str, Any], *, name: str | None = None) -> bytes:
    """Return one event with JSON data, named if the dialect names its events."""
    first = b"" if name is None else f"event: {name}\n".encode()
    return first + b"data: " + orjson.dumps(data) + b"\n\n"
