"""The feed of rows of a remote supervisor, continued over restarts of the daemon.

Rule 1: after each reconnect the first item is a new `Snapshot`; it replaces all rows.
Rule 2: each record of the named sessions arrives once, in order, whatever broke in between.
Rule 3: fields and events of a newer daemon are ignored.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import attrs
import orjson

from supervisor.core.errors import SessionNotFound
from supervisor.core.ids import SessionId
from supervisor.core.records import Reset
from supervisor.core.session_values import Attention, ContextUse, LastOutcome, Phase
from supervisor.decode.light import decode_light
from supervisor.handles.session_rows import (
    RequestClosed,
    RequestOpened,
    SessionGone,
    SessionRow,
    Snapshot,
    StoreChanged,
    TightestBudget,
    WatchItem,
)
from supervisor.sessions.inbox import PermissionRequest
from supervisor.store.pending import StoreState

from .feed import Numbered, RemoteFeed, decode_item
from .stream import ServerSentEvent
from .transport import Transport


class RemoteSessionFeed(RemoteFeed[WatchItem]):
    """The rows of all sessions, and the records of a few; see `supervisor.SessionFeed`."""

    def __init__(self, transport: Transport, sessions: Sequence[SessionId], after: int) -> None:
        self._named = list(sessions)
        self._has_opened = False
        query: dict[str, Any] = {"after": after}
        super().__init__(transport, "v1/watch", query, self._decode_event)

    @property
    def position(self) -> int:
        """The position after which a new feed over the same sessions continues."""
        return self.last_returned

    async def _open(self) -> None:
        try:
            await self._open_named()
        except SessionNotFound:
            if not self._has_opened:
                raise
            await self._drop_deleted()
            await self._open_named()
        self._has_opened = True

    async def _open_named(self) -> None:
        self._query = {"after": self._last_received, "sessions": ",".join(self._named) or None}
        self._query = {name: value for name, value in self._query.items() if value is not None}
        await super()._open()

    async def _drop_deleted(self) -> None:
        """Name only the sessions that still exist: one may be deleted while no daemon is heard."""
        for session_id in list(self._named):
            try:
                await self._transport.request_bytes("GET", f"v1/sessions/{session_id}")
            except SessionNotFound:
                self._named.remove(session_id)

    def _decode_event(self, event: ServerSentEvent) -> Numbered[WatchItem]:
        make = _ITEMS.get(event.name)
        if make is None:
            record, number = decode_item(event)
            assert not isinstance(record, Reset)  # here a snapshot says so
            return record, None if number is None else int(event.id or 0)
        item = make(orjson.loads(event.data))
        if isinstance(item, SessionGone) and item.id in self._named:
            self._named.remove(item.id)
        return item, None if event.id is None else int(event.id)


def _known_fields(kind: Any, plain: Mapping[str, Any]) -> dict[str, Any]:  # noqa: ANN401 - an attrs class
    return {name: plain[name] for name in _FIELDS[kind] if name in plain}


_FIELDS: Final = {
    kind: tuple(field.name for field in attrs.fields(kind))
    for kind in (
        SessionRow,
        TightestBudget,
        ContextUse,
        LastOutcome,
        Attention,
        Snapshot,
        SessionGone,
        RequestClosed,
        PermissionRequest,
        StoreState,
    )
}


def _row(plain: Mapping[str, Any]) -> SessionRow:
    # Not with `decode`: rows are most of what arrives, up to two hundred a second.
    fields = _known_fields(SessionRow, plain)
    fields["tags"] = tuple(fields["tags"])
    fields["phase"] = Phase(fields["phase"])
    if fields["budget"] is not None:
        fields["budget"] = TightestBudget(**_known_fields(TightestBudget, fields["budget"]))
    if fields["last_outcome"] is not None:
        fields["last_outcome"] = LastOutcome(**_known_fields(LastOutcome, fields["last_outcome"]))
    if fields.get("context") is not None:
        fields["context"] = ContextUse(**_known_fields(ContextUse, fields["context"]))
    fields["attention"] = tuple(
        Attention(**_known_fields(Attention, item)) for item in fields["attention"]
    )
    return SessionRow(**fields)


def _request(plain: Mapping[str, Any]) -> PermissionRequest:
    return decode_light(PermissionRequest, _known_fields(PermissionRequest, plain))


def _store(plain: Mapping[str, Any]) -> StoreState:
    return decode_light(StoreState, _known_fields(StoreState, plain))


def _snapshot(plain: Mapping[str, Any]) -> Snapshot:
    fields = _known_fields(Snapshot, plain)
    fields["rows"] = tuple(map(_row, fields["rows"]))
    fields["requests"] = tuple(map(_request, fields["requests"]))
    fields["store"] = _store(fields["store"])
    return Snapshot(**fields)


_ITEMS: Final[Mapping[str, Callable[[Any], WatchItem]]] = {
    "snapshot": _snapshot,
    "row": _row,
    "gone": lambda plain: SessionGone(**_known_fields(SessionGone, plain)),
    "request": lambda plain: RequestOpened(_request(plain["request"])),
    "answered": lambda plain: RequestClosed(**_known_fields(RequestClosed, plain)),
    "store": lambda plain: StoreChanged(_store(plain["store"])),
}
