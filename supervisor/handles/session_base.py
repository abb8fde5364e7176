"""Base classes of a session handle: its identity, its inputs and its records."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractContextManager, asynccontextmanager
from typing import Any, Literal

from supervisor.core import events as ev
from supervisor.core.creation import Message
from supervisor.core.errors import ConfigError, InputRefused, short_repr
from supervisor.core.ids import InputId, SessionId, TurnId
from supervisor.core.info import Info
from supervisor.core.receipts import Receipt, TurnResult
from supervisor.core.records import Record
from supervisor.core.state import SessionState as Row
from supervisor.core.state import Source, WhenBusy
from supervisor.core.step import ReplyValue
from supervisor.core.trace_context import check_trace
from supervisor.core.validation import (
    check_bool,
    check_choice,
    check_integer,
    check_prompt,
    check_text,
)
from supervisor.drivers.turn import CURRENT_SESSION
from supervisor.sessions.feed import Watcher
from supervisor.sessions.maintenance import export_session, replay
from supervisor.sessions.transcript import Transcript
from supervisor.store.export import ExportFormat
from supervisor.store.repair import RepairReport

from .parts import Parts
from .shapes import Input, InputState, TurnRecords, input_status
from .submission import (
    ResultWaiter,
    find_input_state,
    make_input,
    make_steering,
    run_input_hooks,
    send,
    wait_for_result,
)


class SessionBase:
    """Base of `Session`: its id, its equality, and requests to its actor."""

    __slots__ = ("_caller", "_parts", "_turn", "id")

    def __init__(
        self,
        parts: Parts,
        session_id: SessionId,
        *,
        caller: SessionId | None = None,
        turn: TurnId | None = None,
    ) -> None:
        self._parts = parts
        # The session whose agent holds this handle and the turn in which it got it; None for users.
        self._caller = caller
        self._turn = turn
        self.id = session_id

    def __repr__(self) -> str:
        return f"<Session {self.id}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SessionBase) and other.id == self.id

    def __hash__(self) -> int:
        return hash(self.id)

    def _source(self) -> Source:
        """Return the source of an input: `parent` for an agent above this session, else `user`."""
        inside = self._calling_session()
        return (
            "parent" if inside and self._parts.admission.is_descendant(self.id, inside) else "user"
        )

    def _mark_awaited(self) -> AbstractContextManager[None]:
        """Record during the block that the calling agent's session waits for this session."""
        return self._parts.registry.awaiting(self._calling_session(), self.id)

    def _calling_session(self) -> SessionId | None:
        """Return the session whose agent makes this call, or None for a user."""
        return self._caller or CURRENT_SESSION.get()

    def _refuse_own_session(self, what: str, instead: str) -> None:
        """Raise `InputRefused` if this session's own agent calls: it would wait for itself."""
        if CURRENT_SESSION.get() == self.id:
            raise InputRefused(
                f"{what} on the agent's own session would never return", hint=instead
            )

    def _stamp(self) -> Any:  # noqa: ANN401 - a Stamp
        return self._parts.services.stamp()

    async def _ask(self, event: ev.Event) -> ReplyValue:
        return await self._parts.router.ask(self.id, event)

    async def _row(self) -> Row:
        return await self._parts.registry.row(self.id)


