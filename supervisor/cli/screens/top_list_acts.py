"""What the user does to the list of `top`: moves, folds, groupings, sorts, columns."""

from __future__ import annotations

import time

from .top_acts import SessionActs
from .top_columns import COLUMNS, OPTIONAL
from .top_dialogs import Choice, ChoiceDialog
from .top_list import SessionList

# One key for each column.
_COLUMN_KEYS = "123456789abc"


class ListActs(SessionActs):
    """The part of the screen that acts on the list."""

    list: SessionList

    def draw_lines(self, now: float) -> None:
        """Draw the single lines around the list."""
        raise NotImplementedError

    # Keys: moving --------------------------------------------------------------------------

    def action_move(self, by: int) -> None:
        """Select a line above or below, or scroll the pane with the focus."""
        if self.focused is self.inbox:
            self.inbox.move(by)
        elif self.focused in (None, self.list):
            self.list.move(by)
        else:
            self.focused.scroll_relative(y=by, animate=False)

    def action_move_page(self, by: int) -> None:
        """Select or scroll one page up or down."""
        if self.focused in (None, self.list):
            self.list.move(by * max(1, self.list.size.height - 1))
        elif by > 0:
            self.focused.scroll_page_down(animate=False)
        else:
            self.focused.scroll_page_up(animate=False)

    def action_move_far(self, by: int) -> None:
        """Select the first or the last line."""
        self.list.move(by * len(self.model.lines))

    def action_next_urgent(self) -> None:
        """Select the next session that needs a person."""
        self.model.touch(time.monotonic())
        if self.model.select_urgent():
            self.list.after_selection()
        else:
            self.remark("no other session needs you")

    def action_fold(self) -> None:
        """Fold, or go to the parent."""
        self.list.fold_or_leave()

    def action_unfold(self) -> None:
        """Unfold."""
        self.list.unfold()

    def action_toggle_fold(self) -> None:
        """Fold or unfold."""
        self.list.toggle_fold()

    def action_fold_all(self) -> None:
        """Fold or unfold everything."""
        self.model.fold_all()
        self.list.update(time.monotonic())
        self.list.after_selection()

    # Keys: how the list is shown -----------------------------------------------------------

    def filter_rows(self, text: str) -> None:
        """Filter the list, and select a session that matches, before the next key arrives."""
        self.model.set_filter(text)
        self.list.update(time.monotonic())
        self.list.after_selection()

    def action_toggle_stopped(self) -> None:
        """List stopped sessions too, or not; `draw` loads them."""
        shows = self.model.toggle_stopped()
        self.list.update(time.monotonic())
        self.list.after_selection()
        self.remark("loading stopped sessions ..." if shows else "without stopped sessions", "cyan")

    def action_next_view(self) -> None:
        """Group in the next way."""
        grouping = self.model.next_grouping()
        self.list.update(time.monotonic())
        self.list.after_selection()
        self.remark(f"grouped by {grouping}" if grouping != "flat" else "not grouped", "cyan")

    def action_next_sort(self) -> None:
        """Sort by the next value."""
        sort = self.model.next_sort()
        self.list.update(time.monotonic())
        self.list.after_selection()
        self.remark(f"sorted by {sort}", "cyan")

    def action_reverse_sort(self) -> None:
        """Sort the other way round."""
        self.model.set_view(is_reversed=not self.model.view.is_reversed)
        self.list.update(time.monotonic())
        self.list.after_selection()

    def action_columns(self) -> None:
        """Ask which column to show or hide."""
        titles = {column.name: column.title for column in COLUMNS}
        keys = dict(zip("123456789abc", OPTIONAL, strict=False))
        choices = [
            Choice(key, titles[name], "shown" if name in self.list.column_widths else "hidden")
            for key, name in keys.items()
        ]

        def chosen(key: str | None) -> None:
            if key is None:
                return
            name = keys[key]
            if name in self.list.column_widths:
                self.list.hidden_columns.add(name)
                self.list.added_columns.discard(name)
            else:
                self.list.hidden_columns.discard(name)
                self.list.added_columns.add(name)
            self.list.choose_columns()
            self.draw_lines(time.time())

        self.app.push_screen(ChoiceDialog("Show or hide a column", choices), chosen)
