"""A session's log: numbers its records, in one place, and merges streamed text into them.

Rule 1: a number is given once, in the order in which things happened, and whatever was given an
        earlier number goes to the store no later.
Rule 2: a record is published when its commit, or that of a later one, is known.
Rule 3: text of one kind is one record until something else happens, 4 KiB, or 250 ms.
Rule 4: what an agent puts out after it has reported something is numbered after that, though the
        report has a longer way: it is held until the actor has heard the report.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import trio

from supervisor.core.errors import OutputTooLarge
from supervisor.core.events import Said
from supervisor.core.facts import Fact, Kind, StreamedKind
from supervisor.core.ids import TurnId
from supervisor.core.records import Record, numbered

from .feed import Delta
from .sizes import PART_BYTES, bytes_of, pieces_of, size_of

if TYPE_CHECKING:
    from .seat import Seat

PART_SECONDS: Final = 0.25
# Output that the store has not taken yet; above it, the agent waits.
MAX_BACKLOG_BYTES: Final = 65536
# What a record costs besides its text.
_RECORD_BYTES: Final = 200


# What comes between two texts so that the second does not go on with the first. That somebody else
# sends an input in the middle of a sentence does not.
_BREAKS: Final = frozenset(
    {"user_text", "agent_text", "thought", "tool_call", "tool_ended", "plan"}
)

_Held: TypeAlias = Callable[[], None]


class _Part:
    """Text that is becoming a record."""

    __slots__ = ("at", "continues", "kind", "name", "pieces", "size", "turn", "width")

    def __init__(self, kind: StreamedKind, name: str, turn: TurnId, *, continues: bool) -> None:
        self.kind = kind
        self.name = name
        self.turn = turn
        self.continues = continues
        self.pieces: list[str] = []
        self.size = 0  # in bytes
        self.width = 0  # in characters
        self.at = 0.0  # of its last piece

    def takes(self, kind: StreamedKind, size: int) -> bool:
        return kind == self.kind and self.size + size <= PART_BYTES


class Output:
    """What the running turn has put out."""

    __slots__ = (
        "added",
        "bytes",
        "is_silent",
        "last_kind",
        "max_bytes",
        "merged",
        "messages",
        "parts",
        "progress",
        "turn",
    )

    def __init__(self, turn: TurnId, max_bytes: int, now: float) -> None:
        self.turn = turn
        self.max_bytes = max_bytes
        self.bytes = 0
        self.parts = 0
        self.messages = 0
        # What the agent has said; of what is held, nobody knows whether it will count.
        self.added: list[str] = []
        self.merged: list[str] = []
        # The kind of the text before, if nothing has come between; more of it continues that.
        self.last_kind: StreamedKind | None = None
        # When anything came of the turn, by the pulse, and whether it was said since that nothing
        # does.
        self.progress = now
        self.is_silent = False


class Log:
    """Everything that becomes a record of one session goes through here."""

    __slots__ = (
        "_backlog",
        "_held",
        "_output",
        "_part",
        "_seat",
        "_unpublished",
        "_unsent",
        "_wait_for_room",
        "is_hurried",
        "is_noted",
        "last_at",
        "last_seq",
        "published",
    )

    def __init__(self, seat: Seat, last_seq: int) -> None:
        self._seat = seat
        self.last_seq = last_seq  # the last number given
        self.last_at = 0.0  # invariant: no number is given to anything earlier than this
        self.published = last_seq  # the last number that everybody may know of
        self._unsent: list[Record] = []
        # Numbered, and not known to be durable. Lists, for an empty deque takes 700 bytes, and
        # most sessions are idle.
        self._unpublished: list[Record] = []
        self._output: Output | None = None
        # Reports that the actor has not heard (None), and the output that comes after each.
        self._held: list[_Held | None] | None = None
        self._part: _Part | None = None
        self._backlog = 0
        self._wait_for_room: trio.Event | None = None
        # Whether the scribe has it on its list, for later and for now.
        self.is_noted = False
        self.is_hurried = False

    # Decisions ----------------------------------------------------------------------------

    def add_facts(self, facts: Iterable[Fact]) -> tuple[Record, ...]:
        """Number what was decided; give all that the store has not been sent, which now it must."""
        self.close_part()
        records = numbered(self._seat.id, facts, after=self.last_seq)
        if records:
            last = records[-1]
            self.last_seq, self.last_at = last.seq, last.at
            self._unpublished += records
            if self._output is not None:
                self._note_breaks(records)
        if not self._unsent:
            return records
        self._unsent += records
        return self.take_unsent()

    def take_back(self, records: Sequence[Record], count: int) -> None:
        """The last so many of these were never decided, and what they were sent with is unsent.

        Only while `last_seq` is that of the last of them: no number is given twice.
        """
        kept = len(records) - count
        del self._unpublished[len(self._unpublished) - count :]
        self.last_seq -= count
        self._unsent = [*records[:kept], *self._unsent]

    def _note_breaks(self, records: Iterable[Record]) -> None:
        """What was decided comes between what the turn puts out, or is its end."""
        for record in records:
            if self._output is not None and record.kind in _BREAKS:
                self._output.last_kind = None
            if record.kind == "turn_ended":
                self._output = None  # whatever it still says comes too late, from this line on

    def take_unsent(self) -> tuple[Record, ...]:
        """What the store must be sent next, in order; the caller sends it, or the log is broken."""
        unsent, self._unsent = self._unsent, []
        return tuple(unsent)

    def committed(self, up_to: int) -> None:
        """Everything up to this number is durable: publish it."""
        pending = self._unpublished
        # What was decided and what was put out go to the store in order, but those who sent them
        # may hear of it in another one: then the later number comes first, and this is no news.
        count = max(0, up_to - self.published)
        published, self._unpublished = pending[:count], pending[count:]
        if published:
            self.published = published[-1].seq
            self._seat.publish(published)
        if not self._unpublished:
            self._backlog = 0
            if self._wait_for_room is not None:
                self._wait_for_room.set()
                self._wait_for_room = None

    # Output -------------------------------------------------------------------------------

    def begin_turn(self, turn: TurnId, *, max_bytes: int) -> None:
        """Output is this turn's from now on."""
        self._output = Output(turn, max_bytes, self._seat.house.pulse.running_time())

    @property
    def output(self) -> Output | None:
        """What the running turn has put out, and when."""
        return self._output

    def progressed(self) -> bool:
        """Something has come of the turn; gives whether it was said that nothing does."""
        output = self._output
        if output is None:
            return False
        output.progress = self._seat.house.pulse.running_time()
        was_silent, output.is_silent = output.is_silent, False
        return was_silent

    def said(self, turn: TurnId) -> Said:
        """All that the agent has said in the turn, as far as it is in the log."""
        output = self._output
        if output is None or output.turn != turn:
            return Said()
        return Said("".join(output.merged), output.messages)

    def said_so_far(self, turn: TurnId) -> str:
        """All that the agent has said in the turn, what is held included."""
        output = self._output
        return "".join(output.added) if output is not None and output.turn == turn else ""

    def add_text(
        self, turn: TurnId, kind: StreamedKind, text: str, at: float, *, continues: bool
    ) -> None:
        """Streamed text: merged into a record, and shown to whoever watches at once."""
        size = bytes_of(text)
        output = self._grow(turn, size)
        if output is None:
            return
        if kind == "agent_text":
            output.added.append(text)
        for piece in (text,) if size <= PART_BYTES else pieces_of(text):
            merge = partial(self._merge, output, kind, piece, at, continues=continues)
            if self._held:
                self._held.append(merge)
            else:
                merge()
            continues = True

    def _merge(
        self, output: Output, kind: StreamedKind, text: str, at: float, *, continues: bool
    ) -> None:
        """Text that fits into one record: into that which is open, if it still does, or another."""
        if self._output is not output:
            return  # held until its turn was over
        if kind == "agent_text":
            output.merged.append(text)
        turn, size = output.turn, bytes_of(text)
        if self._part is not None and not (continues and self._part.takes(kind, size)):
            self.close_part()
        if self._part is None:
            output.parts += 1
            continues = continues and output.last_kind == kind
            if kind == "agent_text" and not continues:
                output.messages += 1
            self._part = _Part(kind, f"{turn}.{output.parts}", turn, continues=continues)
        part = self._part
        if self._seat.is_watched:
            self._seat.show(Delta(self._seat.id, turn, kind, part.name, part.width, text))
        part.pieces.append(text)
        part.size += size
        part.width += len(text)
        part.at = self.last_at = max(at, self.last_at)
        if part.size >= PART_BYTES:
            self.close_part()

    def add(self, turn: TurnId, kind: StreamedKind, body: Mapping[str, Any], at: float) -> None:
        """Another record of the turn's output."""
        if self._grow(turn, size_of(body) + _RECORD_BYTES) is None:
            return
        if self._held:
            self._held.append(lambda: self._add(turn, kind, body, at))
        else:
            self._add(turn, kind, body, at)

    def _add(self, turn: TurnId, kind: StreamedKind, body: Mapping[str, Any], at: float) -> None:
        if self._output is not None and self._output.turn == turn:
            self.close_part()
            self._number(turn, kind, max(at, self.last_at), body)

    def hold(self) -> None:
        """A report is on its way to the actor: what is put out now comes after it."""
        if self._held is None:
            self._held = []
        self._held.append(None)

    def release(self) -> None:
        """The actor has heard the oldest report that it had not."""
        held = self._held
        assert held is not None
        assert held[0] is None
        end = held.index(None, 1) if None in held[1:] else len(held)
        free, self._held = held[1:end], held[end:] or None
        for add in free:
            assert add is not None
            add()

    def charge(self, turn: TurnId, body: Mapping[str, Any]) -> None:
        """Count something that becomes a record by another way."""
        self._grow(turn, size_of(body))

    def close_part(self) -> None:
        """Make a record of the text so far."""
        part = self._part
        if part is not None:
            self._part = None
            body = {"text": "".join(part.pieces), "part": part.name, "continues": part.continues}
            self._number(part.turn, part.kind, part.at, body)
            if self._output is not None:
                self._output.last_kind = part.kind

    def text_so_far(self) -> Delta | None:
        """The part that is open, as one delta, for whoever joins in the middle."""
        part = self._part
        if part is None:
            return None
        text = "".join(part.pieces)
        return Delta(self._seat.id, part.turn, part.kind, part.name, 0, text)

    @property
    def has_output(self) -> bool:
        """Whether there is anything that the store has not been sent."""
        return self._part is not None or bool(self._unsent)

    @property
    def has_unsent(self) -> bool:
        """Whether there are records that the store has not been sent."""
        return bool(self._unsent)

    @property
    def is_full(self) -> bool:
        """Whether the agent waits for the store to catch up."""
        return self._wait_for_room is not None

    @property
    def has_room(self) -> bool:
        """Whether the store has caught up, or nothing of ours is on the way to it."""
        return self._backlog <= MAX_BACKLOG_BYTES or not (self._unpublished or self._held)

    async def wait_for_room(self) -> None:
        """Wait until the store has caught up."""
        while not self.has_room:
            if self._wait_for_room is None:
                self._wait_for_room = trio.Event()
            await self._wait_for_room.wait()
        await trio.lowlevel.checkpoint()

    def close(self) -> None:
        """Nothing will be written any more, so nobody need wait for that."""
        self._output = self._held = self._part = None
        self._unsent = []
        self._unpublished = []
        if self._wait_for_room is not None:
            self._wait_for_room.set()
            self._wait_for_room = None

    def _grow(self, turn: TurnId, size: int) -> Output | None:
        output = self._output
        if output is None or output.turn != turn:
            return None  # of a turn that is over, and fenced
        if output.bytes + size > output.max_bytes:
            raise OutputTooLarge(
                f"turn {turn} has put out {output.bytes} of {output.max_bytes} bytes already",
                hint="write large results into files, or raise max_turn_bytes",
            )
        output.bytes += size
        self._backlog += size + _RECORD_BYTES
        return output

    def _number(
        self,
        turn: TurnId | None,
        kind: Kind,
        at: float,
        body: Mapping[str, Any],
    ) -> None:
        self.last_seq += 1
        self.last_at = at
        record = Record(self._seat.id, self.last_seq, at, turn, kind, body)
        self._unsent.append(record)
        self._unpublished.append(record)
        if self._output is not None and kind in _BREAKS:
            self._output.last_kind = None
