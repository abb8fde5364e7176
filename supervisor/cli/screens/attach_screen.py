"""`AttachScreen`: sit down at one session: its transcript, its requests, and a line of input.

Rule 1: the input keeps the focus: only Escape moves it to a request, where letters answer.
Rule 2: the first Ctrl-C interrupts the running turn, a second one within seconds leaves.
Rule 3: records are marked as seen when their end of the transcript is on a terminal with the focus.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Coroutine, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal

from rich.text import Text
from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.screen import Screen
from textual.timer import Timer
from textual.widgets import Static

from supervisor.cli.text_format import Cell
from supervisor.core.errors import SupervisorError
from supervisor.core.records import Delta, Item, Record
from supervisor.core.text import one_line

from .attach_feed import AttachFeed
from .attach_help import HELP
from .attach_words import WHEN_BUSY, mode_cells, receipt_text, report_text, status_cells
from .input_line import InputLine
from .request_panel import ALT_BINDINGS, RequestPanel
from .styled_text import cells_text
from .text_dialog import TextDialog
from .transcript_view import TranscriptView

if TYPE_CHECKING:
    from supervisor.client import RemoteSession, RemoteSupervisor
    from supervisor.core.info import Info
    from supervisor.core.receipts import Receipt

# Runs a line that begins with a slash; returns its output, or None if it asks to leave.
SlashCommands = Callable[["RemoteSession", str], Coroutine[Any, Any, str | None]]

_LEAVE_SECONDS: Final = 3.0
_INFO_SECONDS: Final = 0.2
_SEEN_SECONDS: Final = 1.0
_NEWS_SECONDS: Final = 4.0
_MAX_PENDING_SHOWN: Final = 3
# Records that change no state that the last line shows.
_STATELESS_KINDS: Final = frozenset(
    {"agent_text", "thought", "tool_update", "user_text", "seen", "mcp_call"}
)


class AttachScreen(Screen[None]):
    """The screen of one session."""

    # The default CSS, because Textual does not apply the other one to subclasses.
    DEFAULT_CSS = """
    AttachScreen { layout: vertical; }
    AttachScreen #entry { height: auto; max-height: 6; }
    AttachScreen #prompt { width: 2; height: 1; color: ansi_cyan; }
    AttachScreen #pending { height: auto; max-height: 4; display: none; }
    AttachScreen #notice { height: auto; max-height: 4; display: none; }
    AttachScreen .line { height: 1; text-wrap: nowrap; text-overflow: ellipsis; }
    AttachScreen #pending.-shown, AttachScreen #notice.-shown { display: block; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+c", "interrupt", show=False, priority=True),
        Binding("ctrl+d", "leave_if_empty", show=False, priority=True),
        Binding("escape", "switch", show=False, priority=True),
        Binding("pageup", "scroll_transcript('page_up')", show=False, priority=True),
        Binding("pagedown", "scroll_transcript('page_down')", show=False, priority=True),
        Binding("shift+up", "scroll_transcript('up')", show=False, priority=True),
        Binding("shift+down", "scroll_transcript('down')", show=False, priority=True),
        Binding("ctrl+home", "scroll_transcript('home')", show=False, priority=True),
        Binding("ctrl+end", "scroll_transcript('end')", show=False, priority=True),
        Binding("ctrl+o", "toggle_thoughts", show=False, priority=True),
        Binding("f1", "help", show=False, priority=True),
        *ALT_BINDINGS,
    ]

    # Shown below the input.
    way_out: ClassVar[str] = "Ctrl-D leave"

    def __init__(
        self,
        sup: RemoteSupervisor,
        session: RemoteSession,
        *,
        slash_commands: SlashCommands | None = None,
        greeting: str = "",
        after_leaving: Literal["goes on", "ends"] = "goes on",
        typed: str = "",
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__()
        self._sup = sup
        self._session = session
        self._slash_commands = slash_commands
        self._greeting = greeting
        self._after_leaving = after_leaving
        self._typed = typed
        self._clock = clock
        self.transcript = TranscriptView()
        self.panel = RequestPanel(clock=clock)
        self.input = InputLine(id="input")
        self._feed = AttachFeed(session, self._apply)
        self._info: Info | None = None
        self._is_info_due = False
        self._leaves_until = 0.0
        self._seen_seq = 0
        self._is_seen_due = False
        self._last_trouble: str | None = None
        # By the name of the widget.
        self._shown_texts: dict[str, Text] = {}
        self._notice_timer: Timer | None = None

    def compose(self) -> ComposeResult:
        """Return the parts from top to bottom."""
        yield self.transcript
        yield self.panel
        yield Static(id="pending", markup=False)
        yield Static(id="notice", markup=False)
        with Horizontal(id="entry"):
            yield Static("> ", id="prompt", markup=False)
            yield self.input
        yield Static(id="mode", classes="line", markup=False)
        yield Static(id="status", classes="line", markup=False)

    def on_mount(self) -> None:
        """Begin to read the session."""
        self.transcript.can_focus = False
        self.input.focus()
        self._say(self._greeting)
        if self._typed:
            self.input.put(self._typed)
            self._say("This was typed while the screen opened; Enter sends it.")
        self._draw_state()
        self.run_worker(self._read_feed(), group="feed")
        self.set_interval(0.5, self._check_connection)
        # What came while another window had the focus is seen when it comes back.
        self.watch(self.app, "app_focus", self.on_transcript_view_shown)

    # The feed -----------------------------------------------------------------------------

    async def _read_feed(self) -> None:
        try:
            await self._feed.run()
        except SupervisorError as error:
            self._say_error(error)
        self._draw_state()

    def _apply(self, item: Item) -> None:
        self.transcript.apply(item)
        if isinstance(item, Delta):
            return
        if isinstance(item, Record):
            if item.kind == "user_text":
                self.input.remember(str(item.body.get("text", "")))
            if item.kind in _STATELESS_KINDS:
                return
        self._show_request()
        self._request_info()

    def _show_request(self) -> None:
        requests = self.transcript.model.requests
        waiting = list(requests.values())
        # A key that was meant for one request must not answer the next.
        if self.panel.show(waiting[0] if waiting else None, more=max(0, len(waiting) - 1)):
            self.input.focus()

    def _request_info(self) -> None:
        if not self._is_info_due:
            self._is_info_due = True
            self.set_timer(_INFO_SECONDS, self._read_info)

    async def _read_info(self) -> None:
        self._is_info_due = False
        try:
            self._info = await self._session.info()
        except SupervisorError:
            return  # the feed says that the daemon is away
        self._draw_state()

    def _check_connection(self) -> None:
        trouble = self._feed.trouble
        if trouble != self._last_trouble:
            if trouble is None:
                self._request_info()
                if self._last_trouble != "connecting ...":
                    self._say("connected again", "green", seconds=_NEWS_SECONDS)
            self._last_trouble = trouble
            self._draw_state()

    async def on_transcript_view_reached_start(self) -> None:
        """Show older records."""
        try:
            model = await self._feed.read_older()
        except SupervisorError as error:
            self._say_error(error)
            return
        if model is not None:
            self.transcript.replace(model)

    # Seen ---------------------------------------------------------------------------------

    def on_transcript_view_shown(self) -> None:
        """Mark the records as seen, soon."""
        if not self._is_seen_due:
            self._is_seen_due = True
            self.set_timer(_SEEN_SECONDS, self._mark_seen)

    async def _mark_seen(self) -> None:
        self._is_seen_due = False
        seq = self.transcript.shown_seq
        if seq <= self._seen_seq or not self.app.app_focus:
            return
        try:
            await self._session.seen(seq)
        except SupervisorError:
            return  # the next record is another occasion
        self._seen_seq = seq

    # Drawing ------------------------------------------------------------------------------

    @on(InputLine.ModeChanged)
    @on(events.Resize)
    def _draw_state(self) -> None:
        if not self.is_attached:
            return
        mode, width = self.input.mode, self.size.width
        self._update("#mode", mode_cells(mode, self._info, way_out=self.way_out, width=width))
        self._update("#status", status_cells(self._info, connection=self._feed.trouble))
        waiting = list(self.transcript.model.pending)
        lines = [f"{one_line(one.when_busy)}: {one.text}" for one in waiting[:_MAX_PENDING_SHOWN]]
        if len(waiting) > len(lines):
            lines.append(f"and {len(waiting) - len(lines)} more")
        self.query_one("#pending", Static).set_class(bool(lines), "-shown")
        self._update("#pending", [Cell("\n".join(lines), "dim")], layout=True)

    def _update(self, name: str, cells: Iterable[Cell], *, layout: bool = False) -> None:
        text = cells_text(cells)
        # An equal text is not drawn again: a layout of the screen delays the transcript.
        if self._shown_texts.get(name) != text:
            self._shown_texts[name] = text
            self.query_one(name, Static).update(text, layout=layout)

    def _say(self, text: str, style: str = "dim", *, seconds: float | None = None) -> None:
        """Show a notice; a number of seconds is for news, which soon are none."""
        notice = self.query_one("#notice", Static)
        notice.set_class(bool(text), "-shown")
        notice.update(Text(text, style))
        if self._notice_timer is not None:
            self._notice_timer.stop()
        timer = None if seconds is None else self.set_timer(seconds, partial(self._say, ""))
        self._notice_timer = timer

    def _say_error(self, error: SupervisorError) -> None:
        hint = f"\n{one_line(error.hint)}" if error.hint else ""
        self._say(f"error: {one_line(str(error.args[0]))}{hint}", "red")

    # Input --------------------------------------------------------------------------------

    def on_input_line_submitted(self, message: InputLine.Submitted) -> None:
        """Send the text, and say what became of it."""
        self._leaves_until = 0.0
        self.transcript.follow_end()
        answer = self.panel.answer_in(message.text)
        work = self._submit(message) if answer is None else self._answer(answer)
        self.run_worker(work, group="input")

    async def _submit(self, message: InputLine.Submitted) -> None:
        text = message.text
        try:
            if text.startswith("/") and not text.startswith("//") and self._slash_commands:
                await self._run_slash_command(text)
                return
            receipt = await self._send(
                message, text.removeprefix("/") if text[:2] == "//" else text
            )
        except SupervisorError as error:
            self._say_error(error)
            if not self.input.text:
                self.input.put(text)  # it was not accepted, and can be corrected
            return
        self._say(receipt_text(receipt), "green", seconds=_NEWS_SECONDS)
        self._request_info()

    async def _send(self, message: InputLine.Submitted, text: str) -> Receipt:
        # `steer()` is refused if no turn runs, but the line promises that Enter starts one then.
        return await self._session.send(text, when_busy=WHEN_BUSY[message.mode])

    async def _run_slash_command(self, line: str) -> None:
        assert self._slash_commands is not None
        said = await self._slash_commands(self._session, line)
        if said is None:
            self.action_leave()
        elif said.count("\n") > 1:
            self.app.push_screen(TextDialog(line, said))
        else:
            self._say(said.strip())
        self._request_info()

    # Requests -----------------------------------------------------------------------------

    def on_request_panel_decided(self, message: RequestPanel.Decided) -> None:
        """Answer the request; what is typed next is a text again."""
        self.input.focus()
        self.run_worker(self._answer(message), group="input")

    async def on_request_panel_typed(self, message: RequestPanel.Typed) -> None:
        """Move what was typed to the input."""
        self.input.focus()
        await self.input.take_key(message.key)

    async def _answer(self, message: RequestPanel.Decided) -> None:
        try:
            await message.send(self._sup)
        except SupervisorError as error:
            self._say_error(error)
        else:
            self._say(f"answered: {message.answer}", "green", seconds=_NEWS_SECONDS)

    # Keys ---------------------------------------------------------------------------------

    async def on_key(self, event: events.Key) -> None:
        """Give a key that came while nothing had the focus, as at the start, to the input."""
        if event.is_printable or event.key in ("enter", "backspace"):
            event.stop()
            self.input.focus()
            await self.input.take_key(event)

    async def action_interrupt(self) -> None:
        """Interrupt the running turn; leave if this is the second time."""
        if self._clock() < self._leaves_until:
            self.action_leave()
            return
        self._offer_to_leave(f"Press Ctrl-C again to leave; the session {self._after_leaving}.")
        self.run_worker(self._interrupt(), group="interrupt")

    async def _interrupt(self) -> None:
        try:
            info = await self._session.info()
            if info.turn_id is None:
                return
            self._say("interrupting the turn; Ctrl-C again leaves", "yellow")
            report = await self._session.interrupt("turn", reason="Ctrl-C")
        except SupervisorError as error:
            self._say_error(error)
            return
        self._offer_to_leave(f"{report_text(report)}; Ctrl-C again leaves")

    def _offer_to_leave(self, said: str) -> None:
        self._leaves_until = self._clock() + _LEAVE_SECONDS
        self._say(said, "yellow", seconds=_LEAVE_SECONDS)

    def action_leave(self) -> None:
        """Close the screen; the session goes on."""
        self.dismiss(None)

    def action_leave_if_empty(self) -> None:
        """Leave, as a shell does, unless there is text to delete."""
        if self.input.text:
            self.input.action_delete_right()
        else:
            self.action_leave()

    def action_switch(self) -> None:
        """Move the focus between request and input; without a request show the end."""
        if self.panel.request is None:
            self.input.focus()
            self.transcript.follow_end()
        elif self.panel.is_confirming:
            self.panel.cancel_confirmation()
        elif self.panel.has_focus:
            self.input.focus()
        else:
            self.panel.focus()

    def action_decide(self, key: str) -> None:
        """Answer the request that is shown, whatever has the focus; a lasting answer asks first."""
        if self.panel.decide(key) and self.panel.is_confirming:
            self.panel.focus()

    def action_scroll_transcript(self, how: str) -> None:
        """Scroll the transcript, whatever has the focus."""
        self.transcript.scroll_by_key(how)

    def action_toggle_thoughts(self) -> None:
        """Show thoughts whole, or folded."""
        self.transcript.toggle_thoughts()

    def action_help(self) -> None:
        """Show the keys."""
        self.app.push_screen(TextDialog("Keys", HELP))
