"""`RequestPanel`: the oldest open permission request of a session, with a key for each decision."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from rich.style import Style
from rich.text import Text
from textual import events
from textual.containers import VerticalScroll
from textual.message import Message
from textual.widgets import Static

from supervisor.cli.transcript.blocks import RequestBlock

DECISION_KEYS: Final = {
    "y": ("allow_once", "allow once"),
    "a": ("allow_always", "allow always"),
    "n": ("reject_once", "reject once"),
    "d": ("reject_always", "reject always"),
}
# A key that was meant for the input must not answer a request that has just come.
_GRACE_SECONDS: Final = 0.4


class RequestPanel(VerticalScroll, can_focus=True):
    """A request that waits; hidden without one."""

    DEFAULT_CSS = """
    RequestPanel { height: auto; max-height: 50%; display: none; border-left: outer magenta; }
    RequestPanel:focus { border-left: outer yellow; }
    RequestPanel.-open { display: block; }
    RequestPanel Static { height: auto; padding-left: 1; }
    """

    class Decided(Message):
        """The user pressed the key of a decision."""

        def __init__(self, request_id: str, decision: str) -> None:
            super().__init__()
            self.request_id = request_id
            self.decision = decision

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self.request: RequestBlock | None = None
        self._clock = clock
        self._shown_at = 0.0
        self._text = Static(markup=False)

    def on_mount(self) -> None:
        """Add the text."""
        self.mount(self._text)

    def show(self, request: RequestBlock | None, *, more: int = 0) -> None:
        """Show the request, or nothing; `more` requests wait behind it."""
        if request is self.request:
            return
        self.request = request
        self._shown_at = self._clock()
        self.set_class(request is not None, "-open")
        if request is not None:
            self._text.update(_request_text(request, more))
            self.scroll_home(animate=False)

    def on_key(self, event: events.Key) -> None:
        """Decide, if the key stands for an offered decision."""
        decision, _ = DECISION_KEYS.get(event.key.lower(), (None, None))
        request = self.request
        if decision is None or request is None or decision not in request.options:
            return
        event.stop()
        if self._clock() - self._shown_at >= _GRACE_SECONDS:
            self.post_message(self.Decided(request.request_id, decision))


def decision_hints(request: RequestBlock) -> str:
    """Return the keys of the offered decisions: `y allow once · n reject once`."""
    return " · ".join(
        f"{key} {label}" for key, (word, label) in DECISION_KEYS.items() if word in request.options
    )


def _request_text(request: RequestBlock, more: int) -> Text:
    text = Text(f"{request.question}", Style(bold=True))
    if request.tool:
        text.append(f"  ({request.tool})", Style(bold=False, color="magenta"))
    if request.input:
        text.append(f"\n{request.input}", Style(bold=False))
    behind = f"   ({more} more)" if more else ""
    text.append(f"\n{decision_hints(request)} · Esc writes instead{behind}", Style(color="yellow"))
    return text
