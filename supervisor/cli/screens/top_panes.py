"""The panes beside or below the list of `top`: details, transcript, inbox."""

from __future__ import annotations

import asyncio
import time
from typing import Any, Final

from textual.app import ComposeResult
from textual.containers import Vertical, VerticalScroll
from textual.widgets import Static

from supervisor.cli.text_format import Cell
from supervisor.core.errors import SupervisorError
from supervisor.core.records import Item, Record
from supervisor.core.text import one_line

from .styled_text import cells_text, lines_text
from .top_details import details_lines, group_lines
from .top_inbox import InboxModel, inbox_lines
from .top_layout import GROUP_PREFIX
from .top_model import TopModel
from .top_order import Entry, display_name, group_title
from .top_scopes import OpenCalls, RunningCall
from .transcript_view import TranscriptView

# A selection that moves on within this time loads nothing.
SETTLE_SECONDS: Final = 0.2
# A user who wants to interrupt waits no longer for the list of tool calls.
_READ_SECONDS: Final = 1.0
# The number of records that are loaded of a session that is selected.
_TAIL_RECORDS: Final = 300


class DetailsPane(VerticalScroll):
    """Why the selected session does what it does."""

    def __init__(self, model: TopModel) -> None:
        super().__init__(id="details")
        self._model = model
        self._text = Static()
        self._why: Any = None
        self._heights: list[int] = []

    def compose(self) -> ComposeResult:
        """Show one text."""
        yield self._text

    async def load_why(self, sup: Any, session_id: str) -> None:  # noqa: ANN401 - a target
        """Ask the daemon what the session waits for; without an answer the row's word is shown."""
        await asyncio.sleep(SETTLE_SECONDS)
        try:
            self._why = await sup.session(session_id).why()
        except SupervisorError:
            self._why = None
        self.show()

    def show(self) -> None:
        """Show the selected line as it is now."""
        model, entry = self._model, self._model.selected_entry
        if entry is not None:
            lines = details_lines(entry, self._why, model.entries, now=time.time())
        elif model.selected is not None and model.selected.startswith(GROUP_PREFIX):
            place = model.selected_index
            count = 0 if place is None else getattr(model.lines[place], "count", 0)
            name = model.selected.removeprefix(GROUP_PREFIX)
            lines = group_lines(group_title(name, model.view.grouping), count, self.size.width)
        else:
            lines = [[Cell("Nothing is selected.", "dim")]]
        text = lines_text(lines, is_wrapped=True)
        # Ages change each second, and a layout of the screen is the most expensive thing it does.
        heights = [len(line) // max(1, self.size.width) for line in text.plain.split("\n")]
        self._text.update(text, layout=heights != self._heights)
        self._heights = heights


class TranscriptPane(Vertical):
    """The live transcript of the selected session, and its open tool calls."""

    def __init__(self) -> None:
        super().__init__(id="transcript")
        self.view = TranscriptView(id="transcript-view")
        self._title = Static(id="transcript-title")
        # The session whose records are read; None before the first and between two.
        self.session_id: str | None = None
        self.calls = OpenCalls()
        # Items that the next tick shows: one frame of the screen costs more than many items.
        self._unshown: list[Item] = []
        # Set when the records of the session are read up to those of its row.
        self._is_current = asyncio.Event()

    def compose(self) -> ComposeResult:
        """Show whose transcript it is, then the transcript."""
        yield self._title
        yield self.view

    def name_session(self, entry: Entry | None) -> None:
        """Show whose transcript this is."""
        if entry is None:
            name = Cell(" select a session", "dim")
        else:
            name = Cell(one_line(display_name(entry)), "bold")
        self._title.update(cells_text([Cell("transcript ", "dim"), name]))

    def forget(self) -> None:
        """Show nothing, because another line is selected."""
        self.session_id = None
        self._is_current.clear()
        self._unshown.clear()
        self.calls.clear()
        self.view.clear()

    async def open_calls(self, session_id: str) -> list[RunningCall] | None:
        """Return the running tool calls of the selected session; None if that takes long."""
        try:
            await asyncio.wait_for(self._is_current.wait(), _READ_SECONDS)
        except TimeoutError:
            return None
        return list(self.calls) if self.session_id == session_id else None

    def show_items(self) -> None:
        """Show what has arrived since the last tick."""
        items, self._unshown = self._unshown, []
        for item in items:
            self.view.apply(item)

    async def follow(self, sup: Any, entry: Entry) -> None:  # noqa: ANN401 - a target
        """Show the last records of the session, then what happens, until cancelled."""
        await asyncio.sleep(SETTLE_SECONDS)
        self.session_id, last = entry.id, entry.row.last_seq
        after = max(0, last - _TAIL_RECORDS)
        try:
            async with sup.session(entry.id).watch(after=after) as feed:
                async for item in feed:
                    self.calls.apply(item)
                    self._unshown.append(item)
                    if isinstance(item, Record) and item.seq >= last:
                        self._is_current.set()
        except SupervisorError:
            return  # the list says that the session or the daemon is gone


class InboxPane(VerticalScroll, can_focus=True, inherit_bindings=False):
    """The questions that wait for a person, one of them in full."""

    def __init__(self, model: TopModel) -> None:
        super().__init__(id="inbox")
        self._model = model
        self._text = Static()
        self.inbox = InboxModel()

    def compose(self) -> ComposeResult:
        """Show one text."""
        yield self._text

    def show(self) -> None:
        """Show the questions as they are now."""
        self.inbox.update(self._model.requests)
        lines = inbox_lines(self.inbox, self._model.requests, self._model.entries, now=time.time())
        self._text.update(lines_text(lines, is_wrapped=True))

    def move(self, by: int) -> None:
        """Show another question, from its first line."""
        self.inbox.move(self._model.requests, by)
        self.scroll_home(animate=False)
        self.show()
