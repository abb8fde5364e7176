"""JSON lines: a header, then the records exactly as they are stored.

Rule 1: what is written can be read again (`supervisor.store.importing`), and is the same then.
Rule 2: covering secrets changes texts and nothing else: as many records, of the same kinds.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

import attrs
import orjson

from supervisor.core.info import Info
from supervisor.core.records import Record
from supervisor.core.redaction import redacted_pieces, redacted_value

from .story import BREAKS

VERSION: Final = 1
_STREAMED: Final = frozenset({"agent_text", "thought"})
# What the header says of the session; the records say the rest.
_TOLD: Final = (
    "id", "agent", "key", "kind", "name", "title", "tags", "custom", "workspace", "phase",
    "archived", "parent", "root", "depth", "role", "turns", "messages", "tool_calls", "last_seq",
    "usage", "stop_reason", "stop_detail", "created_at", "updated_at", "last_active_at",
)  # fmt: skip


def write_lines(info: Info, records: Iterable[Record], *, redact: bool) -> Iterator[str]:
    """One line at a time, each with its end; whoever wants it covered gives a covered `info`."""
    header: dict[str, Any] = {"understudy": VERSION, "session": told(info)}
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


def told(info: Info) -> dict[str, Any]:
    """What a header says of a session, as plain data."""
    session: dict[str, Any] = {name: getattr(info, name) for name in _TOLD}
    return {
        **session,
        "phase": info.phase.value,
        "tags": list(info.tags),
        "custom": dict(info.custom),
        "usage": attrs.asdict(info.usage),
    }


def _line(thing: dict[str, Any]) -> str:
    return orjson.dumps(thing, option=orjson.OPT_APPEND_NEWLINE).decode()


def _redacted(records: Iterable[Record]) -> Iterator[Record]:
    """The records with their secrets covered, also those that lie across two parts of a text."""
    held: list[Record] = []  # from the first part of a text on, while more of it may come
    for record in records:
        goes_on = held and record.kind == held[0].kind and record.body.get("continues")
        if record.kind in BREAKS and not goes_on:
            yield from _covered(held)
            held = []
        if held or (record.kind in _STREAMED and record.body.get("part") is not None):
            held.append(record)
        else:
            yield attrs.evolve(record, body=redacted_value(record.body))
    yield from _covered(held)


def _covered(held: list[Record]) -> Iterator[Record]:
    parts = [record.body["text"] for record in held if record.kind == held[0].kind]
    texts = iter(redacted_pieces(parts))
    for record in held:
        if record.kind == held[0].kind:
            rest = {name: value for name, value in record.body.items() if name != "text"}
            # In the order in which it was, so that only what is covered differs.
            body = dict.fromkeys(record.body) | redacted_value(rest)
            yield attrs.evolve(record, body=body | {"text": next(texts)})
        else:
            yield attrs.evolve(record, body=redacted_value(record.body))
