"""Output of an agent, printed as it arrives, and its other records in a few words.

The text goes to standard output, everything else to standard error.
"""

from __future__ import annotations

from typing import Final

from supervisor.cli.columns import Cell, truncate
from supervisor.cli.output import Screen
from supervisor.cli.record_text import body_text
from supervisor.cli.safe import SafeStream
from supervisor.core.feed_items import Delta, Item
from supervisor.core.records import Record
from supervisor.core.text import one_line

# Records that are printed beside the text, and their labels.
_ASIDE_LABELS: Final = {
    "tool_call": "tool",
    "tool_ended": "tool",
    "interrupted": "interrupted",
    "steered": "steered",
    "agent_restarting": "the agent exited and restarts:",
    "child_started": "child",
    "child_ended": "child",
    "spawn_refused": "spawn refused:",
    "quiet": "quiet:",
    "stalled": "stalled:",
    "error": "error:",
    "warning": "warning:",
}
_MAX_WIDTH: Final = 100


class OutputPrinter:
    """Prints the feed of one session."""

    def __init__(self, screen: Screen, *, with_asides: bool) -> None:
        self._screen = screen
        self._with_asides = with_asides
        self._stream = SafeStream()
        # Number of characters printed of each part, until its closing record arrives.
        self._printed: dict[str, int] = {}
        # True if something was printed since the last text.
        self._needs_new_line = False
        self._is_at_line_start = True

    def print_item(self, item: Item) -> None:
        """Print the item, if it is of interest to people."""
        if isinstance(item, Record):
            self._print_record(item)
        elif isinstance(item, Delta) and item.kind == "agent_text":
            self._print_delta(item)

    def end_line(self) -> None:
        """Start the next output on a new line."""
        self._write(self._stream.finish())
        if not self._is_at_line_start:
            self._write("\n")

    def start_below_ctrl_c(self) -> None:
        """Start the next output below the `^C` that the terminal prints."""
        self._write(self._stream.finish())
        if self._screen.is_terminal and self._screen.is_ansi_stderr:
            self._screen.note()
            self._is_at_line_start = True
        self.end_line()

    def _print_delta(self, delta: Delta) -> None:
        known = self._printed.get(delta.part, 0)
        self._print_text(delta.text[max(0, known - delta.offset) :])
        self._printed[delta.part] = max(known, delta.offset + len(delta.text))

    def _print_record(self, record: Record) -> None:
        if record.kind == "agent_text":
            # Print what its deltas have not contained, because deltas may be missed.
            known = self._printed.pop(str(record.body.get("part")), 0)
            self._print_text(record.body["text"][known:])
            return
        self._needs_new_line = record.kind not in ("input_accepted", "input_settled", "usage")
        if self._with_asides and record.kind in _ASIDE_LABELS:
            self._print_aside(record)

    def _print_aside(self, record: Record) -> None:
        self.end_line()
        said = one_line(f"{_ASIDE_LABELS[record.kind]} {body_text(record)}")
        width = min(self._screen.width or _MAX_WIDTH, _MAX_WIDTH)
        self._screen.note(Cell(truncate(f"  {said}", width), "dim"))

    def _print_text(self, text: str) -> None:
        if not text:
            return
        if self._needs_new_line:
            self.end_line()
            self._needs_new_line = False
        self._write(self._stream.feed(text))

    def _write(self, text: str) -> None:
        if text:
            self._is_at_line_start = text.endswith("\n")
            self._screen.write(text)
