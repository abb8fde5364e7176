"""`TextDialog`: a text over the screen, until a key closes it."""

from __future__ import annotations

from typing import ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Static


class TextDialog(ModalScreen[None]):
    """A title and a text that can be scrolled."""

    CSS = """
    TextDialog { align: center middle; }
    TextDialog VerticalScroll {
        width: 76; max-width: 96%; height: auto; max-height: 90%; border: round ansi_cyan;
        padding: 0 1;
    }
    TextDialog Static { height: auto; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(
            "escape,q,enter,f1,ctrl+c,question_mark", "dismiss(None)", show=False, priority=True
        ),
    ]

    def __init__(self, title: str, text: str) -> None:
        super().__init__()
        self._title = title
        self._text = text

    def compose(self) -> ComposeResult:
        """Return the box with the text."""
        with VerticalScroll() as box:
            box.border_title = Text(self._title).markup
            box.border_subtitle = "Esc closes"
            yield Static(Text(self._text.rstrip("\n")), markup=False)
