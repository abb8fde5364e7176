"""What users hold of a session: everything they may do to it, and nothing that they may not see."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractContextManager, asynccontextmanager
from typing import TYPE_CHECKING, Any, Literal, Self, Unpack

import attrs
import trio

from supervisor.core import events as ev
from supervisor.core.creation import Message
from supervisor.core.errors import ConfigError, InputRefused, shown
from supervisor.core.ids import InputId, RequestId, SessionId, TurnId
from supervisor.core.info import Info
from supervisor.core.limits import Limits
from supervisor.core.receipts import InterruptReport, Receipt
from supervisor.core.records import Record
from supervisor.core.session import Lifetime, OnEnd, PermissionRule, Phase, Source, WhenBusy
from supervisor.core.session import Session as Row
from supervisor.core.step import UnderWay
from supervisor.drivers.turn import INSIDE
from supervisor.sessions.library.exporting import exported
from supervisor.sessions.library.mending import repair, replay
from supervisor.sessions.shell.feed import Watcher
from supervisor.sessions.shell.past import messages_of
from supervisor.sessions.shell.results import TurnResult
from supervisor.store.exporting import Format
from supervisor.store.repair import RepairReport

from .checks import (
    a_flag,
    changed_limits,
    checked_custom,
    checked_tags,
    exact,
    known_word,
    role_of,
    some_text,
)
from .forking import fork
from .interrupts import interrupt
from .plans import make_order
from .sending import idempotency_of, make_input, make_steering, send, show_to_hooks
from .shapes import Input, InputState, Options, Role, Scope, TurnRecords, Why, status_of
from .waiting import ResultOf, state_of_input, wait_for_result
from .why import why

if TYPE_CHECKING:
    from supervisor.sessions.house.house import House


class Session:
    """A handle on a session: it can be made for any id, and is good for as long as you like.

    Every method raises `SessionNotFound` if there is no such session.
    """

    __slots__ = ("_caller", "_house", "_turn", "id")

    def __init__(
        self,
        house: House,
        session_id: SessionId,
        *,
        caller: SessionId | None = None,
        turn: TurnId | None = None,
    ) -> None:
        self._house = house
        # The session whose agent holds this handle, and the turn that it got it in, if one does.
        self._caller = caller
        self._turn = turn
        self.id = session_id

    def __repr__(self) -> str:
        return f"<Session {self.id}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Session) and other.id == self.id

    def __hash__(self) -> int:
        return hash(self.id)

    # Input --------------------------------------------------------------------------------

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
    ) -> Receipt:
        """Give the session an input; the receipt says that it is durable, and where it is now.

        `when_busy` says what to do if a turn is running: `queue` it, `steer` the turn with it,
        `interrupt` the turn and run it instead (with `queued="cancel"`, instead of all that waits
        too), or `reject` it. Cancelled while it waits, the input may still be accepted; with an
        `idempotency_key` it can be sent again safely.
        """
        known_word("queued", queued, Literal["keep", "cancel"])
        event = make_input(
            self._house,
            text,
            attachments=attachments,
            when_busy=when_busy,
            ttl_seconds=ttl_seconds,
            if_stopped=if_stopped,
            source=self._source(),
        )
        if queued == "cancel":
            event = attrs.evolve(event, queued=queued)
        return await send(self._house, self.id, event, idempotency_key)

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
        """`send`, and wait for the end of the turn that the input began, or was steered into.

        Giving up the wait changes nothing. Raises `InputRefused` if the input was cancelled or
        expired, and `SessionNotActive` if the session stopped and holds it.
        """
        self._refuse_from_inside("prompt()", "send() it instead")
        event = make_input(
            self._house,
            text,
            attachments=attachments,
            when_busy=when_busy,
            ttl_seconds=ttl_seconds,
            if_stopped=if_stopped,
            source=self._source(),
        )
        with ResultOf(self._house, self.id, event.input) as pending, self._awaited():
            receipt = await send(self._house, self.id, event, idempotency_key)
            if receipt.input_id == event.input:
                return await pending.wait()
        return await self.result(receipt.input_id)

    async def result(self, input_id: str) -> TurnResult:
        """Wait for the end of the turn that an input began, or was steered into.

        For an input that is over the answer comes at once. Raises as `prompt` does, and
        `InputRefused` if no such input was ever accepted.
        """
        some_text("input_id", input_id)
        self._refuse_from_inside("result()", "let somebody else wait for it")
        with self._awaited():
            return await wait_for_result(self._house, self.id, InputId(input_id))

    async def input(self, input_id: str) -> InputState:
        """What has become of an input so far, however long ago it was accepted.

        Raises `InputRefused` if it never was.
        """
        some_text("input_id", input_id)
        return await state_of_input(self._house, self.id, InputId(input_id))

    async def steer(
        self, text: str, *, idempotency_key: str | None = None, ttl_seconds: float | None = None
    ) -> Receipt:
        """Guidance for the turn that is running; raises `NotRunning` if none is."""
        event = make_steering(self._house, text, ttl_seconds=ttl_seconds, source=self._source())
        return await send(self._house, self.id, event, idempotency_key)

    async def inputs(self) -> list[Input]:
        """What is accepted and not settled, in the order in which it will run."""
        return [
            Input(
                id=waiting.id,
                text=waiting.text,
                status=status_of(waiting),
                position=position,
                accepted_at=waiting.accepted_at,
                expires_at=waiting.expires_at,
            )
            for position, waiting in enumerate((await self._row()).inputs)
        ]

    async def edit_input(self, input_id: str, text: str) -> None:
        """Another text for an input that still waits in the queue."""
        edited, source = InputId(input_id), self._source()
        await show_to_hooks(self._house, self.id, edited, text, when_busy="queue", source=source)
        await self._ask(ev.InputEdited(input=InputId(input_id), text=exact(text), **self._stamp()))

    async def move_input(self, input_id: str, position: int) -> None:
        """Another place in the queue, from 0."""
        if isinstance(position, bool) or not isinstance(position, int) or position < 0:
            raise ConfigError(f"position is {shown(position)}", hint="give a whole number, from 0")
        await self._ask(ev.InputMoved(input=InputId(input_id), position=position, **self._stamp()))

    async def promote_input(self, input_id: str) -> Receipt:
        """Make guidance for the running turn of what waits in the queue."""
        receipt = await self._ask(ev.InputPromoted(input=InputId(input_id), **self._stamp()))
        assert isinstance(receipt, Receipt)
        return receipt

    async def cancel_input(self, input_id: str) -> None:
        """Cancel an input that still waits in the queue."""
        await self._ask(ev.InputWithdrawn(input=InputId(input_id), **self._stamp()))

    # The tree -----------------------------------------------------------------------------

    async def spawn(
        self,
        agent: str,
        text: str,
        *,
        role: str | None = "worker",
        lifetime: Lifetime = "with_parent",
        on_end: OnEnd = "tell",
        ttl_seconds: float | None = None,
        idempotency_key: str | None = None,
        **options: Unpack[Options],
    ) -> Session:
        """A child of this session, at work on `text`; answers when its agent is up.

        Raises `SpawnRefused` with what is exhausted (`limit`, `used`, `allowed`). It ends with this
        session unless its lifetime is `detached`, and after `ttl_seconds` if that is given. Options
        are those of `create`: without `limits` and `permissions` it has those of its parent.
        """
        order = make_order(
            self._house,
            agent,
            text,
            role=role,
            lifetime=lifetime,
            on_end=on_end,
            ttl_seconds=ttl_seconds,
            turn=self._turn,
            options=options,
        )
        repeatable = idempotency_of(idempotency_key, order)
        child = await self._house.spawning.spawn(self.id, order, repeatable, inside=self._inside())
        return Session(self._house, child)

    async def wait(self) -> TurnResult:
        """Of a child: wait for the result of the text that it was spawned with.

        The child then stays idle and counts as live until it is stopped, or ends by itself.
        """
        with self._awaited():
            errand = (await self._row()).lineage.input
            if errand is None:
                raise InputRefused(
                    f"session {self.id} was not spawned",
                    hint="use result() with a receipt's input_id",
                )
            return await self.result(errand)

    async def why(self) -> Why:
        """Why nothing happens here: what it waits for, whom that one waits for, and so on.

        `str()` of it is for people. Sessions that wait for each other are named as a cycle.
        """
        return await why(self._house, self.id)

    # Interrupts ---------------------------------------------------------------------------

    async def interrupt(
        self,
        scope: Scope = "turn",
        reason: str | None = None,
        *,
        replace_with: str | None = None,
        queued: Literal["keep", "cancel"] = "keep",
    ) -> InterruptReport:
        """Interrupt exactly what is named, and wait until it is over or the ladder at its end.

        With nothing to hit it changes nothing and says so. `replace_with` runs next, before all
        that waits; `queued="cancel"` cancels that. Giving up the wait does not undo the interrupt.
        `tree` is this session and all below it, which have no more children until it is over; from
        the bottom up, each level at once. No session is stopped by it.
        """
        return await interrupt(
            self._house,
            self.id,
            scope,
            reason=reason,
            replace_with=replace_with,
            queued=queued,
            source=self._source(),
        )

    # The session as a whole -----------------------------------------------------------------

    async def info(self) -> Info:
        """One frozen picture of all that is known of it."""
        self._house.tree.refuse_if_closed()
        seat = self._house.tree.find_seat(self.id)
        if seat is not None and seat.session is not None and seat.log is not None:
            await trio.lowlevel.checkpoint()
            if seat.session is not None and seat.log is not None:
                return self._house.desk.info(seat.session, last_seq=seat.log.published)
        stored = await self._house.tree.stored(self.id)
        return self._house.desk.info(stored.row, last_seq=stored.last_seq)

    async def stop(self, when: Literal["now", "after_turn"] = "now") -> None:
        """Stop it, and wait until it has stopped. Giving up the wait does not undo the stop.

        Also while the store is degraded: then one at rest is answered at once, and stops when the
        store is well.
        """
        known_word("when", when, Literal["now", "after_turn"])
        await self._house.lines.brake(self.id, after_turn=when == "after_turn")

    async def wait_stopped(self) -> Info:
        """Wait until it has stopped."""
        self._refuse_from_inside("wait_stopped()", "return, and it can stop")
        with self._awaited():
            await self._house.tree.wait_until(
                self.id, lambda session: session.phase is Phase.STOPPED
            )
        return await self.info()

    async def resume(self) -> Self:
        """Start it again: same id, same history, and what was held in its queue runs.

        One that lives is given back as it is.
        """
        await self._house.register.resume(self.id)
        return self

    async def clear(self) -> None:
        """Begin a new chapter: an empty conversation, with the old records still there to read.

        A running turn is interrupted for it, and what waits is cancelled; what is sent from then on
        is for the new chapter. Giving up the wait does not undo it.
        """
        self._refuse_from_inside("clear()", "let somebody else clear it, or return first")
        self._house.tree.refuse_if_leaving()
        answer = await self._ask(ev.ClearRequested(**self._stamp()))
        if isinstance(answer, UnderWay):
            await self._house.tree.wait_until(
                self.id, lambda row: row.turn is None or row.turn.id != answer.turn
            )

    async def append(self, role: Role, text: str) -> None:
        """Put a message into the history without a turn; an agent is an `assistant` too.

        One that keeps the conversation itself, over ACP, is told with its next input.
        """
        said = ev.MessageAppended(role=role_of(role), text=exact(text), **self._stamp())
        await self._ask(said)

    async def fork(self, at_turn: str | None = None) -> Session:
        """A new session with what was said here, up to the end of a turn (the last, if None)."""
        return Session(self._house, await fork(self._house, self.id, at_turn))

    async def archive(self) -> None:
        """Make a stopped session read-only, and free its key."""
        await self._house.register.archive(self.id)

    async def unarchive(self) -> None:
        """Undo that; raises `KeyTaken` if another session bears its key now."""
        await self._house.register.unarchive(self.id)

    async def set(
        self,
        *,
        title: str | None = None,
        tags: Sequence[str] | None = None,
        custom: Mapping[str, str] | None = None,
        limits: Limits | Mapping[str, Any] | None = None,
    ) -> None:
        """Change what is given, and leave what is None.

        Limits replace those it has, all of them; a mapping such as `{"tokens": 5000}` changes only
        what it names.
        """
        if title is not None:
            title = some_text("title", title)
        change = ev.DetailsChanged(
            title=title,
            tags=None if tags is None else checked_tags(tags),
            custom=None if custom is None else checked_custom(custom),
            **self._stamp(),
        )
        if isinstance(limits, Mapping) and limits:
            # One after the other: two who change different limits both mean what they say.
            name = f"limits of {self.id}"
            await self._house.register.alone(name, self._change_some, change, limits)
        elif limits is None or isinstance(limits, Limits):
            await self._ask(attrs.evolve(change, limits=limits))
        else:
            raise ConfigError(
                f"limits is {shown(limits)}", hint="give supervisor.Limits(...), or a mapping"
            )

    async def _change_some(self, change: ev.DetailsChanged, limits: Mapping[str, Any]) -> None:
        had = (await self.info()).limits
        await self._ask(attrs.evolve(change, limits=changed_limits(had, limits)))

    async def rules(self) -> list[PermissionRule]:
        """The answers that were given for always."""
        return list((await self._row()).rules)

    async def remove_rule(self, rule_id: str) -> None:
        """Take such an answer back."""
        await self._ask(ev.RuleRemoved(rule=RequestId(rule_id), **self._stamp()))

    # Reading ------------------------------------------------------------------------------

    @asynccontextmanager
    async def watch(self, after: int = 0) -> AsyncIterator[Watcher]:
        """Records after number `after`, then whatever comes; in every phase, over sleep and stops.

        `async for` gives records once each and in order, deltas in between, and a `Gap` with the
        numbers of what it was too slow for.
        """
        if isinstance(after, bool) or not isinstance(after, int) or after < 0:
            raise ConfigError(f"after is {shown(after)}", hint="give the number of a record, or 0")
        self._house.tree.refuse_if_closed()
        seat = self._house.tree.seat(self.id)
        watcher = Watcher(self.id, self._house.store, after=after)
        seat.add_watcher(watcher)
        try:
            stored = await self._house.tree.stored(self.id)
            watcher.begin(stored.last_seq, seat.text_so_far())
            yield watcher
        finally:
            seat.remove_watcher(watcher)
            self._house.tree.let_go(seat)

    async def transcript(self) -> list[Message]:
        """What was said in the chapter that is open, as a person reads it."""
        await self._row()
        return messages_of(await self._house.tree.all_records(self.id))

    async def history(self) -> list[TurnRecords]:
        """All records, grouped by turn."""
        await self._row()
        groups: list[tuple[TurnId | None, list[Record]]] = []
        for record in await self._house.tree.all_records(self.id):
            if not groups or groups[-1][0] != record.turn_id:
                groups.append((record.turn_id, []))
            groups[-1][1].append(record)
        return [TurnRecords(turn, tuple(records)) for turn, records in groups]

    async def export(
        self,
        format: Format = "markdown",  # noqa: A002 - the word that every surface uses for it
        *,
        redact: bool = False,
    ) -> str:
        """All of it as text: `markdown`, `jsonl` (which can be imported) or one `html` page.

        With `redact`, what looks like a token or a password is covered.
        """
        known_word("format", format, Format)
        return await exported(self._house, self.id, format, redact=a_flag("redact", redact))

    async def repair(self, *, dry_run: bool = True, force: bool = False) -> RepairReport:
        """Look whether its records are whole, and without `dry_run` close what was left open.

        No record is rewritten; a row that cannot be read is made anew from them. Raises
        `RepairRefused` for a session at work, and without `force` for one whose records have errors
        that nothing can be appended to mend.
        """
        a_flag("dry_run", dry_run)
        return await repair(self._house, self.id, dry_run=dry_run, force=a_flag("force", force))

    async def replay(self, at: int) -> Info:
        """How it was when the record of that number had been written."""
        return await replay(self._house, self.id, at)

    # Inside -------------------------------------------------------------------------------

    def _source(self) -> Source:
        """Whose input it is: an agent's, to one below its session, or a user's."""
        inside = self._inside()
        return "parent" if inside and self._house.desk.is_below(self.id, inside) else "user"

    def _awaited(self) -> AbstractContextManager[None]:
        """Have it known, while an agent waits in here, that its session waits for this one."""
        return self._house.tree.awaiting(self._inside(), self.id)

    def _inside(self) -> SessionId | None:
        """The session whose agent is at work here, if one is."""
        return self._caller or INSIDE.get()

    def _refuse_from_inside(self, what: str, instead: str) -> None:
        """An agent that waits for the end of its own turn would wait for ever."""
        if INSIDE.get() == self.id:
            raise InputRefused(f"{what} of an agent's own session never answers", hint=instead)

    def _stamp(self) -> Any:  # noqa: ANN401 - a Stamp
        return self._house.stamp()

    async def _ask(self, event: ev.Event) -> Receipt | InterruptReport | UnderWay | None:
        return await self._house.lines.ask(self.id, event)

    async def _row(self) -> Row:
        return await self._house.tree.row(self.id)
