"""A session's history, in a form that leaves the house."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from supervisor.core.errors import NotStorable
from supervisor.core.ids import SessionId
from supervisor.core.records import Record
from supervisor.store.exporting import Format, export
from supervisor.store.repair import readable
from supervisor.store.threads import in_thread

if TYPE_CHECKING:
    from supervisor.sessions.house.house import House


async def exported(
    house: House,
    session_id: SessionId,
    format: Format,  # noqa: A002 - the word that every surface uses for it
    *,
    redact: bool,
) -> str:
    """See `Session.export`."""
    stored = await house.tree.stored(session_id)
    info = house.desk.info(stored.row, last_seq=stored.last_seq)
    try:
        records = await house.tree.all_records(session_id)
    except NotStorable:
        if format == "jsonl":
            raise  # that is every record as it is, or nothing
        raw = await house.store.raw_records(session_id)
        records = list(_with_gaps(session_id, readable(raw, session_id), stored.last_seq))
    pieces = export(format, info, records, redact=redact)  # raises at once for an unknown format
    return await in_thread(lambda: "".join(pieces), house.long_work)


def _with_gaps(session_id: SessionId, records: Iterable[Record], last_seq: int) -> Iterator[Record]:
    """What can be read, and where something cannot be, a word about that: people want the rest."""
    expected, at = 1, 0.0
    for record in records:
        if record.seq > expected:
            yield _unreadable(session_id, expected, record.seq - 1, at)
        yield record
        expected, at = record.seq + 1, record.at
    if expected <= last_seq:
        yield _unreadable(session_id, expected, last_seq, at)


def _unreadable(session_id: SessionId, first: int, last: int, at: float) -> Record:
    which = f"record {first}" if first == last else f"records {first} to {last}"
    return Record(session_id, first, at, None, "warning", {"text": f"{which} cannot be read"})
