"""What has happened in a session, in the forms in which people and programs read it."""

from __future__ import annotations

from contextlib import aclosing
from typing import Final, Literal, get_args

from supervisor.api.describing.forms import query, query_of
from supervisor.api.describing.operations import Call, Text, operation
from supervisor.core.creation import Message
from supervisor.core.errors import ConfigError, RecordNotFound, SessionNotFound
from supervisor.core.info import Info
from supervisor.core.records import Record
from supervisor.sessions.surface.handle import Session
from supervisor.sessions.surface.shapes import Page, TurnRecords, Why
from supervisor.store.exporting import Format

from .records import records_after

_MEDIA_TYPES: Final = {
    "markdown": "text/markdown; charset=utf-8",
    "html": "text/html; charset=utf-8",
    "jsonl": "application/jsonl",
}


@operation(
    "GET",
    "/v1/sessions/{id}/events",
    query(after=(int, 0), limit=(int, 100)),
    raises=(SessionNotFound, ConfigError),
)
async def events(call: Call) -> Page[Record]:
    """The next records after a number; `next` is what to ask after for those that follow."""
    after, limit = call.given.get("after", 0), call.given.get("limit", 100)
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


_FORMAT = Literal["json", Format]


@operation(
    "GET",
    "/v1/sessions/{id}/transcript",
    query(format=(_FORMAT, "json"), redact=(bool, False)),
    raises=(SessionNotFound, ConfigError),
    also_answers={media_type: f"as {name}" for name, media_type in _MEDIA_TYPES.items()},
)
async def transcript(call: Call) -> Page[Message] | Text:
    """What was said, as a list of messages; or all of the session, as text to keep."""
    form = call.given.get("format", "json")
    if form == "json":
        if call.given.get("redact"):
            raise ConfigError("only an export can be redacted", hint="choose another format")
        return Page(tuple(await call.session.transcript()), None)
    assert form in get_args(Format)
    text = await call.session.export(form, redact=call.given.get("redact", False))
    return Text(text.encode(), _MEDIA_TYPES[form])


@operation("GET", "/v1/sessions/{id}/history", raises=(SessionNotFound,))
async def history(call: Call) -> Page[TurnRecords]:
    """All records, grouped by turn."""
    return Page(tuple(await call.session.history()), None)


@operation("GET", "/v1/sessions/{id}/why", raises=(SessionNotFound,))
async def why(call: Call) -> Why:
    """Why nothing happens there: what it waits for, whom that one waits for, and so on."""
    return await call.session.why()


@operation(
    "GET",
    "/v1/sessions/{id}/replay",
    query_of(Session.replay),
    raises=(SessionNotFound, RecordNotFound, ConfigError),
)
async def replay(call: Call) -> Info:
    """How it was when the record of a number had been written."""
    return await call.session.replay(**call.given)
