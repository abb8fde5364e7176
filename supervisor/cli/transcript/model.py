"""Blocks made of the records and deltas of one session.

Rule 1: the blocks after a record are those that its records alone lead to. Text of deltas is shown
        behind them, and goes as soon as the record with the same part is there.
Rule 2: `apply` returns the place of the first block that changed. Blocks before it are the same
        objects as before, and most blocks after it too.
Rule 3: a record that was applied already changes nothing, so a feed may begin again.
Rule 4: a body may lack any field: it may be damaged, or of another version.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import attrs

from supervisor.core.records import Delta, Gap, Item, Record, Reset

from .blocks import (
    Block,
    NoteBlock,
    RequestBlock,
    TextBlock,
    TurnEndBlock,
    TurnStartBlock,
)
from .brief_text import brief, full_input
from .parts import OpenParts
from .pending import PendingInputs
from .text_run import TextRun
from .work import WORK_KINDS, WorkBlocks

# The oldest blocks are dropped beyond this number, at least this many at a time.
MAX_BLOCKS: Final = 20_000
_DROPPED_AT_ONCE: Final = 2_000


class TranscriptModel:
    """The blocks of one session, from its items in the order of a feed."""

    def __init__(self, *, max_blocks: int = MAX_BLOCKS) -> None:
        self._max_blocks = max_blocks
        self.blocks: list[Block] = []
        self.pending = PendingInputs()
        # The requests that wait for a decision, by id, oldest first.
        self.requests: dict[str, RequestBlock] = {}
        self.turn_id: str | None = None
        # The numbers of the first and the last record that was applied; 0 without any.
        self.first_seq = 0
        self.last_seq = 0
        # The number of the last record that a block shows.
        self.shown_seq = 0
        # The number of blocks that were dropped from the start.
        self.dropped = 0
        self._parts = OpenParts()
        # The growing text at the end of the blocks, and the number of blocks before it.
        self._run: TextRun | None = None
        self._run_start = 0
        # The blocks and the run without the text of open parts; None if there is none.
        self._settled: tuple[int, TextRun | None, int] | None = None
        self._work = WorkBlocks()
        # The places of blocks that may change, by their keys; dropped blocks are counted.
        self._places: dict[str, int] = {}
        self._changed: int | None = None

    def apply(self, item: Item) -> int | None:
        """Apply an item; return the place of the first changed block, or None."""
        self._changed = None
        if isinstance(item, Delta):
            self._apply_delta(item)
        elif isinstance(item, Gap):
            self._apply_gap(item)
        elif isinstance(item, Reset):
            self._apply_reset(item)
        elif item.seq > self.last_seq:
            self.first_seq = self.first_seq or item.seq
            self.last_seq = item.seq
            self._apply_record(item)
        return self._changed

    # Items --------------------------------------------------------------------------------

    def _apply_delta(self, delta: Delta) -> None:
        piece = self._parts.add(delta)
        if piece:
            self._say_provisionally(delta.kind, delta.turn_id, piece)

    def _apply_gap(self, gap: Gap) -> None:
        self._undo_provisional()
        self._parts.clear()
        self.last_seq = max(self.last_seq, gap.last)
        text = f"records {gap.first} to {gap.last} were skipped: the screen was too slow"
        self._append(NoteBlock(None, 0.0, text, "notice"))

    def _apply_reset(self, reset: Reset) -> None:
        # All of it is void, as in a new model.
        vars(self).update(vars(TranscriptModel(max_blocks=self._max_blocks)))
        self._touch(0)
        text = f"the store was restored from a backup: the session has {reset.last} records"
        self._append(NoteBlock(None, 0.0, text, "notice"))

    def _apply_record(self, record: Record) -> None:
        self.pending.apply(record)
        show = _SHOWN_KINDS.get(record.kind)
        if show is None:
            return
        self.shown_seq = record.seq
        self._undo_provisional()
        show(self, record)
        self._drop_oldest()
        for part in self._parts:
            self._say_provisionally(part.kind, part.turn_id, part.text)

    def _show_text(self, record: Record) -> None:
        part = record.body.get("part")
        self._parts.close(part)
        proto = TextBlock(
            record.turn_id,
            record.at,
            "thought" if record.kind == "thought" else "agent",
            "",
        )
        is_continued = record.body.get("continues") is True or part is None
        self._say(proto, _text(record.body, "text"), is_new_line=not is_continued)

    def _show_user_text(self, record: Record) -> None:
        how = self.pending.arrival(record)
        self._end_run()
        self._say(TextBlock(record.turn_id, record.at, "user", "", how), _text(record.body, "text"))
        self._end_run()

    def _show_turn_start(self, record: Record) -> None:
        self.turn_id = record.turn_id
        source = record.body.get("source")
        said = None if source in (None, "user") else brief(source)
        self._append(TurnStartBlock(record.turn_id, record.seq, record.at, said))

    def _show_turn_end(self, record: Record) -> None:
        body = record.body
        self._parts.clear()
        self.turn_id = None
        outcome = brief(body.get("outcome")) or "ended"
        for key, block in self._work.end_turn(outcome, record.at):
            self._put(key, block)
        usage = body.get("usage")
        usage = usage if isinstance(usage, Mapping) else {}
        self._append(
            TurnEndBlock(
                record.turn_id,
                record.at,
                outcome,
                brief(body.get("error"), 2_000),
                brief(body.get("stop_reason")) or None,
                brief(body.get("ladder_step")) or None,
                # When a lost turn really ended is not known.
                None if outcome == "lost" else _number(body.get("seconds")),
                int(_number(usage.get("input_tokens")) or 0.0)
                + int(_number(usage.get("output_tokens")) or 0.0),
                _number(usage.get("cost")) or 0.0,
            )
        )

    def _show_request(self, record: Record) -> None:
        body = record.body
        options, choices = body.get("options"), body.get("choices")
        is_question = body.get("kind") == "question"
        block = RequestBlock(
            record.turn_id,
            record.at,
            _text(body, "request_id"),
            "" if is_question else brief(body.get("tool")),
            full_input(body.get("question")),
            full_input(body.get("input")),
            tuple(map(str, options)) if isinstance(options, list) else (),
        )
        if is_question:
            suggested = tuple(map(str, choices)) if isinstance(choices, list) else ()
            block = attrs.evolve(block, choices=suggested)
        self.requests[block.request_id] = block
        self._put(block.request_id, block)

    def _show_decision(self, record: Record) -> None:
        request_id, by = _text(record.body, "request_id"), brief(record.body.get("by")) or None
        answer = record.body.get("text", record.body.get("decision"))
        decision = brief(answer) or "answered"
        block = self.requests.pop(request_id, None)
        if block is None:  # its request is not shown
            said = f"a request was answered: {decision}"
            self._append(NoteBlock(record.turn_id, record.at, said))
        else:
            self._put(request_id, attrs.evolve(block, decision=decision, by=by))

    def _show_work(self, record: Record) -> None:
        settled = self.pending.text_of(record.body.get("input_id"))
        for key, block in self._work.apply(record, input_text=settled):
            self._put(key, block)

    # Blocks -------------------------------------------------------------------------------

    def _put(self, key: str | None, block: Block) -> None:
        """Add the block, or put it at the place of the earlier block with this key."""
        if key is not None and key in self._places:
            self._replace(self._places[key], block)
            return
        self._append(block)
        if key is not None:
            self._places[key] = self.dropped + len(self.blocks) - 1

    def _append(self, block: Block) -> None:
        self._end_run()
        self._touch(len(self.blocks))
        self.blocks.append(block)

    def _replace(self, place: int, block: Block) -> None:
        index = place - self.dropped
        if 0 <= index < len(self.blocks):
            self._touch(index)
            self.blocks[index] = block

    def _touch(self, index: int) -> None:
        self._changed = index if self._changed is None else min(self._changed, index)

    def _drop_oldest(self) -> None:
        if len(self.blocks) < self._max_blocks + min(_DROPPED_AT_ONCE, self._max_blocks):
            return
        count = len(self.blocks) - self._max_blocks
        if self._run is not None:
            count = min(count, self._run_start)
        del self.blocks[:count]
        self.dropped += count
        self._run_start -= count
        self.first_seq = next(
            (one.seq for one in self.blocks if isinstance(one, TurnStartBlock)), self.last_seq
        )
        self._places = {key: at for key, at in self._places.items() if at >= self.dropped}
        self._changed = 0

    # Text ---------------------------------------------------------------------------------

    def _say(self, proto: TextBlock, text: str, *, is_new_line: bool = False) -> None:
        run = self._run
        if run is None or not run.is_of(proto):
            self._end_run()
            run = self._run = TextRun.start(proto)
            self._run_start = len(self.blocks)
            self.blocks.append(run.blocks[0])
        before = len(run.blocks) - 1
        if is_new_line and not run.is_empty:
            run.end_line()
        run.append(text)
        self._show_run(before)

    def _end_run(self) -> None:
        if self._run is not None:
            before = len(self._run.blocks) - 1
            self._run.finish()
            self._show_run(before)
            self._run = None

    def _show_run(self, first: int) -> None:
        """Put the blocks of the run, from its block number `first` on, at the end."""
        assert self._run is not None
        start = self._run_start + first
        self._touch(start)
        self.blocks[start:] = self._run.blocks[first:]

    def _say_provisionally(self, kind: str, turn_id: str, text: str) -> None:
        if self._settled is None:
            run = None if self._run is None else self._run.copy()
            self._settled = (len(self.blocks), run, self._run_start)
        speaker: Final = "thought" if kind == "thought" else "agent"
        self._say(TextBlock(turn_id, 0.0, speaker, ""), text)

    def _undo_provisional(self) -> None:
        if self._settled is None:
            return
        length, self._run, self._run_start = self._settled
        self._settled = None
        if self._run is None:
            self._touch(length)
        else:
            last = len(self._run.blocks) - 1
            length = self._run_start + last
            self._touch(length)
        del self.blocks[length:]
        if self._run is not None:
            self.blocks.append(self._run.blocks[-1])


def _text(body: Mapping[str, object], name: str) -> str:
    value = body.get(name)
    return value if isinstance(value, str) else ""


_Show = Callable[[TranscriptModel, Record], None]
_SHOWN_KINDS: Final[Mapping[str, _Show]] = {
    "agent_text": TranscriptModel._show_text,  # noqa: SLF001 - the same class
    "thought": TranscriptModel._show_text,  # noqa: SLF001
    "user_text": TranscriptModel._show_user_text,  # noqa: SLF001
    "turn_started": TranscriptModel._show_turn_start,  # noqa: SLF001
    "turn_ended": TranscriptModel._show_turn_end,  # noqa: SLF001
    "permission_asked": TranscriptModel._show_request,  # noqa: SLF001
    "permission_answered": TranscriptModel._show_decision,  # noqa: SLF001
    **dict.fromkeys(WORK_KINDS, TranscriptModel._show_work),  # noqa: SLF001
}


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) else None
