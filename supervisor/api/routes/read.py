"""Operations that read a session: records, transcript, history, why and replay."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Final, Literal, get_args

from supervisor.api.operation import TextResponse, operation
from supervisor.api.params import OperationCall, query_params, query_params_of
from supervisor.core.creation import Message
from supervisor.core.errors import ConfigError, RecordNotFound, SessionNotFound
from supervisor.core.info import Info
from supervisor.core.records import Gap, Record
from supervisor.handles.session import Session
from supervisor.handles.shapes import Page, TurnRecords, Why
from supervisor.store.export import ExportFormat


async def records_after(session: Session, after: int) -> AsyncGenerator[Record]:
    """Yield the records after a number, then new records until the feed ends; no record is skipped.

    The caller closes the generator.
    """
    while True:
        async with session.watch(after=after) as feed:
            async for item in feed:
                if isinstance(item, Gap):
                    break  # the missed records are in the store: watch again from there
                if isinstance(item, Record):
                    after = item.seq
                    yield item
            else:
                return


_MEDIA_TYPES: Final = {
    "markdown": "text/markdown; charset=utf-8",
    "html": "text/html; charset=utf-8",
    "jsonl": "application/jsonl",
}


@operation(
    "GET",
    "/v1/sessions/{id}/events",
    query_params(after=(int, 0), limit=(int, 100)),
    raises=(SessionNotFound, ConfigError),
)
async def events(call: OperationCall) -> Page[Record]:
    """Return records after a number; `next` is the value of `after` for the following page."""
    after, limit = call.arguments.get("after", 0), call.arguments.get("limit", 100)
    last = (await call.session.info()).last_seq
    found: list[Record] = []
    if after < last:
        async with aclosing(records_after(call.session, after)) as records:
            async for record in records:
                found.append(record)
                if len(found) == limit or record.seq >= last:
                    break
    following = str(found[-1].seq) if found and found[-1].seq < last else None
    return Page(tuple(found), following)


_FORMAT = Literal["json", ExportFormat]


@operation(
    "GET",
    "/v1/sessions/{id}/transcript",
    query_params(format=(_FORMAT, "json"), redact=(bool, False)),
    raises=(SessionNotFound, ConfigError),
    other_media_types={media_type: f"as {name}" for name, media_type in _MEDIA_TYPES.items()},
)
async def transcript(call: OperationCall) -> Page[Message] | TextResponse:
    """Return the messages of the session, or an export of the whole session as text."""
    format_ = call.arguments.get("format", "json")
    if format_ == "json":
        if call.arguments.get("redact"):
            raise ConfigError("redact does not apply to format json", hint="choose another format")
        return Page(tuple(await call.session.transcript()), None)
    assert format_ in get_args(ExportFormat)
    text = await call.session.export(format_, redact=call.arguments.get("redact", False))
    return TextResponse(text.encode(), _MEDIA_TYPES[format_])


@operation("GET", "/v1/sessions/{id}/history", raises=(SessionNotFound,))
async def history(call: OperationCall) -> Page[TurnRecords]:
    """Return all records, grouped by turn."""
    return Page(tuple(await call.session.history()), None)


@operation("GET", "/v1/sessions/{id}/why", raises=(SessionNotFound,))
async def why(call: OperationCall) -> Why:
    """Explain what a session waits for, and what the awaited sessions wait for."""
    return await call.session.why()


@operation(
    "GET",
    "/v1/sessions/{id}/replay",
    query_params_of(Session.replay),
    raises=(SessionNotFound, RecordNotFound, ConfigError),
)
async def replay(call: OperationCall) -> Info:
    """Return the session as it was at a record number."""
    return await call.session.replay(**call.arguments)
