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
from supervisor.core.facts import AnyRecord, Fact, NumberedFact, number_in_log
from supervisor.core.ids import SessionId, TurnId
from supervisor.core.records import Delta, StreamedKind
from supervisor.core.text import TurnOutput

from .clock import ActiveClock, in_order
from .output_budget import OutputBudget, OutputShare
from .subscribers import Subscribers
from .turn_buffer import (
    BREAK_KINDS,
    PART_BYTES,
    RECORD_BYTES,
    OpenPart,
    TurnBuffer,
    json_size,
    record_size,
    split_text,
    text_pieces,
    utf8_size,
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
        "_pending",
        "_ref",
        "_session_id",
        "_share",
        "_subscribers",
        "epoch",
        "flush_queued",
        "flush_scheduled",
        "last_at",
        "last_seq",
        "published_seq",
        "sent_seq",
        "turn_buffer",
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
        # Invariant: published_seq <= sent_seq <= last_seq.
        self.last_seq = last_seq  # the last number used
        self.sent_seq = last_seq  # the last number that was sent to the store
        self.published_seq = last_seq  # the last number that was published
        self.last_at = 0.0  # stamp of the last record; see `in_order`
        # The records after `published_seq`, up to `last_seq`: not known to be durable.
        # None without records: most sessions are idle, and an empty list takes 56 bytes.
        self._pending: list[NumberedFact] | None = None
        # The output of the running turn; None if no turn runs.
        self.turn_buffer: TurnBuffer | None = None
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

    @property
    def seq_before_step(self) -> int:
        """The number before the first fact of a step: the open part is recorded before it."""
        return self.last_seq if self._part is None else self.last_seq + 1

    def add_facts(self, facts: tuple[Fact, ...]) -> tuple[NumberedFact, ...]:
        """Add the facts of a step as records; return all unsent records, for the caller to send."""
        added = facts if self._part is None else (self._take_part(self._part), *facts)
        if self.turn_buffer is not None:
            self._apply_breaks(self.turn_buffer, facts)
        has_unsent = self.sent_seq < self.last_seq
        records = self._append(added)
        if has_unsent:
            return self.take_unsent()
        self.sent_seq = self.last_seq
        return records

    def _append(
        self, facts: tuple[Fact, ...], max_bytes: int | None = None
    ) -> tuple[NumberedFact, ...]:
        """Add the facts as records, which are not known to be durable; return the records.

        They count for all output that has no record, or for `max_bytes` of it.
        """
        records = number_in_log(self._session_id, facts, after=self.last_seq)
        if not records:
            return records
        last, share = records[-1], self._share
        self.last_seq, self.last_at = last.seq, last.at
        if self._pending is None:
            self._pending = [*records]
        else:
            self._pending += records
        if share is not None and share.bytes != share.marked_bytes:
            share.mark(last.seq, max_bytes)
        return records

    def withdraw(self, records: Sequence[AnyRecord], count: int) -> None:
        """Take back the last `count` of these records; the others become unsent again.

        Allowed only while the last record has `last_seq`, because a number is used once.
        """
        pending = self._pending or []
        self._pending = pending[: len(pending) - count] or None
        self.last_seq -= count
        self.sent_seq -= len(records)

    def _apply_breaks(self, output: TurnBuffer, facts: Iterable[Fact]) -> None:
        """End the current message, or the turn's output, at facts of a step."""
        for fact in facts:
            if fact.kind in BREAK_KINDS:
                output.last_kind = None
            elif fact.kind == "turn_ended":
                self.turn_buffer = None  # output of the turn is dropped from here on

    def take_unsent(self) -> tuple[NumberedFact, ...]:
        """Return the unsent records in order; all must be sent, or the numbers have a gap."""
        first, self.sent_seq = self.sent_seq - self.published_seq, self.last_seq
        return tuple((self._pending or ())[first:])

    def take_some_unsent(self, max_bytes: int) -> tuple[tuple[NumberedFact, ...], int]:
        """Return the first unsent records, at least one and about `max_bytes`, and their size."""
        pending, size = self._pending or [], 0
        first = end = self.sent_seq - self.published_seq
        while end < len(pending) and size < max_bytes:
            size += record_size(pending[end].body)
            end += 1
        self.sent_seq += end - first
        return tuple(pending[first:end]), size

    def mark_committed(self, up_to: int) -> None:
        """Publish all records up to this number, which are durable."""
        pending = self._pending
        # Steps and output go to the store in order, but the replies to their senders may arrive in
        # another order: then the higher number comes first, and a lower one changes nothing.
        if pending is not None and up_to > self.published_seq:
            published, self._pending = pending, None
            if up_to < self.last_seq:
                count = up_to - self.published_seq
                published, self._pending = pending[:count], pending[count:]
            self.published_seq = up_to
            self._subscribers.publish(published)
        share = self._share
        if share is not None and share.bytes:
            share.release(up_to if self._is_pending else None)

    def fail(self, error: Exception) -> None:
        """Report to the actor that output could not be stored, so that no later record can be."""
        with contextlib.suppress(ActorStopped, MailboxFull):  # the next commit fails too
            self._ref.tell(WriteFailed(self, error), urgent=True)

    # Output -------------------------------------------------------------------------------

    def begin_turn(self, turn: TurnId, *, max_bytes: int) -> None:
        """Start the output of a turn."""
        self.turn_buffer = TurnBuffer(turn, max_bytes, self._active_clock.now())

    def turn_output(self, turn: TurnId) -> TurnOutput:
        """Return the agent's text in the turn, without held output."""
        output = self.turn_buffer
        return TurnOutput() if output is None or output.turn != turn else output.merged

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
            output.received_text.append(text, size)
        if size <= PART_BYTES and not self._held:
            self._merge(output, kind, text, size, at=at, continues=continues)
            return
        for piece in split_text(text, size):
            merge = partial(self._merge, output, kind, piece, utf8_size(piece), at=at)
            if self._held:
                self._held.append(partial(merge, continues=continues))
            else:
                merge(continues=continues)
            continues = True

    def _merge(
        self,
        output: TurnBuffer,
        kind: StreamedKind,
        text: str,
        size: int,
        *,
        at: float,
        continues: bool,
    ) -> None:
        """Add text to the open part if it fits; otherwise open another part for it."""
        if self.turn_buffer is not output:
            return  # its turn ended while it was held
        at = self.last_at = in_order(at, self.last_at) if at < self.last_at else at
        part = self._part
        if part is not None and continues and part.fits(kind, size):
            part.add(text, size, at)
        else:
            if part is not None:
                self.close_part()
            part = self._part = output.open_part(kind, text, size, at, continues=continues)
        width = len(text)
        if kind == "agent_text":
            output.merged_chars += width
        if self._subscribers.watchers:
            place = (kind, part.part_name, part.width - width)
            self._subscribers.publish_delta(Delta(self._session_id, part.turn, *place, text))
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
        output = self.turn_buffer
        if output is not None and output.turn == turn:
            self.close_part()
            self._append((Fact(kind, in_order(at, self.last_at), body, turn),))
            if kind in BREAK_KINDS:
                output.last_kind = None

    def hold_output(self) -> None:
        """Hold output until the actor has handled the report that is sent to it now."""
        self._held = [*(self._held or ()), None]

    def withdraw_hold(self) -> None:
        """Undo the last `hold_output`, because the report could not be sent."""
        assert self._held is not None
        self._held = self._held[:-1] or None

    def release_output(self) -> None:
        """Add the output held for the oldest report, which the actor has handled."""
        held = self._held
        assert held is not None
        assert held[0] is None
        if len(held) == 1:  # almost always: no output and no report followed
            self._held = None
            return
        end = held.index(None, 1) if None in held[1:] else len(held)
        free, self._held = held[1:end], held[end:] or None
        for add in free:
            assert add is not None
            add()
        if free and self._share is not None and not self._is_pending:
            self._share.release(None)  # the output was dropped, so no commit follows

    def charge(self, turn: TurnId, body: Mapping[str, Any]) -> None:
        """Count content that a step will record; raise OutputTooLarge as `add` does."""
        self._reserve_bytes(turn, json_size(body))

    def close_part(self) -> None:
        """Turn the open part into a record."""
        part = self._part
        if part is not None:
            # Only its own bytes: the text may have been written in one piece with later parts.
            self._append((self._take_part(part),), part.charged_bytes)

    def _take_part(self, part: OpenPart) -> Fact:
        """Close the open part and return it as a fact, which the caller must append."""
        self._part = None
        if self.turn_buffer is not None:
            self.turn_buffer.last_kind = part.kind
        body = {"text": "".join(part.pieces), "part": part.part_name, "continues": part.continues}
        return Fact(part.kind, part.at, body, part.turn)

    def partial_delta(self) -> Delta | None:
        """Return the open part as one delta, for a watcher that starts now; None without one."""
        part = self._part
        if part is None:
            return None
        text = "".join(part.pieces)
        return Delta(self._session_id, part.turn, part.kind, part.part_name, 0, text)

    def unpublished_text(self) -> list[tuple[str, bool]]:
        """Return the pieces of the agent's text that no published record has; see `text_pieces`."""
        return text_pieces(self._pending or (), self._part)

    @property
    def has_output(self) -> bool:
        """Whether some output was not sent to the store."""
        return self._part is not None or self.sent_seq < self.last_seq

    @property
    def has_unsent(self) -> bool:
        """Whether some records were not sent to the store."""
        return self.sent_seq < self.last_seq

    @property
    def pending_bytes(self) -> int:
        """Size of the output that is not durable."""
        return 0 if self._share is None else self._share.bytes

    @property
    def is_agent_waiting(self) -> bool:
        """Whether the agent waits because the store has not written its output."""
        return self._share is not None and self._share.is_awaited

    @property
    def _is_pending(self) -> bool:
        """Whether some output will become durable."""
        return bool(self._pending or self._held or self._part)

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
        self.turn_buffer = self._held = self._part = self._pending = None
        self.sent_seq = self.last_seq
        if self._share is not None:
            self._share.release(None)

    def _reserve_bytes(self, turn: TurnId, size: int) -> TurnBuffer | None:
        output = self.turn_buffer
        if output is None or output.turn != turn:
            return None  # the turn is over: its output is fenced
        output.count_bytes(size)
        if self._share is None:
            self._share = self._budget.share()
        self._share.add(size + RECORD_BYTES)
        return output


@attrs.frozen(eq=False)
class WriteFailed:
    """Message to the actor: a write failed, so no later record of the session can be written."""

    log: Log  # of the incarnation that sent the write
    error: Exception
