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
# As much goes along in one chunk, if it is there.
CHUNK_BYTES: Final = 64 * 1024
KEEPALIVE: Final = b": still here\n\n"


# What many read at the same time is written once for all of them: the last few things, each by its
# identity, which it keeps for as long as it is in here.
_WRITTEN: Final[dict[int, tuple[Item, bytes]]] = {}
_MOST_WRITTEN: Final = 1024
_LARGEST_WRITTEN_BYTES: Final = 4096


def event_of(item: Item) -> bytes:
    """The event of a thing that a watcher was given."""
    written = _WRITTEN.get(id(item))
    if written is not None:
        return written[1]
    event = write_event(item)
    if len(event) <= _LARGEST_WRITTEN_BYTES:
        if len(_WRITTEN) >= _MOST_WRITTEN:
            del _WRITTEN[next(iter(_WRITTEN))]
        _WRITTEN[id(item)] = (item, event)
    return event


def write_event(item: Item, number: int | None = None) -> bytes:
    """The same, anew; `number` is what to go on after, if that is not the record's own."""
    if isinstance(item, Record):
        at = item.seq if number is None else number
        return b"id: %d\nevent: %b\ndata: %b\n\n" % (at, item.kind.encode(), encode(item))
    name = b"delta" if isinstance(item, Delta) else b"gap"
    assert isinstance(item, Delta | Gap)
    return b"event: %b\ndata: %b\n\n" % (name, encode(item))


def event_of_problem(problem: ProblemDetails) -> bytes:
    """The event of what ended a stream that could not go on."""
    return b"event: problem\ndata: %b\n\n" % encode(problem.plain())
