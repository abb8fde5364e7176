"""Log of one session: numbers its records and merges streamed text into records.

Rule 1: a number is used once, in the order of events, and a record with a lower number goes to the
        store no later than one with a higher number.
Rule 2: a record is published when its commit, or the commit of a later record, is known.
Rule 3: text of one kind is one record until another event, 4 KiB, or 250 ms.
Rule 4: output that follows an agent's report is numbered after the report. The report goes through
        the actor's mailbox, so the output is held until the actor has handled the report.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Final, TypeAlias

import attrs
import trio

from actors import ActorStopped, MailboxFull, Ref
from supervisor.core.errors import OutputTooLarge
from supervisor.core.ids import SessionId, TurnId
from supervisor.core.records import Delta, Fact, Record, RecordKind, StreamedKind, number_facts
from supervisor.core.text import TurnOutput

from .clock import ActiveClock, in_order
from .output_budget import OutputBudget, OutputShare
from .subscribers import Subscribers
from .turn_buffer import (
    PART_BYTES,
    RECORD_BYTES,
    OpenPart,
    TurnBuffer,
    json_size,
    record_size,
    split_text,
    utf8_size,
    with_records,
)

PART_SECONDS: Final = 0.25

_HeldOutput: TypeAlias = Callable[[], None]


class Log:
    """Numbers, merges and publishes all records of one session."""

    __slots__ = (
        "_active_clock",
        "_budget",
        "_held",
        "_part",
        "_ref",
        "_session_id",
        "_share",
        "_subscribers",
        "_turn_buffer",
        "_unpublished",
        "_unsent",
        "epoch",
        "flush_queued",
        "flush_scheduled",
        "last_at",
        "last_seq",
        "published_seq",
    )

    def __init__(
        self,
        session_id: SessionId,
        subscribers: Subscribers,
        active_clock: ActiveClock,
        *,
        epoch: int,
        last_seq: int,
        ref: Ref,
        budget: OutputBudget,
    ) -> None:
        self._session_id = session_id
        self._subscribers = subscribers
        self._active_clock = active_clock
        self._ref = ref  # of the actor
        # The claim under which the records are written.
        self.epoch = epoch
        self.last_seq = last_seq  # the last number used
        self.last_at = 0.0  # stamp of the last record; see `in_order`
        self.published_seq = last_seq  # the last number that was published
        # None without records: most sessions are idle, and an empty list takes 56 bytes.
        self._unsent: list[Record] | None = None
        # Numbered, and not known to be durable.
        self._unpublished: list[Record] | None = None
        self._turn_buffer: TurnBuffer | None = None
        # Reports that the actor has not handled (None), each followed by the output after it.
        self._held: list[_HeldOutput | None] | None = None
        self._part: OpenPart | None = None
        self._budget = budget
        # The output in flight; None before the first output.
        self._share: OutputShare | None = None
        # Whether the flusher will flush this log, in time or next.
        self.flush_scheduled = False
        self.flush_queued = False

    # Decisions ----------------------------------------------------------------------------

    def add_facts(self, facts: Iterable[Fact]) -> tuple[Record, ...]:
        """Add the facts of a step as records; return all unsent records, for the caller to send."""
        self.close_part()
        records = number_facts(self._session_id, facts, after=self.last_seq)
        if records:
            last = records[-1]
            self.last_seq, self.last_at = last.seq, last.at
            self._unpublished = with_records(self._unpublished, records)
            if self._share is not None:
                self._share.mark(last.seq)
            if self._turn_buffer is not None:
                self._apply_breaks(records)
        if not self._unsent:
            return records
        self._unsent = with_records(self._unsent, records)
        return self.take_unsent()

    def withdraw(self, records: Sequence[Record], count: int) -> None:
        """Take back the last `count` of these records; the others become unsent again.

        Allowed only while `last_seq` is the number of the last record, because a number is used
        once.
        """
        kept = len(records) - count
        unpublished = self._unpublished or []
        self._unpublished = unpublished[: len(unpublished) - count] or None
        self.last_seq -= count
        self._unsent = [*records[:kept], *(self._unsent or ())] or None

    def _apply_breaks(self, records: Iterable[Record]) -> None:
        """End the current message, or the turn's output, at records that a step added."""
        for record in records:
            if self._turn_buffer is not None:
                self._turn_buffer.break_message(record.kind)
            if record.kind == "turn_ended":
                self._turn_buffer = None  # output of the turn is dropped from here on

    def take_unsent(self) -> tuple[Record, ...]:
        """Return the unsent records, in order.

        The caller must send all, or the numbers have a gap.
        """
        unsent, self._unsent = self._unsent, None
        return tuple(unsent or ())

    def take_some_unsent(self, max_bytes: int) -> tuple[tuple[Record, ...], int]:
        """Return the first unsent records, at least one and about `max_bytes`, and their size."""
        unsent, size, count = self._unsent or [], 0, 0
        while count < len(unsent) and size < max_bytes:
            size += record_size(unsent[count].body)
            count += 1
        self._unsent = unsent[count:] or None
        return tuple(unsent[:count]), size

    def mark_committed(self, up_to: int) -> None:
        """Publish all records up to this number, which are durable."""
        pending = self._unpublished or []
        # Steps and output go to the store in order, but the replies to their senders may arrive in
        # another order: then the higher number comes first, and a lower one changes nothing.
        count = max(0, up_to - self.published_seq)
        published, self._unpublished = pending[:count], pending[count:] or None
        if published:
            self.published_seq = published[-1].seq
            self._subscribers.publish(published)
        self._release_share(up_to)

    def _release_share(self, up_to: int) -> None:
        if self._share is not None and self._share.bytes:
            self._share.release(up_to if self._is_pending else None)

    def fail(self, error: Exception) -> None:
        """Report to the actor that output could not be stored, so that no later record can be."""
        with contextlib.suppress(ActorStopped, MailboxFull):  # the next commit fails too
            self._ref.tell(WriteFailed(self, error), urgent=True)

    # Output -------------------------------------------------------------------------------

    def begin_turn(self, turn: TurnId, *, max_bytes: int) -> None:
        """Start the output of a turn."""
        self._turn_buffer = TurnBuffer(turn, max_bytes, self._active_clock.now())

    @property
    def turn_buffer(self) -> TurnBuffer | None:
        """The output of the running turn; None if no turn runs."""
        return self._turn_buffer

    def mark_progress(self) -> bool:
        """Record progress of the turn; return True if the turn had been reported silent."""
        output = self._turn_buffer
        if output is None:
            return False
        output.progress_at = self._active_clock.now()
        was_silent, output.is_reported_silent = output.is_reported_silent, False
        return was_silent

    def turn_output(self, turn: TurnId) -> TurnOutput:
        """Return the agent's text in the turn, without held output."""
        output = self._turn_buffer
        if output is None or output.turn != turn:
            return TurnOutput()
        return output.merged

    def add_text(
        self, turn: TurnId, kind: StreamedKind, text: str, at: float, *, continues: bool
    ) -> None:
        """Merge streamed text into a record, and publish the text to watchers at once.

        Raise OutputTooLarge if the output of the turn exceeds its limit. Text of a turn that is
        over is dropped.
        """
        size = utf8_size(text)
        output = self._reserve_bytes(turn, size)
        if output is None:
            return
        if kind == "agent_text":
            output.received_text.append(text)
        for piece in (text,) if size <= PART_BYTES else split_text(text):
            merge = partial(self._merge, output, kind, piece, at, continues=continues)
            if self._held:
                self._held.append(merge)
            else:
                merge()
            continues = True

    def _merge(
        self, output: TurnBuffer, kind: StreamedKind, text: str, at: float, *, continues: bool
    ) -> None:
        """Add text to the open part if it fits; otherwise open another part for it."""
        if self._turn_buffer is not output:
            return  # its turn ended while it was held
        if kind == "agent_text":
            output.merged_text.append(text)
        turn, size = output.turn, utf8_size(text)
        if self._part is not None and not (continues and self._part.fits(kind, size)):
            self.close_part()
        if self._part is None:
            output.part_count += 1
            continues = continues and output.last_kind == kind
            if kind == "agent_text" and not continues:
                output.message_count += 1
            self._part = OpenPart(kind, f"{turn}.{output.part_count}", turn, continues=continues)
        part = self._part
        if self._subscribers.is_watched:
            self._subscribers.publish_delta(
                Delta(self._session_id, turn, kind, part.part_name, part.width, text)
            )
        part.pieces.append(text)
        part.size += size
        part.width += len(text)
        part.at = self.last_at = in_order(at, self.last_at)
        if part.size >= PART_BYTES:
            self.close_part()

    def add(self, turn: TurnId, kind: StreamedKind, body: Mapping[str, Any], at: float) -> None:
        """Add a record of the turn's output; raise OutputTooLarge if the turn exceeds its limit."""
        if self._reserve_bytes(turn, record_size(body)) is None:
            return
        if self._held:
            self._held.append(lambda: self._add(turn, kind, body, at))
        else:
            self._add(turn, kind, body, at)

    def _add(self, turn: TurnId, kind: StreamedKind, body: Mapping[str, Any], at: float) -> None:
        if self._turn_buffer is not None and self._turn_buffer.turn == turn:
            self.close_part()
            self._append_record(turn, kind, in_order(at, self.last_at), body)

    def hold_output(self) -> None:
        """Hold output until the actor has handled the report that was just sent to it."""
        if self._held is None:
            self._held = []
        self._held.append(None)

    def release_output(self) -> None:
        """Add the output held for the oldest report, which the actor has handled."""
        held = self._held
        assert held is not None
        assert held[0] is None
        end = held.index(None, 1) if None in held[1:] else len(held)
        free, self._held = held[1:end], held[end:] or None
        for add in free:
            assert add is not None
            add()
        if free and not self._is_pending:  # it was dropped, so no commit follows
            self._release_share(self.published_seq)

    def charge(self, turn: TurnId, body: Mapping[str, Any]) -> None:
        """Count content that a step will record.

        Raise OutputTooLarge if the turn exceeds its limit.
        """
        self._reserve_bytes(turn, json_size(body))

    def close_part(self) -> None:
        """Turn the open part into a record."""
        part = self._part
        if part is not None:
            self._part = None
            body = {
                "text": "".join(part.pieces),
                "part": part.part_name,
                "continues": part.continues,
            }
            self._append_record(part.turn, part.kind, part.at, body)
            if self._turn_buffer is not None:
                self._turn_buffer.last_kind = part.kind

    def partial_delta(self) -> Delta | None:
        """Return the open part as one delta, for a watcher that starts now; None without one."""
        part = self._part
        if part is None:
            return None
        text = "".join(part.pieces)
        return Delta(self._session_id, part.turn, part.kind, part.part_name, 0, text)

    @property
    def has_output(self) -> bool:
        """Whether some output was not sent to the store."""
        return self._part is not None or bool(self._unsent)

    @property
    def has_unsent(self) -> bool:
        """Whether some records were not sent to the store."""
        return bool(self._unsent)

    @property
    def is_agent_waiting(self) -> bool:
        """Whether the agent waits because the store has not written its output."""
        return self._share is not None and self._share.is_awaited

    @property
    def _is_pending(self) -> bool:
        """Whether some output will become durable."""
        return bool(self._unpublished or self._held or self._part)

    @property
    def is_writable(self) -> bool:
        """Whether the agent may write more; always if no output is pending."""
        return self._share is None or self._share.has_room or not self._is_pending

    async def wait_writable(self) -> None:
        """Wait until the log is writable."""
        while not self.is_writable:
            assert self._share is not None
            await self._share.wait()
        await trio.lowlevel.checkpoint()

    def close(self) -> None:
        """Drop all output, and wake the agent if it waits for the store."""
        self._turn_buffer = self._held = self._part = None
        self._unsent = self._unpublished = None
        if self._share is not None:
            self._share.release(None)

    def _reserve_bytes(self, turn: TurnId, size: int) -> TurnBuffer | None:
        output = self._turn_buffer
        if output is None or output.turn != turn:
            return None  # the turn is over: its output is fenced
        if output.bytes + size > output.max_bytes:
            raise OutputTooLarge(
                f"turn {turn} has written {output.bytes} of {output.max_bytes} bytes of output",
                hint="write large results into files, or raise max_turn_bytes",
            )
        output.bytes += size
        if self._share is None:
            self._share = self._budget.share()
        self._share.add(size + RECORD_BYTES)
        return output

    def _append_record(
        self,
        turn: TurnId | None,
        kind: RecordKind,
        at: float,
        body: Mapping[str, Any],
    ) -> None:
        self.last_seq += 1
        self.last_at = at
        record = Record(self._session_id, self.last_seq, at, turn, kind, body)
        self._unsent = with_records(self._unsent, (record,))
        self._unpublished = with_records(self._unpublished, (record,))
        if self._share is not None:
            self._share.mark(self.last_seq)
        if self._turn_buffer is not None:
            self._turn_buffer.break_message(kind)


@attrs.frozen(eq=False)
class WriteFailed:
    """Message to the actor: a write failed, so no later record of the session can be written."""

    log: Log  # of the incarnation that sent the write
    error: Exception