class SessionInputs(SessionBase):
    """The methods of `Session` that concern inputs."""

    __slots__ = ()

    async def send(
        self,
        text: str,
        *,
        attachments: Sequence[Mapping[str, Any]] = (),
        when_busy: WhenBusy = "queue",
        idempotency_key: str | None = None,
        ttl_seconds: float | None = None,
        if_stopped: Literal["resume", "reject"] = "resume",
        queued: Literal["keep", "cancel"] = "keep",
        trace: Mapping[str, str] | None = None,
    ) -> Receipt:
        """Send an input; return its receipt when the input is durable.

        While a turn runs, `when_busy` decides: `queue` the input, `steer` the turn with it,
        `interrupt` the turn and run the input next (with `queued="cancel"`, all queued inputs are
        cancelled), or `reject` the input. A stopped session is resumed unless `if_stopped` is
        `reject`. An input that has not started after `ttl_seconds` expires. An ACP agent is told
        the fields of `trace`: `traceparent`, `tracestate` and `baggage`.

        Raise `InputRefused` or `InputTooLarge` for an invalid input, `QueueFull` if too many inputs
        are queued, `BudgetSpent` if a budget is exhausted, `SessionNotActive` if the session is
        stopped or archived and cannot resume, and `StoreDegraded` if the store cannot write. If the
        call is cancelled, the input may have been accepted; with an `idempotency_key` it can be
        sent again safely: the same request returns the same receipt, and another request with that
        key raises `IdempotencyConflict`.
        """
        check_choice("queued", queued, Literal["keep", "cancel"])
        event = make_input(
            self._parts,
            text,
            attachments=attachments,
            when_busy=when_busy,
            ttl_seconds=ttl_seconds,
            if_stopped=if_stopped,
            source=self._source(),
        )
        if queued == "cancel":
            event = event.changed(queued=queued)
        if trace is not None:
            event = event.changed(trace=check_trace(trace) or None)
        receipt = await send(self._parts, self.id, event, idempotency_key)
        assert isinstance(receipt, Receipt)
        return receipt

    async def prompt(
        self,
        text: str,
        *,
        attachments: Sequence[Mapping[str, Any]] = (),
        when_busy: WhenBusy = "queue",
        idempotency_key: str | None = None,
        ttl_seconds: float | None = None,
        if_stopped: Literal["resume", "reject"] = "resume",
    ) -> TurnResult:
        """Send an input and wait for its turn; return the result of that turn.

        The turn is the one that the input starts or is steered into. Raise as `send` does,
        `InputRefused` if the input is cancelled or expires, and `SessionNotActive` if the session
        stops while the input is queued. Cancelling the call undoes nothing: an accepted input
        stays accepted.
        """
        parts, agent = self._parts, self._calling_session()
        if agent is not None:
            self._refuse_own_session("prompt()", "use send(), which does not wait for the turn")
        event = make_input(
            parts,
            text,
            attachments=attachments,
            when_busy=when_busy,
            ttl_seconds=ttl_seconds,
            if_stopped=if_stopped,
            source="user" if agent is None else self._source(),
        )
        with ResultWaiter(parts.registry, self.id, event.input, agent=agent) as pending:
            receipt = await send(parts, self.id, event, idempotency_key, pending)
            assert isinstance(receipt, Receipt)
            if receipt.input_id == event.input:
                return pending.value() if pending.settled.is_set() else await pending.wait()
        return await self.result(receipt.input_id)

    async def result(self, input_id: str) -> TurnResult:
        """Wait for the turn that an input starts or is steered into; return its result.

        Return at once if that turn has ended. Raise `InputRefused` if the session never accepted
        such an input or if the input was cancelled or expired, and `SessionNotActive` if the
        session is stopped with the input queued. Cancelling the call changes nothing.
        """
        check_text("input_id", input_id)
        self._refuse_own_session("result()", "wait for it outside this agent")
        with self._mark_awaited():
            return await wait_for_result(self._parts, self.id, InputId(input_id))

    async def input(self, input_id: str) -> InputState:
        """Return the current state of an input, however old it is.

        Raise `InputRefused` if the session never accepted such an input.
        """
        check_text("input_id", input_id)
        return await find_input_state(self._parts, self.id, InputId(input_id))

    async def steer(
        self, text: str, *, idempotency_key: str | None = None, ttl_seconds: float | None = None
    ) -> Receipt:
        """Steer the running turn with a text; return the receipt when the text is durable.

        Raise `NotRunning` if no turn runs, and otherwise as `send` does. Cancellation is as for
        `send`.
        """
        event = make_steering(self._parts, text, ttl_seconds=ttl_seconds, source=self._source())
        receipt = await send(self._parts, self.id, event, idempotency_key)
        assert isinstance(receipt, Receipt)
        return receipt

    async def inputs(self) -> list[Input]:
        """Return the accepted inputs that are not settled, in the order in which they will run."""
        clock = self._parts.services.clock
        return [
            Input(
                id=waiting.id,
                text=waiting.text,
                status=input_status(waiting),
                position=position,
                accepted_at=waiting.accepted_at,
                expires_at=clock.wall_time_of(waiting.expires_at),
            )
            for position, waiting in enumerate((await self._row()).inputs)
        ]

    async def edit_input(self, input_id: str, text: str) -> None:
        """Replace the text of a queued input; raise `InputRefused` if it is not queued."""
        text = check_prompt(text)
        edited, source = InputId(input_id), self._source()
        await run_input_hooks(self._parts, self.id, edited, text, when_busy="queue", source=source)
        await self._ask(ev.InputEdited(input=edited, text=text, **self._stamp()))

    async def move_input(self, input_id: str, position: int) -> None:
        """Move a queued input to another position, from 0.

        Raise `InputRefused` if the input is not queued.
        """
        check_integer("position", position, least=0)
        await self._ask(ev.InputMoved(input=InputId(input_id), position=position, **self._stamp()))

    async def promote_input(self, input_id: str) -> Receipt:
        """Steer the running turn with a queued input; return its new receipt.

        Raise `NotRunning` if no turn runs, and `InputRefused` if the input is not queued.
        """
        receipt = await self._ask(ev.InputPromoted(input=InputId(input_id), **self._stamp()))
        assert isinstance(receipt, Receipt)
        return receipt

    async def cancel_input(self, input_id: str) -> None:
        """Cancel a queued input; raise `InputRefused` if it is not queued."""
        await self._ask(ev.InputWithdrawn(input=InputId(input_id), **self._stamp()))


class SessionRecords(SessionBase):
    """The methods of `Session` that concern its records."""

    __slots__ = ()

    @asynccontextmanager
    async def watch(self, after: int = 0) -> AsyncIterator[Watcher]:
        """Open a feed of the records after number `after` and of everything that follows.

        `async for` over the watcher yields each record once and in order, deltas in between, and a
        `Gap` with the numbers of records that were dropped because the reader was too slow. If
        there is no record `after`, it yields a `Reset` and then all records. The
        feed works in every phase and continues over suspension, stop and resume. Leaving the block
        closes it. Raise `ConfigError` if `after` is not a whole number from 0.
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
        transcript = Transcript()
        await self._parts.services.visit_records(self.id, transcript.apply)
        return transcript.messages

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
        """Check the records.

        Without `dry_run`, also append records that close open turns, calls and requests. Return the
        problems found and the number of records appended. No record is rewritten; an unreadable row
        is rebuilt from the records. Raise `RepairRefused` while the session is active, and without
        `force` if the records have errors that appended records cannot repair.
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
