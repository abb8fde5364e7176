"""Records of a session: watch, read, export, examine and replay them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from supervisor.core.creation import Message
from supervisor.core.errors import ConfigError, short_repr
from supervisor.core.ids import TurnId
from supervisor.core.info import Info
from supervisor.core.records import Record
from supervisor.core.validation import check_bool, check_choice
from supervisor.sessions.feed import Watcher
from supervisor.sessions.maintenance import export_session, replay
from supervisor.sessions.transcript import messages_from_records
from supervisor.store.export import ExportFormat
from supervisor.store.repair import RepairReport

from .session_base import SessionBase
from .shapes import TurnRecords


class SessionRecords(SessionBase):
    """The methods of `Session` that concern its records."""

    __slots__ = ()

    @asynccontextmanager
    async def watch(self, after: int = 0) -> AsyncIterator[Watcher]:
        """Open a feed of the records after number `after` and of everything that follows.

        `async for` over the watcher yields each record once and in order, deltas in between, and
        a `Gap` with the numbers of records that it was too slow to receive. The feed works in
        every phase and continues over suspension, stop and resume. Leaving the block closes it.
        Raise `ConfigError` if `after` is not a whole number from 0.
        """
        if isinstance(after, bool) or not isinstance(after, int) or after < 0:
            raise ConfigError(
                f"after is {short_repr(after)}", hint="give the number of a record, or 0"
            )
        self._parts.services.refuse_if_closed()
        slot = self._parts.registry.slot(self.id)
        watcher = Watcher(self.id, self._parts.services.store, after=after)
        slot.subscribers.add_watcher(watcher)
        try:
            stored = await self._parts.registry.stored(self.id)
            watcher.begin(stored.last_seq, slot.partial_delta())
            yield watcher
        finally:
            slot.subscribers.remove_watcher(watcher)
            self._parts.registry.drop_unused(slot)

    async def transcript(self) -> list[Message]:
        """Return the messages of the current chapter, in order."""
        await self._row()
        return messages_from_records(await self._parts.services.all_records(self.id))

    async def history(self) -> list[TurnRecords]:
        """Return all records, grouped by turn; records between two turns are a group too."""
        await self._row()
        groups: list[tuple[TurnId | None, list[Record]]] = []
        for record in await self._parts.services.all_records(self.id):
            if not groups or groups[-1][0] != record.turn_id:
                groups.append((record.turn_id, []))
            groups[-1][1].append(record)
        return [TurnRecords(turn, tuple(records)) for turn, records in groups]

    async def export(
        self,
        format: ExportFormat = "markdown",  # noqa: A002 - its name in every interface
        *,
        redact: bool = False,
    ) -> str:
        """Return the session as text: `markdown`, `jsonl` (can be imported) or an `html` page.

        With `redact`, text that looks like a token or a password is masked. Raise `ConfigError`
        for an unknown format.
        """
        check_choice("format", format, ExportFormat)
        return await export_session(
            self._parts.services,
            self._parts.registry,
            self._parts.admission,
            self.id,
            format,
            redact=check_bool("redact", redact),
        )

    async def repair(self, *, dry_run: bool = True, force: bool = False) -> RepairReport:
        """Check the records; without `dry_run`, also append records that close what is open.

        Return the problems found and the number of records appended. No record is rewritten; an
        unreadable row is rebuilt from the records. Raise `RepairRefused` while the session is
        active, and without `force` if the records have errors that appended records cannot repair.
        """
        check_bool("dry_run", dry_run)
        return await self._parts.repair.repair(
            self.id, dry_run=dry_run, force=check_bool("force", force)
        )

    async def replay(self, at: int) -> Info:
        """Return the `Info` of the session as of record number `at`.

        Raise `RecordNotFound` if the session has no such record.
        """
        return await replay(self._parts.services, self._parts.registry, self.id, at)
