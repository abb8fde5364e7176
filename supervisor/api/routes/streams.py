"""Live streams of records, as server-sent events."""

from __future__ import annotations

import functools

from supervisor.api.operation import StreamResponse, operation
from supervisor.api.params import QUERY_CONSTRAINTS, OperationCall, query_params
from supervisor.api.sse import EventStream, global_events, session_events
from supervisor.api.watch_events import EVENT_NAMES, watch_events
from supervisor.core.errors import ConfigError, SessionNotFound, SupervisorError
from supervisor.core.records import Delta, Gap, Record
from supervisor.core.state import Phase
from supervisor.decode import DecodeError, InvalidField
from supervisor.handles.session_rows import check_named

_SSE = {"text/event-stream": "server-sent events, each with a Record as JSON"}

_WATCH_SSE = {"text/event-stream": "server-sent events; the data of each is described by its name"}


@operation(
    "GET",
    "/v1/sessions/{id}/stream",
    query_params(after=(int, 0), follow=(bool, False)),
    raises=(SessionNotFound, ConfigError),
    other_media_types=_SSE,
    streams=True,
    event_kinds=(Record, Delta, Gap),
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
    event_kinds=(Record,),
)
async def stream_all(call: OperationCall) -> StreamResponse:
    """Stream the records of all sessions after a position, in the order of commits.

    `id:` is the position. There are no deltas. If the position is beyond the last one, the first
    event is `reset`, and all records follow.
    """
    source = functools.partial(global_events, call.sup, after=_after(call))
    return EventStream(source, call.context.drain_state)


@operation(
    "GET",
    "/v1/watch",
    query_params(sessions=(str, ""), after=(int, 0)),
    raises=(SessionNotFound, ConfigError),
    other_media_types=_WATCH_SSE,
    streams=True,
    event_kinds=(*EVENT_NAMES, Record, Delta),
)
async def watch(call: OperationCall) -> StreamResponse:
    """Stream the rows of all sessions, and the records of the named sessions.

    `sessions` names at most 16 sessions, separated by commas. `event:` is `snapshot` first, with
    the rows of the sessions that are not stopped or need attention; then `row` for a session that
    changed, at most four times a second for each; `gone` for a deleted one; `request` and
    `answered` for permission requests; `store` for the health of the store. The records after a
    position and the deltas of the named sessions come as in the other streams. `id:` is the
    position, of the snapshot and of records. `Last-Event-ID` resumes after it: with a new snapshot,
    and each record of the named sessions once. Other sessions are named by reconnecting.
    """
    text = call.arguments.get("sessions", "")
    named = check_named([one for one in text.split(",") if one])
    for session_id in named:
        await call.sup.get(session_id)
    source = functools.partial(watch_events, call.sup, named, after=_after(call))
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
