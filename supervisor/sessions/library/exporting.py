"""A session's history, in a form that leaves the house."""

from __future__ import annotations

from typing import TYPE_CHECKING

from supervisor.core.ids import SessionId
from supervisor.store.exporting import Format, export
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
    records = await house.tree.all_records(session_id)
    pieces = export(format, info, records, redact=redact)  # raises at once for an unknown format
    return await in_thread(lambda: "".join(pieces), house.long_work)
