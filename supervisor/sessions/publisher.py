"""Publication of durable records beyond their session: inbox, hooks, feeds, instruments."""

from __future__ import annotations

from collections.abc import Sequence

from supervisor.core.records import Record
from supervisor.core.state import SessionState

from .feed import GlobalFeeds
from .hooks import Hooks
from .hooks.notifications import notify_badge, notify_record
from .inbox import REQUEST_KINDS, Inbox
from .instruments import Instruments
from .removals import Removals


class Publisher:
    """Passes durable records and state changes to the supervisor-wide readers."""

    __slots__ = ("_feeds", "_hooks", "_inbox", "_instruments", "_removals")

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
        self._inbox = inbox
        self._hooks = hooks
        self._feeds = feeds
        self._removals = removals

    def publish(self, records: Sequence[Record], session: SessionState | None) -> None:
        """Publish durable records of one session; `session` is its state while it has an actor."""
        if self._instruments.record_callbacks:
            self._instruments.published(records)
        has_observers = self._hooks.has_observers
        for record in records:
            if record.kind in REQUEST_KINDS:
                self._inbox.apply(record)
            if has_observers:
                is_replaced = record.session_id in self._removals
                notify_record(self._hooks, record, session=session, is_replaced=is_replaced)
        if self._feeds:
            self._feeds.notify()

    def publish_state(self, before: SessionState | None, session: SessionState) -> None:
        """Notify observers of a change of the session's badge."""
        if self._hooks.has_observers:
            notify_badge(self._hooks, before, session)

    def wake_feeds(self) -> None:
        """Wake the readers of all records."""
        self._feeds.notify()
