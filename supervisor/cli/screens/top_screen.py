"""The screen of `top`: the list, the panes, the line for text, and the tick that draws them.

Rule 1: items change the model at once; widgets are drawn by the tick, at most `every` seconds.
Rule 2: a session is marked as seen when the user opens its transcript, not when it is selected.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Coroutine
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, cast

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container, Horizontal
from textual.widgets import Input, Static

from supervisor.cli.text_format import Cell, counted
from supervisor.core.errors import SupervisorError
from supervisor.core.text import one_line

from .attach_screen import SlashCommands
from .opened_session import OpenedSession
from .styled_text import cells_text
from .top_dialogs import HelpScreen
from .top_feed import Connect, TopFeed
from .top_header import Connection, banner_cells, header_cells, view_cells
from .top_inbox import ANSWER_KEYS
from .top_keys import KEYS, help_lines, hint_cells, remark_cells
from .top_list import SessionList
from .top_list_acts import ListActs
from .top_model import TopModel
from .top_panes import DetailsPane, InboxPane, TranscriptPane

if TYPE_CHECKING:
    from supervisor.client import RemoteSession, RemoteSupervisor

Pane = Literal["details", "transcript", "inbox", "none"]

# From this width on the panes are beside the list, details and transcript together.
WIDE: Final = 110
# Keys that open what takes the next keys: they act before the next key arrives.
_OPENING_KEYS: Final = frozenset({"slash", "m", "s", "i"})
# Ages and times left are drawn anew after this time.
_AGE_SECONDS: Final = 1.0
_WHY_SECONDS: Final = 3.0
_REMARK_SECONDS: Final = 8.0


class TopScreen(ListActs):
    """All sessions, live."""

    CSS = """
    TopScreen { layout: vertical; }
    TopScreen > Static { height: 1; }
    #banner, #view { display: none; }
    #body { height: 1fr; }
    #list-side { height: 1fr; width: 1fr; }
    #heading { height: 1; }
    TopScreen.-beside #body { layout: horizontal; }
    TopScreen.-beside #panes { width: 46%; border-left: solid ansi_bright_black; padding-left: 1; }
    TopScreen.-below #panes { height: 45%; border-top: solid ansi_bright_black; }
    #details, #inbox { height: 1fr; scrollbar-size-vertical: 1; }
    #details:focus, #inbox:focus { background-tint: ansi_default; }
    #transcript { height: 1fr; }
    #transcript-title { height: 1; }
    TopScreen.-beside #details { height: auto; max-height: 45%; }
    TopScreen.-beside #transcript { border-top: solid ansi_bright_black; }
    #line { height: 1; display: none; }
    #line Static { width: auto; height: 1; }
    #line Input, #line Input:focus { height: 1; border: none; padding: 0; width: 1fr; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(",".join(key.keys), key.action, key.explanation, show=False) for key in KEYS
    ]

    def __init__(
        self, connect: Connect, *, every: float, slash_commands: SlashCommands | None = None
    ) -> None:
        super().__init__()
        self._slash_commands = slash_commands
        self.model = TopModel()
        self.feed = TopFeed(connect, self.model)
        self.list = SessionList(self.model)
        self.details = DetailsPane(self.model)
        self.transcript = TranscriptPane()
        self.inbox = InboxPane(self.model)
        self.panes = Container(self.details, self.transcript, self.inbox, id="panes")
        self.line_label = Static(id="line-label")
        self.line_input = Input(id="line-input")
        self.line = Horizontal(self.line_label, self.line_input, id="line")
        self.status = Static(id="status")
        self._header = Static(id="header")
        self._banner = Static(id="banner")
        self._view = Static(id="view")
        self._heading = Static(id="heading")
        self._every = every
        self.pane: Pane = "details"
        self._remark: list[Cell] = []
        self._remark_until = 0.0
        self._aged_at = 0.0
        self._asked_why_at = 0.0
        self._why_seq: tuple[str, int] | None = None
        # The snapshot to which the stopped sessions were loaded; None if they are not listed.
        self._loaded_for: int | None = None

    def compose(self) -> ComposeResult:
        """Return the parts from top to bottom."""
        yield self._header
        yield self._banner
        yield self._view
        yield Container(Container(self._heading, self.list, id="list-side"), self.panes, id="body")
        yield self.line
        yield self.status

    def on_mount(self) -> None:
        """Start to read and to draw."""
        self._arrange(self.app.size.width)
        self.list.focus()
        self.run_worker(self.feed.run(), group="feed")
        self.set_interval(self._every, self.draw)
        self.draw()

    # Drawing -------------------------------------------------------------------------------

    def draw(self) -> None:
        """Draw what has changed."""
        if self.feed.first_error is not None:
            self.app.exit(self.feed.first_error)
            return
        if self.feed.snapshots:
            self.list.begin()
        self.transcript.show_items()
        had_selection = self.model.selected
        self.list.update(time.monotonic())
        if self.model.selected != had_selection:
            self._follow_selection()
        now = time.time()
        if now - self._aged_at >= _AGE_SECONDS:
            self._aged_at = now
            self.list.refresh()
            self._draw_panes()
        self.draw_lines(now)
        self._ask_why(now)
        self._load_stopped()

    def _load_stopped(self) -> None:
        """Load stopped sessions when they are asked for, and again after each snapshot."""
        if not self.model.shows_stopped or self.feed.connection() != "connected":
            self._loaded_for = None
        elif self._loaded_for != self.feed.snapshots:
            self._loaded_for = self.feed.snapshots

            async def load() -> None:
                try:
                    count = await self.feed.load_stopped()
                    self.remark(f"{counted(count, 'stopped session')} listed", "cyan")
                except SupervisorError as error:
                    self.remark(f"stopped sessions: {error.args[0]}", "red")

            self._replace_worker("stopped", load)

    def draw_lines(self, now: float) -> None:
        """Draw the single lines around the list."""
        width, connection = self.size.width, self.feed.connection()
        self._show(self._header, header_cells(self.model, connection, width=width, now=now))
        banner = banner_cells(
            self.model, connection, gone_since=self.feed.gone_since, width=width, now=now
        )
        self._show(self._banner, banner, is_optional=True)
        self._show(self._view, view_cells(self.model, width=width), is_optional=True)
        self._show(self._heading, self.list.heading())
        is_remark = time.monotonic() < self._remark_until
        self._show(
            self.status, remark_cells(self._remark, width) if is_remark else hint_cells(width)
        )
        self.list.set_empty_text(self._empty_text(connection))

    def _empty_text(self, connection: Connection) -> str:
        if connection != "connected":
            return ""
        if self.model.row_filter.words:
            more = "" if self.model.shows_stopped else "a lists stopped sessions too, "
            return f"No session matches the filter; {more}esc removes it."
        if self.model.shows_stopped:
            return "No sessions. `understudy new AGENT` creates one."
        return "No live sessions; a lists stopped ones. `understudy new AGENT` creates one."

    def _show(self, widget: Static, cells: list[Cell], *, is_optional: bool = False) -> None:
        if is_optional:
            widget.display = bool(cells)
        text = cells_text(cells)
        # An equal text is not drawn again.
        if getattr(widget, "shown_text", None) != text:
            widget.shown_text = text  # type: ignore[attr-defined]
            # One line in any case, so nothing moves.
            widget.update(text, layout=False)

    def _draw_panes(self) -> None:
        if self.details.display:
            self.details.show()
        if self.inbox.display:
            self.inbox.show()

    def remark(self, text: str, style: str = "yellow") -> None:
        """Show a short message on the last line for a while."""
        self._remark = [Cell(one_line(text), style)]
        self._remark_until = time.monotonic() + _REMARK_SECONDS
        self.draw_lines(time.time())

    def on_resize(self, event: events.Resize) -> None:
        """Put the panes where there is room."""
        self._arrange(event.size.width)

    def _arrange(self, width: int) -> None:
        is_wide = width >= WIDE
        self.set_class(is_wide, "-beside")
        self.set_class(not is_wide, "-below")
        both = is_wide and self.pane in ("details", "transcript")
        self.details.display = both or self.pane == "details"
        self.transcript.display = both or self.pane == "transcript"
        self.inbox.display = self.pane == "inbox"
        self.panes.display = self.pane != "none"
        self._draw_panes()

    # The selected session ------------------------------------------------------------------

    def on_session_list_moved(self) -> None:
        """Show the details and the transcript of the line that is selected now."""
        self._follow_selection()

    def _follow_selection(self) -> None:
        entry, sup = self.model.selected_entry, self.feed.sup
        self.details.show()
        self.transcript.name_session(entry)
        if entry is None or entry.id != self.transcript.session_id:
            # A group has no transcript, and the session that was followed goes on.
            self.workers.cancel_group(self, "transcript")
            self.transcript.forget()
            if entry is not None and sup is not None:
                self._replace_worker("transcript", partial(self.transcript.follow, sup, entry))
        self._why_seq = None
        self._ask_why(time.time(), at_once=True)

    def _ask_why(self, now: float, *, at_once: bool = False) -> None:
        entry, sup = self.model.selected_entry, self.feed.sup
        if entry is None or sup is None or entry.is_deleted or not self.details.display:
            return
        seq = (entry.id, entry.row.last_seq)
        if seq == self._why_seq or (not at_once and now - self._asked_why_at < _WHY_SECONDS):
            return
        self._why_seq, self._asked_why_at = seq, now
        self._replace_worker("why", partial(self.details.load_why, sup, entry.id))

    def _replace_worker(self, group: str, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Run the work instead of that of the group that still runs."""
        # Not a coroutine, which a worker that is replaced before it runs would leave unawaited.
        self.run_worker(cast("Any", work), group=group, exclusive=True)

    # Keys: looking -------------------------------------------------------------------------

    def action_show_pane(self, pane: Pane) -> None:
        """Show a pane; the key of the pane that has the focus, or of the details, hides it."""
        is_same = pane == self.pane
        has_focus = self.focused is not None and self.focused is not self.list
        if is_same and (pane == "details" or has_focus):
            self.action_back() if has_focus else self._set_pane("none")
            return
        self._set_pane(pane)
        if pane == "inbox":
            entry = self.model.selected_entry
            if entry is not None:
                self.inbox.inbox.show_request_of(self.model.requests, entry.id)
            self.inbox.show()
            # Not focus(), which waits for the next refresh: a decision that follows at once would
            # reach the list, where its key has another meaning.
            self.set_focus(self.inbox)
        elif pane == "transcript":
            self.transcript.view.focus()
            self.mark_seen()

    def _set_pane(self, pane: Pane) -> None:
        self.pane = pane
        self._arrange(self.size.width)

    def action_next_focus(self) -> None:
        """Go to the pane, or back to the list."""
        if self.focused is not self.list:
            self.list.focus()
        elif self.inbox.display:
            self.inbox.focus()
        elif self.transcript.display:
            self.transcript.view.focus()
            self.mark_seen()
        elif self.details.display:
            self.details.focus()

    def action_back(self) -> None:
        """Leave the text, then the pane, then the filter."""
        if self.line.display:
            if self.line_kind == "filter":
                self.filter_rows("")
                before = self.selected_before
                if before is not None and before in self.model.layout.index:
                    self.model.select(before)
                    self.list.after_selection()
            self.close_line()
        elif self.focused is not self.list:
            if self.pane in ("inbox", "transcript"):
                self._set_pane("details")
            self.list.focus()
        elif self.model.row_filter.words:
            self.filter_rows("")

    def action_open(self) -> None:
        """Open the live transcript of the selected session, with an input."""
        entry, sup = self.target(), self.feed.sup
        if entry is None or sup is None:
            return
        screen = OpenedSession(
            cast("RemoteSupervisor", sup),
            cast("RemoteSession", sup.session(entry.id)),
            slash_commands=self._slash_commands,
        )
        self.app.push_screen(screen)

    def on_session_list_opened(self) -> None:
        """Open the session that was clicked twice."""
        self.action_open()

    def on_key(self, event: events.Key) -> None:
        """Open the line of text, or answer a question, before the next key arrives."""
        if self.line.display:
            # Typed before the line had the focus: it is text, never an act.
            if event.is_printable and event.character is not None:
                event.stop()
                event.prevent_default()
                self.line_input.insert_text_at_cursor(event.character)
            return
        if event.key in _OPENING_KEYS:
            event.stop()
            event.prevent_default()
            acts: dict[str, Callable[[], None]] = {
                "slash": self.action_filter,
                "m": self.action_send,
                "s": self.action_steer,
                "i": partial(self.action_show_pane, "inbox"),
            }
            acts[event.key]()
            return
        if self.focused is not self.inbox:
            return
        if event.key in ANSWER_KEYS:
            # Another meaning of the key would be a surprise where it does not answer.
            event.stop()
            event.prevent_default()
            self.answer_by_key(event.key)
        elif event.key == "enter" and (shown := self.inbox.inbox.shown) is not None:
            event.stop()
            event.prevent_default()
            self.model.select(shown.session_id)
            self.list.after_selection()

    def focus_list(self) -> None:
        """Give the keys back to the list."""
        self.list.focus()

    def now(self) -> float:
        """Return the time of the wall clock."""
        return time.time()

    def action_help(self) -> None:
        """Show all keys."""
        self.app.push_screen(HelpScreen(help_lines))

    def action_quit(self) -> None:
        """Leave; the sessions go on."""
        self.app.exit(None)
