"""Things from a feed, as server-sent events.

A record's `id:` is what to go on after. Deltas and gaps have none: who begins again begins after
the last record.
"""

from __future__ import annotations

from typing import Final

from supervisor.api.wire import encode
from supervisor.api.wire.problems import ProblemDetails
from supervisor.core.records import Record
from supervisor.sessions.shell.feed import Delta, Gap, Item

# Browsers wait so long before they connect again.
BEGINNING: Final = b"retry: 2000\n\n"
KEEPALIVE: Final = b": still here\n\n"


def event_of(item: Item, number: int | None = None) -> bytes:
    """The event of a thing; `number` is what to go on after, if that is not the record's own."""
    if isinstance(item, Record):
        at = item.seq if number is None else number
        return b"id: %d\nevent: %b\ndata: %b\n\n" % (at, item.kind.encode(), encode(item))
    name = b"delta" if isinstance(item, Delta) else b"gap"
    assert isinstance(item, Delta | Gap)
    return b"event: %b\ndata: %b\n\n" % (name, encode(item))


def event_of_problem(problem: ProblemDetails) -> bytes:
    """The event of what ended a stream that could not go on."""
    return b"event: problem\ndata: %b\n\n" % encode(problem.plain())
