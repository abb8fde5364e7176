"""The widget that shows the lines of `TopModel`: only those on the screen are rendered.

Rule 1: a new layout moves the other lines around the selected one, which stays on its line of the
        screen; if it is not on the screen, the first line that is stays.
"""

from __future__ import annotations

import time
from typing import Final

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.geometry import Region, Size
from textual.message import Message
from textual.strip import Strip

from supervisor.cli.text_format import Cell

from .line_view import LineView
from .styled_text import cells_segments
from .top_columns import ColumnName, choose_columns, fitted, heading_cells, line_cells
from .top_layout import GroupLine
from .top_model import TopModel

_SELECTED: Final = Style(reverse=True)
_SELECTED_BLURRED: Final = Style(bold=True)
_FOLD_MARK_END: Final = 4
_DOUBLE: Final = 2


class SessionList(LineView, can_focus=True, inherit_bindings=False):
    """The sessions, with a selected line; the keys of the screen and the mouse move it."""

    DEFAULT_CSS = "SessionList { height: 1fr; }"

    class Opened(Message):
        """The user wants to open the selected session."""

    class Moved(Message):
        """Another line is selected."""

    def __init__(self, model: TopModel) -> None:
        super().__init__()
        self.model = model
        self.hidden_columns: set[ColumnName] = set()
        self.added_columns: set[ColumnName] = set()
        self.column_widths: dict[ColumnName, int] = {}
        self._empty_text = ""
        self._has_begun = False
        # When the first lines were drawn, by the clock of events; None before.
        self.drawn_at: float | None = None

    # Drawing -------------------------------------------------------------------------------

    def begin(self) -> None:
        """Draw the first snapshot, which the model has."""
        if not self._has_begun:
            self._has_begun = True
            self.refresh()

    def render_line(self, y: int) -> Strip:
        """Return one line of the screen."""
        if self._has_begun and self.drawn_at is None:
            self.drawn_at = time.monotonic()
        width = self.size.width
        place = y + round(self.scroll_offset.y)
        base = self.base_style
        if place >= len(self.model.lines):
            text = self._empty_text if y == 0 and not self.model.lines else ""
            return Strip([Segment(text, base)]).adjust_cell_length(width, base)
        line = self.model.lines[place]
        is_selected = line.key == self.model.selected
        cells = line_cells(
            line,
            self.model.entries.get(line.key),
            self.column_widths,
            grouping=self.model.view.grouping,
            request=self.model.requests_by_session.get(line.key),
            is_selected=is_selected,
            now=time.time(),
        )
        if is_selected:
            base += _SELECTED if self.has_focus else _SELECTED_BLURRED
        strip = Strip(cells_segments(fitted(cells, width), base))
        return strip.adjust_cell_length(width, base)

    def heading(self) -> list[Cell]:
        """Return the titles of the columns."""
        return fitted(heading_cells(self.column_widths), self.size.width)

    def set_empty_text(self, text: str) -> None:
        """Set what an empty list says."""
        if text != self._empty_text:
            self._empty_text = text
            self.refresh()

    def choose_columns(self) -> None:
        """Choose the columns for the current width."""
        self.column_widths = choose_columns(
            self.size.width, hidden=self.hidden_columns, added=self.added_columns
        )
        self.refresh()

    def on_resize(self) -> None:
        """Choose the columns again; keep the selected line on the screen."""
        self.choose_columns()
        self._set_size()
        self.call_after_refresh(self.show_selected)

    def update(self, now: float) -> bool:
        """Lay out if that is due, and redraw what has changed; return whether lines moved."""
        top = round(self.scroll_offset.y)
        anchor = self._anchor_key(top)
        place = self._line_of(anchor)
        changed, self.model.changed = self.model.changed, set()
        if not self.model.lay_out(now):
            self._refresh_lines(changed, top)
            return False
        self._set_size()
        after = self._line_of(anchor)
        if place is not None and after is not None:
            # A list at its start stays there: who needs a person now comes above the selection.
            stays = top == 0 and after < self.size.height
            self.scroll_to(y=0 if stays else after - (place - top), animate=False, immediate=True)
        self.refresh()
        return True

    def _line_of(self, key: str | None) -> int | None:
        """Return the line that has this key, if there is one."""
        index = self.model.layout.index
        return None if key is None else index.get(key)

    def _anchor_key(self, top: int) -> str | None:
        lines, place = self.model.lines, self.model.selected_index
        if place is not None and top <= place < top + self.size.height:
            return self.model.selected
        return lines[top].key if top < len(lines) else None

    def _set_size(self) -> None:
        self.virtual_size = Size(self.size.width, len(self.model.lines))

    def _refresh_lines(self, keys: set[str], top: int) -> None:
        index = self.model.layout.index
        for key in keys:
            y = index.get(key, -1) - top
            if 0 <= y < self.size.height:
                self.refresh(Region(0, y, self.size.width, 1))

    # The selection -------------------------------------------------------------------------

    def move(self, by: int) -> None:
        """Move the selection by that many lines."""
        self.model.touch(time.monotonic())
        self.model.move(by)
        self.after_selection()

    def after_selection(self) -> None:
        """Show the line that has been selected."""
        self.show_selected()
        self.refresh()
        self.post_message(self.Moved())

    def show_selected(self) -> None:
        """Scroll until the selected line is on the screen."""
        place = self.model.selected_index
        if place is None or not self.size.height:
            return
        top = round(self.scroll_offset.y)
        # The heading of a group belongs to its first line.
        has_heading = place > 0 and isinstance(self.model.lines[place - 1], GroupLine)
        above = place - 1 if has_heading else place
        if above < top:
            self.scroll_to(y=above, animate=False, immediate=True)
        elif place >= top + self.size.height:
            self.scroll_to(y=place - self.size.height + 1, animate=False, immediate=True)

    def toggle_fold(self) -> None:
        """Fold or unfold the selected line."""
        self.model.toggle_fold()
        self._lay_out_now()

    def fold_or_leave(self) -> None:
        """Fold the selected line; if it cannot be folded, select what contains it."""
        key = self.model.selected
        line = (
            None
            if self.model.selected_index is None
            else self.model.lines[self.model.selected_index]
        )
        if key is None or line is None:
            return
        is_open = not line.is_folded if isinstance(line, GroupLine) else line.fold == "open"
        if is_open:
            self.model.set_fold(key, is_folded=True)
        else:
            container = self.model.container_of(key)
            if container is not None:
                self.model.select(container)
        self._lay_out_now()

    def unfold(self) -> None:
        """Unfold the selected line."""
        if self.model.selected is not None:
            self.model.set_fold(self.model.selected, is_folded=False)
            self._lay_out_now()

    def _lay_out_now(self) -> None:
        self.update(time.monotonic())
        self.after_selection()

    # The mouse -----------------------------------------------------------------------------

    def on_mouse_move(self) -> None:
        """Hold the order while the user aims."""
        self.model.touch(time.monotonic())

    def on_mouse_scroll_down(self) -> None:
        """Hold the order while the user scrolls."""
        self.model.touch(time.monotonic())

    def on_mouse_scroll_up(self) -> None:
        """Hold the order while the user scrolls."""
        self.model.touch(time.monotonic())

    def on_click(self, event: events.Click) -> None:
        """Select the line; fold it at its mark; open it at a double click."""
        place = event.y + round(self.scroll_offset.y)
        if place >= len(self.model.lines):
            return
        self.model.touch(time.monotonic())
        line = self.model.lines[place]
        self.model.select(line.key)
        if isinstance(line, GroupLine):
            if event.x < _FOLD_MARK_END:
                self.toggle_fold()
                return
        elif line.fold != "none" and event.x < _FOLD_MARK_END + 2 * line.depth:
            self.toggle_fold()
            return
        self.after_selection()
        if event.chain == _DOUBLE:
            self.post_message(self.Opened())

    def on_focus(self) -> None:
        """Show the selected line as the one that keys act on."""
        self.refresh()

    def on_blur(self) -> None:
        """Show that keys act elsewhere."""
        self.refresh()
