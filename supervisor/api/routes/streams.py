"""Live streams of records, as server-sent events."""

from __future__ import annotations

import functools

from supervisor.api.operation import StreamResponse, operation
from supervisor.api.params import QUERY_CONSTRAINTS, query_params
from supervisor.api.request import OperationCall
from supervisor.api.sse import EventStream, global_events, session_events
from supervisor.core.errors import ConfigError, SessionNotFound, SupervisorError
from supervisor.core.state import Phase
from supervisor.decode import DecodeError, InvalidField

_SSE = {"text/event-stream": "server-sent events, each with a Record as JSON"}


@operation(
    "GET",
    "/v1/sessions/{id}/stream",
    query_params(after=(int, 0), follow=(bool, False)),
    raises=(SessionNotFound, ConfigError),
    other_media_types=_SSE,
    streams=True,
)
async def stream(call: OperationCall) -> StreamResponse | None:
    """Stream the records of a session after a number, then new ones.

    `id:` is the number of a record and `event:` its kind. Provisional text comes as `delta`,
    records that were dropped because the reader was too slow come as `gap`; neither has an `id:`.
    `Last-Event-ID` resumes after that record; if there is none with that number, the first event is
    `reset`, and all records follow. The stream ends when the session has stopped or, with
    `follow`, when it is deleted. If no record can follow, the answer is 204.
    """
    after, follow = _after(call), call.arguments.get("follow", False)
    info = await call.session.info()
    if not follow and info.phase is Phase.STOPPED and after == info.last_seq:
        return None
    source = functools.partial(
        session_events, call.session, info, after=after, until_stopped=not follow
    )
    return EventStream(source, call.context.drain_state)


@operation(
    "GET",
    "/v1/stream",
    query_params(after=(int, 0)),
    raises=(ConfigError,),
    other_media_types=_SSE,
    streams=True,
)
async def stream_all(call: OperationCall) -> StreamResponse:
    """Stream the records of all sessions after a position, in the order of commits.

    `id:` is the position. There are no deltas. If the position is beyond the last one, the first
    event is `reset`, and all records follow.
    """
    source = functools.partial(global_events, call.sup, after=_after(call))
    return EventStream(source, call.context.drain_state)


def _after(call: OperationCall) -> int:
    """Return the number to start after: `Last-Event-ID`, or `after` without that header."""
    said = call.headers.get("last-event-id")
    if not said:
        return int(call.arguments.get("after", 0))
    try:
        number = int(said) if said.isascii() and said.isdecimal() and len(said) < 20 else -1  # noqa: PLR2004
        QUERY_CONSTRAINTS["after"].check(number)
    except SupervisorError:
        fault = InvalidField(
            "Last-Event-ID", "is not the number of an event", "send the last `id:`, or leave it out"
        )
        raise DecodeError((fault,)) from None
    return number
