"""Publication of durable records beyond their session: hooks, feeds, instruments."""

from __future__ import annotations

from collections.abc import Sequence

from supervisor.core.facts import AnyRecord
from supervisor.core.state import SessionState

from .feed import GlobalFeeds
from .hooks import Hooks
from .hooks.notifications import notify_record
from .inbox import Inbox
from .instruments import Instruments
from .removals import Removals


class Publisher:
    """Passes durable records to the supervisor-wide readers.

    The subscribers of a session tell the inbox and the hooks of a changed badge themselves.
    """

    __slots__ = ("_feeds", "_instruments", "_removals", "hooks", "inbox")

    def __init__(
        self,
        *,
        instruments: Instruments,
        inbox: Inbox,
        hooks: Hooks,
        feeds: GlobalFeeds,
        removals: Removals,
    ) -> None:
        self._instruments = instruments
        self.inbox = inbox
        self.hooks = hooks
        self._feeds = feeds
        self._removals = removals

    def publish(self, records: Sequence[AnyRecord], session: SessionState | None) -> None:
        """Publish durable records of one session; `session` is its state while it has an actor."""
        if self._instruments.record_callbacks:
            self._instruments.published(records)
        if self._instruments.change_callbacks:
            self._instruments.changed(records, session)
        if self.hooks.has_observers:
            for record in records:
                is_replaced = record.session_id in self._removals
                notify_record(self.hooks, record, session=session, is_replaced=is_replaced)
        if self._feeds.readers:
            self._feeds.notify()

    def wake_feeds(self) -> None:
        """Wake the readers of all records."""
        self._feeds.notify()
