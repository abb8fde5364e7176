"""Implementation of `drivers.port.DriverContext`: the calls that a driver may make."""

from __future__ import annotations

import contextlib
import logging
import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias, Unpack

import attrs
import trio

from actors import ActorStopped, MailboxFull, Ref
from supervisor.core import agent_events
from supervisor.core import events as ev
from supervisor.core.agent_options import OptionValue
from supervisor.core.creation import Message, SpawnOptions
from supervisor.core.errors import NotStorable
from supervisor.core.facts import AnyRecord
from supervisor.core.ids import CallId, RequestId, SessionId, TurnId
from supervisor.core.limits import Ladder
from supervisor.core.log_content import error_content
from supervisor.core.permissions import Permissions
from supervisor.core.records import DataKind
from supervisor.core.state import Decision, SessionState, Usage
from supervisor.core.workspace_root import WorkspaceRoot
from supervisor.drivers.identity import ProcessIdentity
from supervisor.drivers.port import ChildHandle, ChildRequest, News, Stamp, TextKind, TurnHandle
from supervisor.store.examine import readable_records
from supervisor.store.port import ProcessEntry
from supervisor.store.writer_messages import ForgetProcess, NoteProcess

from .hooks.blocking import BlockingHooks
from .log import Log
from .output_budget import OutputShare
from .services import Services
from .slot import SessionSlot
from .subscribers import NEWS_KINDS, news_from_record
from .transcript import Transcript
from .tree_access import TreeAccess
from .writer_requests import ask_repeatedly

logger = logging.getLogger("supervisor")


def _refuse_other_events(event: object) -> None:
    """Raise TypeError, in the driver, for a value that is not an event of a driver."""
    if type(event) not in agent_events.DRIVER_EVENTS:
        raise TypeError(f"a driver reported {type(event).__name__}, which is not an agent event")


# Events that count as progress of the turn.
_PROGRESS_EVENTS = (
    agent_events.CallStarted,
    agent_events.CallEnded,
    agent_events.UsageReported,
    agent_events.SteeringTaken,
    agent_events.SteeringBeganTurn,
    agent_events.PermissionAsked,
    agent_events.AuthenticationRequested,
)
# Pause before another attempt to send to a full mailbox.
_RETRY_SECONDS = 0.01


@attrs.define(eq=False)  # not frozen, as `SessionRequest`
class DriverReport:
    """An event from a driver, with its context; reports of an earlier driver are ignored."""

    context: SessionDriverContext
    event: ev.Event


