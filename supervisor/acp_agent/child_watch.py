"""The descendants of the attached sessions: their cards, and their requests.

Rule 1: a request of a session that is not attached goes to its nearest attached ancestor.
Rule 2: one feed serves all attached sessions; a client that does not read makes it skip rows.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Final

import trio

from supervisor.client import RemoteSupervisor
from supervisor.core.errors import SupervisorError
from supervisor.core.ids import RequestId, SessionId
from supervisor.core.log_content import error_content
from supervisor.handles.session_rows import (
    RequestClosed,
    RequestOpened,
    SessionGone,
    SessionRow,
    Snapshot,
    WatchItem,
)
from supervisor.sessions.inbox import PermissionRequest

from .attached_session import AttachedSession
from .client_link import ClientLink
from .client_requests import Questions
from .permission_form import answered_card

logger = logging.getLogger("supervisor")

_PAUSE_SECONDS: Final = 2.0


class ChildWatch:
    """The rows of all sessions, for the children of those that are attached."""

    def __init__(
        self,
        sup: RemoteSupervisor,
        link: ClientLink,
        questions: Questions,
        attached: Mapping[SessionId, AttachedSession],
    ) -> None:
        self._sup = sup
        self._link = link
        self._questions = questions
        self._attached = attached
        self._rows: dict[SessionId, SessionRow] = {}
        self._requests: dict[RequestId, PermissionRequest] = {}

    async def run(self) -> None:
        """Follow the rows until cancelled."""
        while True:
            try:
                async with self._sup.watch_sessions() as feed:
                    async for item in feed:
                        await self._take(item)
            except SupervisorError as error:
                logger.warning("children are not followed: %s", error_content(error))
            await trio.sleep(_PAUSE_SECONDS)

    def ask_pending(self) -> None:
        """Ask the pending requests again: another session is attached."""
        for request in self._requests.values():
            self._ask(request)

    async def _take(self, item: WatchItem) -> None:
        match item:
            case Snapshot():
                await self._take_snapshot(item)
            case SessionRow():
                self._rows[item.id] = item
                await self._tell(item)
            case SessionGone(session_id):
                self._rows.pop(session_id, None)
            case RequestOpened(request):
                self._requests[request.id] = request
                self._ask(request)
            case RequestClosed(request_id, _, decision):
                await self._close(request_id, decision)

    async def _take_snapshot(self, snapshot: Snapshot) -> None:
        self._rows = {row.id: row for row in snapshot.rows}
        pending = {request.id: request for request in snapshot.requests}
        for request_id in self._requests.keys() - pending.keys():
            await self._close(request_id, None)
        self._requests = pending
        self.ask_pending()
        for row in snapshot.rows:
            await self._tell(row)

    async def _tell(self, row: SessionRow) -> None:
        session = self._attached.get(row.id)
        if session is not None:
            await session.tell_title(row.title)
        parent = None if row.parent is None else self._attached.get(row.parent)
        if parent is not None:
            await parent.tell_child(row)

    def _ask(self, request: PermissionRequest) -> None:
        asker = self._rows.get(request.session_id)
        if asker is None or asker.id in self._attached:
            return  # an attached session asks by itself
        child: SessionRow | None = asker
        while child is not None and child.parent is not None:
            ancestor = self._attached.get(child.parent)
            if ancestor is not None:
                ancestor.ask(request, asker=asker, child=child.id)
                return
            child = self._rows.get(child.parent)

    async def _close(self, request_id: RequestId, decision: str | None) -> None:
        request = self._requests.pop(request_id, None)
        if request is None or request.session_id in self._attached:
            return
        session_id = self._questions.close(request_id)
        if session_id is not None:
            await self._link.update(session_id, answered_card(request_id, decision))
