"""What an agent says, printed as it comes; and what it does beside, in a few words.

The text goes to standard output, everything else to standard error.
"""

from __future__ import annotations

from typing import Final

from supervisor.cli.looking.records import said_by
from supervisor.cli.terminal.columns import Cell, cut
from supervisor.cli.terminal.safe import SafeStream
from supervisor.cli.terminal.screen import Screen
from supervisor.core.printable import one_line
from supervisor.core.records import Record
from supervisor.sessions.shell.feed import Delta, Item

# Told beside the text: how a record of that kind begins.
_ASIDE: Final = {
    "tool_call": "tool",
    "tool_ended": "tool",
    "interrupted": "interrupted",
    "steered": "steered",
    "agent_restarting": "the agent died; it starts again:",
    "child_started": "child",
    "child_ended": "child",
    "spawn_refused": "no child:",
    "quiet": "quiet:",
    "stalled": "stalled:",
    "error": "error:",
    "warning": "warning:",
}
_WIDEST: Final = 100


class Speech:
    """One reader's view of a session's feed."""

    def __init__(self, screen: Screen, *, with_asides: bool) -> None:
        self._screen = screen
        self._with_asides = with_asides
        self._stream = SafeStream()
        # How much of each part was printed, until the record that closes it has come.
        self._printed: dict[str, int] = {}
        # Whether something came between the last text and the next.
        self._is_broken = False
        self._is_at_line_start = True

    def take(self, item: Item) -> None:
        """Print what it says, if it says anything to people."""
        if isinstance(item, Record):
            self._take_record(item)
        elif isinstance(item, Delta) and item.kind == "agent_text":
            self._take_delta(item)

    def end_line(self) -> None:
        """Have the next thing begin on a line of its own."""
        self._write(self._stream.finish())
        if not self._is_at_line_start:
            self._write("\n")

    def make_way(self) -> None:
        """Have the next thing begin below the `^C` that a terminal shows when it is pressed."""
        self._write(self._stream.finish())
        if self._screen.is_terminal and self._screen.is_lively_beside:
            self._screen.note()
            self._is_at_line_start = True
        self.end_line()

    def _take_delta(self, delta: Delta) -> None:
        known = self._printed.get(delta.part, 0)
        self._say(delta.text[max(0, known - delta.offset) :])
        self._printed[delta.part] = max(known, delta.offset + len(delta.text))

    def _take_record(self, record: Record) -> None:
        if record.kind == "agent_text":
            # What its deltas have not said, for they may be missed.
            known = self._printed.pop(str(record.body.get("part")), 0)
            self._say(record.body["text"][known:])
            return
        self._is_broken = record.kind not in ("input_accepted", "input_settled", "usage")
        if self._with_asides and record.kind in _ASIDE:
            self._tell_aside(record)

    def _tell_aside(self, record: Record) -> None:
        self.end_line()
        said = one_line(f"{_ASIDE[record.kind]} {said_by(record)}")
        width = min(self._screen.width or _WIDEST, _WIDEST)
        self._screen.note(Cell(cut(f"  {said}", width), "dim"))

    def _say(self, text: str) -> None:
        if not text:
            return
        if self._is_broken:
            self.end_line()
            self._is_broken = False
        self._write(self._stream.feed(text))

    def _write(self, text: str) -> None:
        if text:
            self._is_at_line_start = text.endswith("\n")
            self._screen.write(text)