class SessionDriverContext:
    """Context of one driver: the part of its session that the driver may call.

    `log`, `ref` and `state` belong to the incarnation that started the driver.
    """

    __slots__ = (
        "_backlog",
        "_handled_writes",
        "_hooks",
        "_log",
        "_message_share",
        "_ref",
        "_services",
        "_slot",
        "_state",
        "_tree",
        "is_closed",
    )

    def __init__(
        self,
        slot: SessionSlot,
        services: Services,
        log: Log,
        ref: Ref,
        state: Callable[[], SessionState],
        *,
        tree: TreeAccess,
        hooks: BlockingHooks,
    ) -> None:
        self._slot = slot
        self._services = services
        self._log = log
        self._ref = ref
        self._state = state
        self._tree = tree
        self._hooks = hooks
        # Events that the full mailbox refused, in order; a task retries them until none is left.
        self._backlog: list[ev.Event] | None = None
        # Calls that wrote output since `pace` was called; the budget counts their output.
        self._handled_writes = 0
        # For messages without output; None before the first of them.
        self._message_share: OutputShare | None = None
        # True after the session has dropped this driver; then only its end events count.
        self.is_closed = False

    def belongs_to(self, log: Log) -> bool:
        """Return True if the context belongs to the incarnation that has this log."""
        return self._log is log

    @property
    def session_id(self) -> SessionId:
        return self._slot.id

    @property
    def epoch(self) -> int:
        return self._log.epoch

    @property
    def workspace(self) -> str | None:
        return self._state().workspace

    async def workspace_root(self) -> WorkspaceRoot | None:
        return await self._tree.workspaces.open(self._state())

    async def is_in_workspace(self, path: str) -> bool:
        return await self._tree.workspaces.contains(self._state(), path)

    @property
    def permissions(self) -> Permissions:
        return self._state().permissions

    @property
    def ladder(self) -> Ladder:
        return self._state().terms.ladder

    @property
    def agent_session_id(self) -> str | None:
        remembered = self._state().remembered
        return None if remembered is None else remembered.session_id

    @property
    def wanted_options(self) -> Mapping[str, OptionValue]:
        return self._state().options

    @property
    def given_servers(self) -> Sequence[Mapping[str, Any]]:
        return self._services.given_servers.of(self.session_id)

    @property
    def missing_servers(self) -> Sequence[str]:
        return self._services.given_servers.missing(self.session_id, self._state().mcp_servers)

    @property
    def agent_session_cost(self) -> float:
        session = self._state()
        before = session.remembered.cost_before if session.remembered is not None else None
        return session.usage.cost - (before or 0.0)

    async def record_process(self, identity: ProcessIdentity) -> None:
        await ask_repeatedly(self._services.writer, NoteProcess(self._process(identity)))

    def forget_process(self, identity: ProcessIdentity) -> None:
        # If the writer has stopped, the next recovery finds that the process has exited.
        with contextlib.suppress(ActorStopped, MailboxFull):
            self._services.writer.tell(ForgetProcess(self._process(identity)))

    def _process(self, identity: ProcessIdentity) -> ProcessEntry:
        return ProcessEntry(self.session_id, identity.pid, identity.start_time, identity.boot_id)

    def stamp(self) -> Stamp:
        return self._services.stamp()

    def new_id(self, prefix: str) -> str:
        return self._services.ids.new(prefix)

    def report(self, event: ev.Event) -> bool:
        _refuse_other_events(event)
        return self._backlog is None and self._tell(event)

    def _tell(self, event: ev.Event) -> bool:
        if type(event) is agent_events.TurnEnded:
            self._slot.progress.mark_turn_ended()
        elif type(event) is agent_events.AgentExited:
            self._slot.progress.mark_turn_ended()
            event = event.changed(jitter=random.random())  # noqa: S311 - to spread restarts
        elif isinstance(event, _PROGRESS_EVENTS):
            self._slot.mark_progress()
        return self._send(event)

    def _send(self, event: ev.Event) -> bool:
        """Send the event to the session's actor; return False if its mailbox is full."""
        report = DriverReport(self, event)
        # Before the report is sent, because the actor may handle it at once.
        self._log.hold_output()
        try:
            # Urgent, because requests of callers may fill the mailbox.
            if type(event) is agent_events.TurnEnded:
                self._ref.deliver(report, urgent=True)
            else:
                # A driver goes on after these, and must not find itself called meanwhile.
                self._ref.tell(report, urgent=True)
        except MailboxFull:
            self._log.withdraw_hold()
            return False
        except ActorStopped:
            self._log.withdraw_hold()
            # Only the end of a zombie matters to the next incarnation.
            if type(event) is agent_events.ZombieEnded:
                self._tree.tell_if_live(self._slot.id, event)
        return True

    async def report_when_possible(self, event: ev.Event) -> None:
        while not self.report(event):  # noqa: ASYNC110 - a full mailbox is rare
            await trio.sleep(_RETRY_SECONDS)
        await trio.lowlevel.checkpoint()

    def report_eventually(self, event: ev.Event) -> None:
        _refuse_other_events(event)
        if self._backlog is not None:
            self._backlog.append(event)
        elif not self._tell(event):
            self._backlog = [event]
            self._services.tasks.start_soon(self._send_backlog)

    async def _send_backlog(self) -> None:
        while self._backlog:
            if self._tell(self._backlog[0]):
                del self._backlog[0]
            else:
                await trio.sleep(_RETRY_SECONDS)
        self._backlog = None

    def write_text(
        self, turn: TurnId, kind: TextKind, text: str, *, continues: bool = True
    ) -> None:
        at = self._services.clock.now()
        self._log.add_text(turn, kind, text, at, continues=continues)
        self._handled_writes += 1
        self._slot.mark_progress()
        self._services.flusher.request_flush(self._log)

    def write(self, turn: TurnId, kind: DataKind, body: Mapping[str, Any]) -> None:
        self._log.add(turn, kind, body, self._services.clock.now())
        self._handled_writes += 1
        self._slot.mark_progress()
        self._services.flusher.request_flush(self._log)

    def received_text(self, turn: TurnId) -> str:
        output = self._log.turn_buffer
        return "" if output is None or output.turn != turn else output.received_text.head

    def write_answer(self, turn: TurnId, text: str) -> None:
        output = self._log.turn_buffer
        if output is None or output.turn != turn or not output.received_text.equals(text):
            self.write_text(turn, "agent_text", text, continues=False)

    def count_output(self, turn: TurnId, body: Mapping[str, Any]) -> None:
        self._log.charge(turn, body)
        self._handled_writes += 1

    def mark_progress(self) -> None:
        self._slot.mark_progress()

    @property
    def is_writable(self) -> bool:
        return self._log.is_writable

    async def wait_writable(self) -> None:
        await self._log.wait_writable()

    async def pace(self, messages: int) -> None:
        silent, self._handled_writes = messages - self._handled_writes, 0
        if silent > 0:
            if self._message_share is None:
                self._message_share = self._services.output_budget.share()
            await self._message_share.pace(silent)
        await trio.lowlevel.checkpoint()

    async def history(self, turn: TurnId) -> Sequence[Message]:
        subscribers = self._slot.subscribers
        transcript = subscribers.transcript
        if transcript is None:
            transcript = await self._load_transcript()
            if transcript.is_cacheable:
                subscribers.transcript = transcript
        return transcript.messages_before(turn)

    async def prepare_turn(self, turn: TurnId) -> Sequence[Message]:
        # Usually all of it is in memory, and nothing has to wait.
        subscribers = self._slot.subscribers
        if subscribers.transcript is None:
            history = await self.history(turn)
        else:
            history = subscribers.transcript.messages_before(turn)
        if subscribers.unread_news is None:
            await self._load_news()
        if self._state().workspace is not None:
            await self.workspace_root()  # raises if it was replaced
        return history

    async def _load_transcript(self) -> Transcript:
        """Return the transcript of the session from its readable records."""
        transcript = Transcript()
        try:
            await self._services.visit_records(self._slot.id, transcript.apply)
        except NotStorable as damage:
            logger.warning(
                "history of session %s is incomplete: %s", self._slot.id, error_content(damage)
            )
            transcript = Transcript()
            raw = await self._services.store.raw_records(self._slot.id)
            for record in readable_records(raw, self._slot.id):
                transcript.apply(record)
        return transcript

    async def before_call(
        self, turn: TurnId, call: CallId, name: str, given: Mapping[str, Any] | None
    ) -> None:
        await self._hooks.before_tool_call(self.session_id, turn, call, name, given)

    async def before_request(
        self, turn: TurnId, request: RequestId, asked: Mapping[str, Any]
    ) -> str | None:
        return await self._hooks.before_permission_request(self.session_id, turn, request, asked)

    # The tree ----------------------------------------------------------------------------

    def record_usage(self, turn: TurnId, usage: Usage) -> None:
        self._tree.record_usage(self.session_id, turn, usage)

    async def spawn(
        self, turn: TurnHandle, agent: str, text: str, **options: Unpack[SpawnOptions]
    ) -> ChildHandle:
        return await self._tree.spawn(self.session_id, turn, agent, text, options)

    async def descendant(self, turn: TurnHandle, session_id: str) -> ChildHandle:
        await trio.lowlevel.checkpoint()
        return self._tree.descendant(self.session_id, turn, session_id)

    async def _load_news(self) -> None:
        """Load the unread notifications about children."""
        slot, subscribers = self._slot, self._slot.subscribers
        session = slot.session
        if session is None:
            return
        family = session.family
        if family.news == family.news_read:
            subscribers.unread_news, subscribers.news_read = [], family.news_read
            return
        news: list[AnyRecord] = []

        def keep(record: AnyRecord) -> None:
            if record.kind in NEWS_KINDS:
                news.append(record)

        await self._services.visit_records(slot.id, keep)
        if subscribers.unread_news is None and slot.session is not None and slot.log is not None:
            # Records published during the read are in the list; later ones will be appended.
            known = [record for record in news if record.seq <= slot.log.published_seq]
            subscribers.news_read = slot.session.family.news_read
            subscribers.unread_news = known[subscribers.news_read :]

    def news(self, turn: TurnId) -> list[News]:
        subscribers = self._slot.subscribers
        unread = subscribers.unread_news
        if not unread:
            return []
        read = subscribers.news_read + len(unread)
        if not self.report(agent_events.NewsRead(turn=turn, read=read, **self.stamp())):
            return []  # the mailbox is full: they stay unread
        subscribers.news_read, subscribers.unread_news = read, []
        return [news_from_record(record) for record in unread]

    def requests(self) -> list[ChildRequest]:
        return self._tree.requests(self._state())

    async def answer_request(self, request_id: str, decision: Decision) -> None:
        await self._tree.answer_request(self._state(), request_id, decision)


# Returns the context of a driver, from the slot, log, ref and state of the incarnation.
MakeContext: TypeAlias = Callable[
    [SessionSlot, Log, Ref, Callable[[], SessionState]], SessionDriverContext
]
