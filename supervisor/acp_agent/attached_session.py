"""A session that the client has open: its feed becomes updates for the client.

Rule 1: the answer to the request that opened the session is sent before any update that is live.
Rule 2: a prompt is answered when its turn is over and all updates of the turn are queued.
Rule 3: records that a slow client has missed are read again: no text is lost.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Any, Final

import trio

from supervisor.client import RemoteSession, RemoteSupervisor
from supervisor.core.errors import SessionNotActive, SupervisorError
from supervisor.core.ids import RequestId, SessionId
from supervisor.core.info import Info
from supervisor.core.records import Delta, Gap, Item, Record, Reset
from supervisor.handles.session_rows import SessionRow
from supervisor.json_rpc.rpc_messages import INTERNAL_ERROR, RESOURCE_NOT_FOUND, RpcError
from supervisor.sessions.inbox import PermissionRequest

from .acp_options import AcpOptions
from .client_link import ClientLink
from .client_requests import Question, Questions
from .notices import notice_of
from .own_prompts import OwnPrompts, input_of
from .permission_form import answered_card, call_for, request_card, request_of
from .record_updates import SessionTranslator
from .session_jobs import SessionJobs
from .slash_commands import available_commands
from .tool_cards import Update, card_id, child_changed
from .turn_answers import error_data
from .usage_updates import UsageUpdates

# Records that are read for what they say of the agent; a page of the store has 500.
_MAX_SILENT: Final = 2_000


class AttachedSession:
    """One session of one connection; `nursery` is the connection's."""

    def __init__(
        self,
        sup: RemoteSupervisor,
        info: Info,
        client_id: str,
        *,
        link: ClientLink,
        questions: Questions,
        options: AcpOptions,
        nursery: trio.Nursery,
    ) -> None:
        self._sup = sup
        self._link = link
        self._questions = questions
        self._options = options
        self.info = info
        self.client_id = client_id
        self.handle: RemoteSession = sup.session(info.id)
        self.prompts = OwnPrompts()
        self.jobs = SessionJobs(self.handle, self.prompts, nursery)
        self.translator = SessionTranslator(title=info.title)
        self._usage = UsageUpdates.of(info)
        # Until the first prompt of any client: agent and permission mode can still be changed.
        self.is_new = info.turns == 0 and info.queued == 0
        # The MCP servers that the client gave; another session in its place gets them too.
        self.given_servers: tuple[Mapping[str, Any], ...] = ()
        # True once the request that opened the session can be answered.
        self.is_started = False
        # Called when an option has changed.
        self.on_changed: Callable[[], Awaitable[None]] | None = None
        self._is_replaying = False
        # Records up to this number are not told: the store was restored from an older copy.
        self._skip_until = 0
        # The last card of each child, so that an equal one is not sent again.
        self._told_cards: dict[SessionId, Update] = {}
        self._is_answered = trio.Event()
        self._scope = trio.CancelScope()

    @property
    def id(self) -> SessionId:
        """The id of the session; the client may know it by another one."""
        return self.info.id

    # The task -----------------------------------------------------------------------------

    async def run(
        self, *, replay: bool, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> None:
        """Follow the session until it is detached; with `replay`, tell its history first.

        The task has started when the request that opened the session can be answered. Before that,
        raise the errors of `RemoteSession.watch`.
        """
        end = RpcError(
            INTERNAL_ERROR,
            "the session is not followed any more",
            error_data("detached", "load the session again", "after"),
        )
        try:
            with self._scope:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(self.jobs.run)
                    await self._follow(replay=replay, task_status=task_status)
                    nursery.cancel_scope.cancel(reason="the session was deleted")
                end = RpcError(RESOURCE_NOT_FOUND, "the session was deleted")
        finally:
            self.prompts.end_all(end)

    def go_live(self) -> None:
        """Send live updates from now on: the request that opened the session is answered."""
        self._is_answered.set()

    async def refresh(self) -> None:
        """Read again what the client is shown as options."""
        self.info = await self.handle.info()

    async def give_servers(self, servers: tuple[Mapping[str, Any], ...]) -> None:
        """Give MCP servers of the client to the agent, from its next start.

        None leaves the session as it is: another client may have given some.
        """
        if servers:
            with suppress(SessionNotActive):  # it is archived, and can be read
                await self.handle.set(mcp_servers=servers)
            self.given_servers = servers

    def detach(self) -> None:
        """End the task; the session goes on."""
        self._scope.cancel(reason="the session is detached")

    async def _follow(self, *, replay: bool, task_status: trio.TaskStatus[None]) -> None:
        last = self.info.last_seq
        # The records of a short session are read without being told: they have the agent's
        # commands, and what is open.
        start = 0 if replay or last <= _MAX_SILENT else last
        self._is_replaying = start < last
        self._skip_until = 0 if replay else last
        async with self.handle.watch(after=start) as feed:
            if not self._is_replaying:
                await self._begin_live(task_status)
            async for item in feed:
                await self._tell(item)
                if self._is_replaying and _number(item) >= last:
                    self._is_replaying = False
                    await self._begin_live(task_status)

    async def _begin_live(self, task_status: trio.TaskStatus[None]) -> None:
        self.is_started = True
        task_status.started()
        await self._is_answered.wait()
        await self._send_commands()
        await self._send_usage()
        with suppress(SupervisorError):
            for request in await self._sup.permissions():
                if request.session_id == self.id:
                    self.ask(request)

    # Records ------------------------------------------------------------------------------

    async def _tell(self, item: Item) -> None:
        match item:
            case Delta():
                if not self._is_replaying and self._shows():
                    await self._send(self.translator.of_delta(item))
            case Record():
                await self._tell_record(item)
            case Gap(first, last):
                await self._tell_missed(first, last)
            case Reset(last):
                # The numbers are those of another store; what was told stays told.
                self.translator.forget_parts()
                self._skip_until = last

    async def _tell_missed(self, first: int, last: int) -> None:
        async with self.handle.watch(after=first - 1) as feed:
            async for item in feed:
                match item:
                    case Record() if item.seq <= last:
                        await self._tell_record(item)
                    case Gap(start, end) if start <= last:
                        await self._tell_missed(start, min(end, last))
                if _number(item) >= last:
                    return

    async def _tell_record(self, record: Record) -> None:
        input_id = input_of(record)
        if input_id is not None:
            await self.jobs.wait_sent()  # then it is known whether the input is ours
        is_own = not self._is_replaying and self.prompts.is_own(input_id)
        self.prompts.begin(record)
        updates = self.translator.of_record(record, is_own=is_own)
        is_history = self._is_replaying or record.seq <= self._skip_until
        if record.seq > self._skip_until and (
            self._is_replaying or self._shows() or record.kind == "session_changed"
        ):
            await self._send(updates)
        if not is_history:
            await self._tell_live(record)
        self.prompts.finish(record, with_usage=self._options.unstable)
        if self.is_new and record.kind == "input_accepted":
            self.is_new = False
            await self._changed()

    async def _tell_live(self, record: Record) -> None:
        """Tell what history has not: notices, requests, and changed commands."""
        found = notice_of(record) if self._link.offers.notices else None
        if found is not None:
            await self._send([found])
        self._usage.add(record)
        if self._shows():
            await self._send_usage()
        if record.kind == "permission_asked":
            # What the mode, a rule or a hook decides is recorded too.
            if record.body["asks"] == "person" and self._shows():
                self.ask(request_of(record))
        elif record.kind == "permission_answered":
            request_id = RequestId(record.body["request_id"])
            if self._questions.close(request_id):
                await self._send([answered_card(request_id, record.body.get("decision"))])
        elif record.kind == "options_changed":
            await self.refresh()
            await self._changed()
        elif record.kind == "session_changed" and "choices" in record.body:
            await self.refresh()
            await self._send_commands()
            await self._changed()

    def _shows(self) -> bool:
        """Return False for turns of others, if the client wants only its own."""
        return not self._options.only_own_turns or self.prompts.runs_own_turn

    async def _send(self, updates: list[Update]) -> None:
        for update in updates:
            await self._link.update(self.client_id, update, self.prompts.trace)

    async def _send_commands(self) -> None:
        commands = available_commands(self.translator.agent_choices.get("commands"))
        await self._link.update(
            self.client_id,
            {"sessionUpdate": "available_commands_update", "availableCommands": commands},
        )

    async def _send_usage(self) -> None:
        update = self._usage.changed()
        if update is not None:
            await self._send([update])

    async def _changed(self) -> None:
        if self.on_changed is not None and self._is_answered.is_set():
            await self.on_changed()

    # Requests and children ----------------------------------------------------------------

    def ask(
        self,
        request: PermissionRequest,
        *,
        asker: SessionRow | None = None,
        child: SessionId | None = None,
    ) -> None:
        """Ask the client for a decision.

        `asker` is the descendant whose request it is, `child` the child on the way to it.
        """
        call_id = call_for(request, self.translator.open_calls) if asker is None else None
        if child in self.translator.open_cards:
            call_id = card_id(str(child))
        name = None if asker is None else asker.name or asker.role or asker.agent
        self._questions.ask(
            Question(
                request=request,
                session_id=self.client_id,
                call_id=call_id or str(request.id),
                asker=name,
                card=request_card(request, name) if call_id is None else None,
            )
        )

    async def tell_title(self, title: str | None) -> None:
        """Tell the title, which is that of the first prompt unless one was set."""
        if title != self.translator.title and self._is_answered.is_set():
            self.translator.title = title
            await self._send([{"sessionUpdate": "session_info_update", "title": title}])

    async def tell_child(self, row: SessionRow) -> None:
        """Keep the card of a child current, until its first input has ended."""
        if row.id not in self.translator.open_cards or self._is_replaying or not self._shows():
            self._told_cards.pop(row.id, None)
            return
        update = child_changed(row)
        if self._told_cards.get(row.id) != update:
            self._told_cards[row.id] = update
            await self._send([update])


def _number(item: Item) -> int:
    match item:
        case Record():
            return item.seq
        case Gap():
            return item.last
        case _:
            return 0
