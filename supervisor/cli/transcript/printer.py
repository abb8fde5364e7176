"""Print a transcript as plain text that flows: text as it comes, everything else as lines.

Printed text cannot change, so a tool call is printed when it starts and when it ends.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from supervisor.cli.output import Screen
from supervisor.cli.safe import SafeStream
from supervisor.cli.text_format import Cell
from supervisor.core.records import Delta, Item, Record

from .blocks import Block, TextBlock
from .lines import UNBOUNDED, block_lines
from .model import TranscriptModel

_ASCII: Final = str.maketrans(
    {"✓": "+", "✗": "x", "•": "*", "→": ">", "↳": ">", "─": "-", "…": "~"}
)
# The printed blocks are kept only as far as they may be printed again.
_TEXT_KINDS: Final = ("agent_text", "thought")
_MAX_BLOCKS: Final = 1_000


class TranscriptPrinter:
    """Prints the items of one session on a screen."""

    def __init__(self, screen: Screen) -> None:
        self._screen = screen
        self._model = TranscriptModel(max_blocks=_MAX_BLOCKS)
        self._stream = SafeStream()
        # The first part whose record has not arrived, and the number of its characters printed.
        # Text of later parts waits, because other records may come before it.
        self._part: str | None = None
        self._printed = 0
        self._is_at_line_start = True
        self._is_in_text = False

    def print_all(self, records: Iterable[Record]) -> None:
        """Print finished records: each tool call once, with its end."""
        model = TranscriptModel(max_blocks=UNBOUNDED)
        for record in records:
            model.apply(record)
        for block in model.blocks:
            self._print_block(block)

    def print_item(self, item: Item) -> None:
        """Print an item of a feed."""
        if isinstance(item, Delta):
            self._print_delta(item)
            return
        # With the blocks, so that no new block gets the id of one of them.
        known = {id(block): block for block in self._model.blocks}
        first = self._model.apply(item)
        if isinstance(item, Record) and item.kind in _TEXT_KINDS:
            text = self._rest_of_part(item)
            if item.kind == "agent_text":
                self._print_text(text)
                return
        for block in () if first is None else self._model.blocks[first:]:
            if id(block) not in known:
                self._print_block(block)

    def end_line(self) -> None:
        """Start the next output on a new line."""
        self._write(self._stream.finish())
        self._is_in_text = False
        if not self._is_at_line_start:
            self._write("\n")

    def _print_delta(self, delta: Delta) -> None:
        if self._part is None and delta.kind in _TEXT_KINDS:
            self._part, self._printed = delta.part, 0
        known = self._printed
        if delta.part == self._part and delta.kind == "agent_text" and delta.offset <= known:
            self._print_text(delta.text[known - delta.offset :])
            self._printed = max(known, delta.offset + len(delta.text))

    def _rest_of_part(self, record: Record) -> str:
        """Return the text of the record that its deltas have not contained."""
        known = self._printed if record.body.get("part") == self._part else 0
        self._part, self._printed = None, 0
        if not known and record.body.get("continues") is False and self._is_in_text:
            self.end_line()
        text = record.body.get("text")
        return text[known:] if isinstance(text, str) else ""

    def _print_text(self, text: str) -> None:
        if text:
            self._write(self._stream.feed(text))
            self._is_in_text = True

    def _print_block(self, block: Block) -> None:
        if isinstance(block, TextBlock) and block.speaker == "agent":
            self._write(block.text)
            return
        self.end_line()
        for line in block_lines(block, self._screen.width or UNBOUNDED):
            self._screen.line(*(Cell(self._encodable(cell.text), cell.style) for cell in line))

    def _write(self, text: str) -> None:
        if text:
            self._is_at_line_start = text.endswith("\n")
            self._screen.write(self._encodable(text))

    def _encodable(self, text: str) -> str:
        return text if self._screen.has_box_characters else text.translate(_ASCII)
