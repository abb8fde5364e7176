"""Dialogs of `top`: a choice by keys, and the page of all keys."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar, Final

import attrs
from textual import events
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Static

from supervisor.cli.text_format import Cell, cell_width

from .styled_text import lines_text

_MIN_WIDTH: Final = 40
_HELP_WIDTH: Final = 72
# The border and the padding of a dialog.
_FRAME_WIDTH: Final = 4


@attrs.frozen
class Choice:
    """A key and what it chooses; one that is not possible is shown and does nothing."""

    key: str
    label: str
    detail: str = ""
    is_possible: bool = True


class ChoiceDialog(ModalScreen[str | None]):
    """A question with a few answers, each with its key; nothing is chosen by Enter."""

    CSS = """
    ChoiceDialog { align: center middle; }
    ChoiceDialog > #box {
        height: auto; max-height: 100%;
        border: round yellow; padding: 0 1;
    }
    """

    def __init__(self, title: str, choices: Sequence[Choice], *, is_grave: bool = False) -> None:
        super().__init__()
        self._title = title
        self._choices = tuple(choices)
        self._is_grave = is_grave

    def compose(self) -> ComposeResult:
        """Show the question, then one line for each answer."""
        width = max((len(choice.label) for choice in self._choices), default=0)
        title = [Cell(self._title, "bold red" if self._is_grave else "bold")]
        lines: list[list[Cell]] = []
        for choice in self._choices:
            style = None if choice.is_possible else "dim"
            key_style = "bold cyan" if choice.is_possible else "dim"
            lines.append(
                [
                    Cell(f" {choice.key}  ", key_style),
                    Cell(f"{choice.label:<{width}}  ", style),
                    Cell(choice.detail, "dim" if choice.label else style),
                ]
            )
        widest = max(sum(cell_width(cell.text) for cell in line) for line in [title, *lines])
        with VerticalScroll(id="box") as box:
            box.styles.width = min(self.app.size.width, max(_MIN_WIDTH, widest + _FRAME_WIDTH))
            yield Static(lines_text([title], is_wrapped=True))
            yield Static(lines_text(lines, is_wrapped=True), id="choices")
            yield Static(lines_text([[Cell(" esc  back", "dim")]]))

    def on_key(self, event: events.Key) -> None:
        """Choose by key; Escape chooses nothing."""
        event.stop()
        if event.key in ("escape", "ctrl+c", "q"):
            self.dismiss(None)
        for choice in self._choices:
            if choice.is_possible and choice.key in (event.key, event.character):
                self.dismiss(choice.key)


class HelpScreen(ModalScreen[None]):
    """All keys; any of Escape, `?` and `q` closes the page."""

    CSS = """
    HelpScreen { align: center middle; }
    HelpScreen > VerticalScroll {
        scrollbar-size-vertical: 1; height: auto; max-height: 100%;
        border: round cyan; padding: 0 1;
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        ("escape,question_mark,q,f1,enter,ctrl+c", "dismiss(None)", "close")
    ]

    def __init__(self, lines: Callable[[int], Sequence[Sequence[Cell]]]) -> None:
        super().__init__()
        self._lines = lines

    def compose(self) -> ComposeResult:
        """Show the keys; the arrow keys scroll a page that is longer than the screen."""
        with VerticalScroll() as box:
            box.border_title = "keys of top"
            width = min(_HELP_WIDTH, self.app.size.width)
            box.styles.width = width
            lines = self._lines(width - _FRAME_WIDTH - 1)  # beside the scrollbar
            yield Static(lines_text(lines, is_wrapped=True))
