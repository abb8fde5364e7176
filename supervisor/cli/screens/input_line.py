"""`InputLine`: a line of input that grows, with its mode and the texts sent before.

Texts sent before are those of the session itself; nothing is stored elsewhere.
"""

from __future__ import annotations

import re
from typing import ClassVar, Final, Literal, TypeAlias, get_args

from textual import events
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.reactive import reactive
from textual.widgets import TextArea

Mode: TypeAlias = Literal["send", "steer", "interrupt"]
MODES: Final[tuple[Mode, ...]] = get_args(Mode)
# Handled by the screen, although TextArea has another use for them.
_KEYS_OF_SCREENS: Final = ("ctrl+c", "pageup", "pagedown", "shift+up", "shift+down")
_MAX_RECALLED: Final = 500
_LEADING_BLANK_LINES: Final = re.compile(r"\A(?:[ \t]*\n)+")


class InputLine(TextArea):
    """A text to send: Enter submits it, Ctrl-J begins a line, Up and Down recall earlier texts."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "submit", show=False),
        Binding("ctrl+j,alt+enter,shift+enter", "new_line", show=False),
        Binding("up", "up", show=False),
        Binding("down", "down", show=False),
        Binding("tab,ctrl+t", "next_mode", show=False),
        Binding("shift+tab", "previous_mode", show=False),
    ]
    DEFAULT_CSS = """
    InputLine, InputLine:focus {
        height: auto; max-height: 6; min-height: 1; border: none; padding: 0;
        background: transparent; scrollbar-size-vertical: 1;
    }
    """

    mode: reactive[Mode] = reactive("send")

    class Submitted(Message):
        """The user pressed Enter on a text."""

        def __init__(self, text: str, mode: Mode) -> None:
            super().__init__()
            self.text = text
            self.mode = mode

    class ModeChanged(Message):
        """The user chose another mode."""

    def __init__(self, *, name: str | None = None, id: str | None = None) -> None:  # noqa: A002 - of Textual
        super().__init__(
            name=name, id=id, compact=True, highlight_cursor_line=False, show_line_numbers=False
        )
        self._recalled: list[str] = []
        # The place of the shown text among the recalled ones; their number for the user's own.
        self._place = 0
        self._draft = ""

    def remember(self, text: str) -> None:
        """Add a text that Up recalls."""
        if text.strip() and (not self._recalled or self._recalled[-1] != text):
            self._recalled = [*self._recalled, text][-_MAX_RECALLED:]
        self._place = len(self._recalled)

    def action_submit(self) -> None:
        """Submit the text, unless it is blank, and begin an empty one."""
        text = _LEADING_BLANK_LINES.sub("", self.text)
        if text.strip():
            self.remember(text)
            self._draft = ""
            self.load_text("")
            self.post_message(self.Submitted(text, self.mode))

    def action_new_line(self) -> None:
        """Begin another line of the text."""
        self.insert("\n")

    def action_up(self) -> None:
        """Move up a line, or recall the text before at the first line."""
        if self.wrapped_document.location_to_offset(self.cursor_location).y > 0:
            self.action_cursor_up()
        elif self._place > 0:
            if self._place == len(self._recalled):
                self._draft = self.text
            self._show_recalled(self._place - 1)

    def action_down(self) -> None:
        """Move down a line, or recall the text after at the last line."""
        last = self.wrapped_document.height - 1
        if self.wrapped_document.location_to_offset(self.cursor_location).y < last:
            self.action_cursor_down()
        elif self._place < len(self._recalled):
            self._show_recalled(self._place + 1)

    def _show_recalled(self, place: int) -> None:
        self._place = place
        self.put(self._recalled[place] if place < len(self._recalled) else self._draft)

    def put(self, text: str) -> None:
        """Show the text instead of the present one, with the cursor behind it."""
        self.load_text(text)
        self.move_cursor(self.document.end)

    def action_next_mode(self) -> None:
        """Choose the next mode."""
        self._turn_mode(1)

    def action_previous_mode(self) -> None:
        """Choose the mode before."""
        self._turn_mode(-1)

    def _turn_mode(self, by: int) -> None:
        self.mode = MODES[(MODES.index(self.mode) + by) % len(MODES)]
        self.post_message(self.ModeChanged())

    async def take_key(self, event: events.Key | events.Paste) -> None:
        """Handle a key or a pasted text that arrived at another widget."""
        if isinstance(event, events.Paste):
            await self._on_paste(event)
        else:
            await self._on_key(event)

    async def _on_key(self, event: events.Key) -> None:
        # Textual runs an action after the event has bubbled up; by then a later key of the same
        # burst, as of a slow line, has been inserted already.
        bindings = self._bindings.key_to_bindings.get(event.key)
        if bindings and event.key not in _KEYS_OF_SCREENS:
            event.stop()
            event.prevent_default()
            await self.run_action(bindings[-1].action)
            return
        await super()._on_key(event)
