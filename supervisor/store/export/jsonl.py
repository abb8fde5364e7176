"""Export as JSON lines: a header, then the records exactly as they are stored.

Rule 1: an export can be imported again (`supervisor.store.importing`) with an equal result.
Rule 2: redaction changes texts only: the number and the kinds of records stay the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

import attrs
import orjson

from supervisor.core.info import Info
from supervisor.core.records import Record
from supervisor.core.redaction import redact_pieces, redact_value

from .transcript import TEXT_BREAKS

VERSION: Final = 1
_STREAMED: Final = frozenset({"agent_text", "thought"})
# The fields of the header; everything else is in the records.
_HEADER_FIELDS: Final = (
    "id", "agent", "key", "kind", "name", "title", "tags", "custom", "workspace", "phase",
    "archived", "parent", "root", "depth", "role", "turns", "messages", "tool_calls", "last_seq",
    "usage", "stop_reason", "stop_detail", "created_at", "updated_at", "last_active_at",
)  # fmt: skip


def write_jsonl(info: Info, records: Iterable[Record], *, redact: bool) -> Iterator[str]:
    """Yield the lines, each with its newline; `info` is already redacted if `redact` is true."""
    header: dict[str, Any] = {"understudy": VERSION, "session": header_fields(info)}
    if redact:
        header["redacted"] = True
    yield _line(header)
    for record in _redacted(records) if redact else records:
        yield _line(
            {
                "seq": record.seq,
                "at": record.at,
                "turn_id": record.turn_id,
                "kind": record.kind,
                "body": record.body,
            }
        )


def header_fields(info: Info) -> dict[str, Any]:
    """Return the header's fields of a session as plain data."""
    session: dict[str, Any] = {name: getattr(info, name) for name in _HEADER_FIELDS}
    return {
        **session,
        "phase": info.phase.value,
        "tags": list(info.tags),
        "custom": dict(info.custom),
        "usage": attrs.asdict(info.usage),
    }


def _line(value: dict[str, Any]) -> str:
    return orjson.dumps(value, option=orjson.OPT_APPEND_NEWLINE).decode()


def _redacted(records: Iterable[Record]) -> Iterator[Record]:
    """Yield the records with secrets replaced, also secrets split over two parts of a text."""
    buffer: list[Record] = []  # from the first part of a text on, while more parts may follow
    for record in records:
        continues = buffer and record.kind == buffer[0].kind and record.body.get("continues")
        if record.kind in TEXT_BREAKS and not continues:
            yield from _redacted_text(buffer)
            buffer = []
        if buffer or (record.kind in _STREAMED and record.body.get("part") is not None):
            buffer.append(record)
        else:
            yield attrs.evolve(record, body=redact_value(record.body))
    yield from _redacted_text(buffer)


def _redacted_text(buffer: list[Record]) -> Iterator[Record]:
    parts = [record.body["text"] for record in buffer if record.kind == buffer[0].kind]
    texts = iter(redact_pieces(parts))
    for record in buffer:
        if record.kind == buffer[0].kind:
            rest = {name: value for name, value in record.body.items() if name != "text"}
            # Keep the order of the fields, so that only the redacted values differ.
            body = dict.fromkeys(record.body) | redact_value(rest)
            yield attrs.evolve(record, body=body | {"text": next(texts)})
        else:
            yield attrs.evolve(record, body=redact_value(record.body))
