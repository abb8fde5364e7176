"""Live streams, as server-sent events."""

from __future__ import annotations

import functools

from supervisor.api.describing.forms import query
from supervisor.api.describing.operations import Call, Stream, operation
from supervisor.api.describing.rules import IN_QUERIES
from supervisor.api.streaming.feeds import all_events, session_events
from supervisor.api.streaming.stream import EventStream
from supervisor.api.wire.reading import Fault, Unreadable
from supervisor.core.errors import ConfigError, SessionNotFound, SupervisorError
from supervisor.core.session import Phase

_SSE = {"text/event-stream": "server-sent events, each with a Record as JSON"}


@operation(
    "GET",
    "/v1/sessions/{id}/stream",
    query(after=(int, 0), follow=(bool, False)),
    raises=(SessionNotFound, ConfigError),
    also_answers=_SSE,
    streams=True,
)
async def stream(call: Call) -> Stream | None:
    """The records of a session after a number, then whatever comes.

    `id:` is a record's number and `event:` its kind. Text on its way into a record comes as
    `delta`, and what the reader was too slow for as `gap`; neither has an `id:`. Who comes back
    with `Last-Event-ID` goes on after that. It ends when the session has stopped, with `follow`
    only when it is deleted; 204 if nothing can follow.
    """
    after, follow = _after(call), call.given.get("follow", False)
    info = await call.session.info()
    if not follow and info.phase is Phase.STOPPED and after >= info.last_seq:
        return None
    source = functools.partial(
        session_events, call.session, info, after=after, to_the_end=not follow
    )
    return EventStream(source, call.context.doors)


@operation(
    "GET",
    "/v1/stream",
    query(after=(int, 0)),
    raises=(ConfigError,),
    also_answers=_SSE,
    streams=True,
)
async def stream_all(call: Call) -> Stream:
    """The records of all sessions, in the order of their commits, from a position on.

    `id:` is the position. There are no deltas.
    """
    source = functools.partial(all_events, call.sup, after=_after(call))
    return EventStream(source, call.context.doors)


def _after(call: Call) -> int:
    """After which number to begin: the header counts, which is newer than the address."""
    said = call.headers.get("last-event-id")
    if not said:
        return int(call.given.get("after", 0))
    try:
        number = int(said) if said.isascii() and said.isdecimal() and len(said) < 20 else -1  # noqa: PLR2004
        IN_QUERIES["after"].check(number)
    except SupervisorError:
        fault = Fault("Last-Event-ID", "is no number of an event", "send the last `id:`, or none")
        raise Unreadable((fault,)) from None
    return number
