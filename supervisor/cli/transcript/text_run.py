"""A text that grows at its end, cut into blocks of bounded size.

Invariant: all pieces together give the same text as one piece would, also if an escape sequence is
split between pieces.
"""

from __future__ import annotations

from typing import Final

import attrs

from supervisor.cli.safe import SafeStream

from .blocks import MAX_BLOCK_CHARACTERS, MAX_LINE_CHARACTERS, TextBlock

_PIECE_CHARACTERS: Final = 65_536
_WHERE_WHOLE: Final = "; `understudy log ID --json` has the whole line"


@attrs.define(eq=False)
class TextRun:
    """The growing text of one speaker; `blocks` has all its blocks, of which only the last grows.

    A block ends with a line, so it has at most `MAX_BLOCK_CHARACTERS` and one line.
    """

    blocks: list[TextBlock]
    _stream: SafeStream = attrs.field(factory=SafeStream)
    # Characters of the current line that are shown, and that are not.
    _line_characters: int = 0
    _hidden: int = 0

    @classmethod
    def start(cls, block: TextBlock) -> TextRun:
        """Return a run that begins with an empty block like this."""
        return cls([attrs.evolve(block, text="", is_first=True, is_last=True)])

    def copy(self) -> TextRun:
        """Return the run as it is now; neither changes with the other."""
        return TextRun(list(self.blocks), self._stream.copy(), self._line_characters, self._hidden)

    def append(self, text: str) -> None:
        """Add a piece of any size."""
        for start in range(0, len(text), _PIECE_CHARACTERS):
            self._add(self._stream.feed(text[start : start + _PIECE_CHARACTERS]))

    def end_line(self) -> None:
        """Start the next piece on a new line, unless the text is at the start of one."""
        self.finish()
        if self._line_characters:
            self._add("\n")

    def finish(self) -> None:
        """Show the end of the text, because no piece follows on its last line."""
        self._add(self._stream.finish())
        if self._hidden:
            self._grow(self._hidden_note())

    def is_of(self, block: TextBlock) -> bool:
        """Return whether the block has the same speaker and turn."""
        first = self.blocks[0]
        return (first.speaker, first.turn_id) == (block.speaker, block.turn_id)

    @property
    def is_empty(self) -> bool:
        """True if no text is shown."""
        return len(self.blocks) == 1 and not self.blocks[0].text

    def _add(self, text: str) -> None:
        if not text:
            return
        *lines, rest = text.split("\n")
        self._grow("".join([*(self._fit_line(line) for line in lines), self._fit(rest)]))

    def _fit_line(self, line: str) -> str:
        shown = self._fit(line) + self._hidden_note()
        self._line_characters = 0
        return f"{shown}\n"

    def _fit(self, piece: str) -> str:
        """Return the start of the piece that fits on the current line."""
        shown = piece[: max(0, MAX_LINE_CHARACTERS - self._line_characters)]
        self._hidden += len(piece) - len(shown)
        self._line_characters += len(shown)
        return shown

    def _hidden_note(self) -> str:
        hidden, self._hidden = self._hidden, 0
        return f"… {hidden} more characters{_WHERE_WHOLE}" if hidden else ""

    def _grow(self, text: str) -> None:
        last = self.blocks[-1]
        if len(last.text) + len(text) <= MAX_BLOCK_CHARACTERS:
            self.blocks[-1] = attrs.evolve(last, text=last.text + text)
            return
        for line in text.splitlines(keepends=True):
            last = self.blocks[-1]
            if len(last.text) + len(line) > MAX_BLOCK_CHARACTERS and last.text.endswith("\n"):
                self.blocks[-1] = attrs.evolve(last, is_last=False)
                last = attrs.evolve(last, text="", is_first=False)
                self.blocks.append(last)
            self.blocks[-1] = attrs.evolve(last, text=last.text + line)
