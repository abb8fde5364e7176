"""`TranscriptView`: a transcript that flows, and follows its end unless scrolled up.

Rule 1: only changed blocks are laid out again, and only visible lines that differ are drawn.
Rule 2: however many items arrive, the screen is drawn once a frame.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from time import monotonic
from typing import ClassVar, Final, Literal

from rich.segment import Segment
from rich.style import Style
from textual.binding import Binding, BindingType
from textual.geometry import Region, Size
from textual.message import Message
from textual.strip import Strip

from supervisor.cli.transcript.blocks import Block
from supervisor.cli.transcript.lines import Line, block_lines
from supervisor.cli.transcript.model import TranscriptModel
from supervisor.core.records import Item

from .line_view import LineView

_FRAME_SECONDS: Final = 1 / 60
_STYLES: Final[dict[str | None, Style]] = {
    None: Style(),
    "bold": Style(bold=True),
    "dim": Style(dim=True),
    **{name: Style(color=name) for name in ("red", "green", "yellow", "blue", "magenta", "cyan")},
}


class TranscriptView(LineView, can_focus=True):
    """The transcript of one session."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(key, f"scroll_by_key('{how}')", show=False)
        for key, how in (
            ("up", "up"),
            ("down", "down"),
            ("pageup", "page_up"),
            ("pagedown", "page_down"),
            ("home", "home"),
            ("end", "end"),
        )
    ]
    # The scroll bar has its column from the start: lines that were laid out stay valid.
    DEFAULT_CSS = "TranscriptView { height: 1fr; scrollbar-gutter: stable; }"

    class ReachedStart(Message):
        """The user has scrolled to the first line: older records may be wanted."""

    class Shown(Message):
        """The end of the transcript, up to the record `seq`, is on the screen."""

        def __init__(self, seq: int) -> None:
            super().__init__()
            self.seq = seq

    def __init__(
        self,
        *,
        name: str | None = None,
        id: str | None = None,  # noqa: A002 - of Textual
        classes: str | None = None,
    ) -> None:
        super().__init__(name=name, id=id, classes=classes)
        self.model = TranscriptModel()
        self.thoughts: Literal["folded", "whole"] = "folded"
        self._blocks: list[Block] = []
        self._lines: list[list[Line]] = []
        # Invariant: _ends[i] is the number of lines of the blocks 0 to i.
        self._ends: list[int] = []
        self._layout_width = 0
        # The first block to lay out again; None if all are laid out.
        self._stale_from: int | None = None
        self._is_frame_due = False
        self._drawn_at = 0.0
        self._follows_end = True
        self._shown_seq = 0

    # Contents -----------------------------------------------------------------------------

    def apply(self, item: Item) -> None:
        """Show an item of the session's feed."""
        first = self.model.apply(item)
        if first is not None:
            self._stale_from = first if self._stale_from is None else min(self._stale_from, first)
            self._request_frame()

    def replace(self, model: TranscriptModel) -> None:
        """Show another model of the same session, with older records; the place stays."""
        below = self.virtual_size.height - self.scroll_y
        self.model = model
        self._stale_from = 0
        self._lay_out()
        if not self._follows_end:
            self.scroll_to(y=self.virtual_size.height - below, animate=False, force=True)

    def clear(self) -> None:
        """Show nothing, before the items of another session."""
        self._follows_end = True
        self._shown_seq = 0
        self.replace(TranscriptModel())

    def toggle_thoughts(self) -> None:
        """Show thoughts whole, or folded into one line."""
        self.thoughts = "folded" if self.thoughts == "whole" else "whole"
        self._lay_out_all()

    def follow_end(self) -> None:
        """Scroll to the end, and follow it."""
        self._follows_end = True
        self.scroll_end(animate=False, force=True)
        self._say_shown()

    def action_scroll_by_key(self, how: str) -> None:
        """Scroll as `scroll_by_key` does."""
        self.scroll_by_key(how)

    def scroll_by_key(self, how: str) -> None:
        """Scroll by `up`, `down`, `page_up`, `page_down`, or to `home` or `end`, at once."""
        if how == "end":
            self.follow_end()
        elif how == "home":
            self.scroll_home(animate=False)
        else:
            page = max(1, self.scrollable_content_region.height - 1)
            lines = {"up": -1, "down": 1, "page_up": -page, "page_down": page}[how]
            self.scroll_relative(y=lines, animate=False)
        if how in ("up", "page_up", "home") and self.scroll_offset.y == 0:
            self.post_message(self.ReachedStart())

    @property
    def shown_seq(self) -> int:
        """The number of the last record whose end was on the screen."""
        return self._shown_seq

    @property
    def follows_end(self) -> bool:
        """True if new text scrolls the view."""
        return self._follows_end

    # Layout -------------------------------------------------------------------------------

    def _request_frame(self) -> None:
        if self._is_frame_due or not self.is_attached:
            return
        self._is_frame_due = True
        wait = self._drawn_at + _FRAME_SECONDS - monotonic()
        if wait > 0.0:
            self.set_timer(wait, self._draw_frame)
        else:
            self.call_later(self._draw_frame)

    def _draw_frame(self) -> None:
        self._is_frame_due = False
        self._drawn_at = monotonic()
        self._lay_out()

    def _lay_out_all(self) -> None:
        self._blocks, self._lines, self._ends = [], [], []
        self._stale_from = 0
        self._lay_out()
        # What was on the screen is not known any more.
        self.refresh()

    def _lay_out(self) -> None:
        """Lay out the blocks that have changed, and scroll if the view follows its end."""
        width = self.scrollable_content_region.width
        if self._stale_from is None or width <= 0:
            return
        before = self._visible_lines()
        # The width can change before the widget hears of it.
        first = self._stale_from if width == self._layout_width else 0
        self._stale_from = None
        known = {}
        if width == self._layout_width:
            known = dict(zip(map(id, self._blocks[first:]), self._lines[first:], strict=True))
        self._layout_width = width
        blocks = self.model.blocks[first:]
        keep: Callable[[int], list[Line] | None] = known.get
        lines = [keep(id(block)) or self._lines_of(block) for block in blocks]
        # The old blocks stay referenced until here, so that no id is used twice.
        self._blocks[first:] = blocks
        self._lines[first:] = lines
        del self._ends[first:]
        end = self._ends[-1] if self._ends else 0
        for one in lines:
            end += len(one)
            self._ends.append(end)
        self.virtual_size = Size(width, end)
        if self._follows_end:
            self.scroll_end(animate=False, force=True, immediate=True)
        self._refresh_changed(before, width)
        self._say_shown()

    def _visible_lines(self) -> list[Line]:
        first = self.scroll_offset.y
        return [self._line_at(first + y) for y in range(self.size.height)]

    def _refresh_changed(self, before: list[Line], width: int) -> None:
        """Draw the lines of the screen that differ; a line costs more to draw than to compare."""
        pairs = enumerate(zip(before, self._visible_lines(), strict=True))
        changed = [y for y, (old, new) in pairs if old != new]
        if changed:
            self.refresh(Region(0, changed[0], width, changed[-1] - changed[0] + 1))

    def _lines_of(self, block: Block) -> list[Line]:
        return block_lines(block, self._layout_width, thoughts=self.thoughts)

    def on_mouse_scroll_up(self) -> None:
        """Ask for older records when the wheel is turned at the first line."""
        if self.scroll_offset.y == 0:
            self.post_message(self.ReachedStart())

    def on_resize(self) -> None:
        """Lay out everything for the new width."""
        if self.scrollable_content_region.width != self._layout_width:
            self._lay_out_all()
        elif self._follows_end:
            self.scroll_end(animate=False, force=True, immediate=True)

    # Drawing ------------------------------------------------------------------------------

    def render_line(self, y: int) -> Strip:
        """Return one line of the screen."""
        line = self._line_at(y + self.scroll_offset.y)
        width = self.scrollable_content_region.width
        segments = [Segment(cell.text, _STYLES[cell.style]) for cell in line]
        return Strip(segments).extend_cell_length(width).crop(0, width).apply_style(self.base_style)

    def _line_at(self, number: int) -> Line:
        place = bisect_right(self._ends, number)
        if number < 0 or place >= len(self._lines):
            return []
        before = self._ends[place - 1] if place else 0
        return self._lines[place][number - before]

    # Scrolling ----------------------------------------------------------------------------

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        """Follow the end as long as it is visible."""
        super().watch_scroll_y(old_value, new_value)
        if self.is_attached and old_value != new_value:
            self._follows_end = self.scroll_offset.y >= self.max_scroll_y
            self._say_shown()

    def _say_shown(self) -> None:
        if self._follows_end and self.model.shown_seq > self._shown_seq:
            self._shown_seq = self.model.shown_seq
            self.post_message(self.Shown(self._shown_seq))
