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

    class Typed(Message):
        """The user has pressed a key that is for the input."""

        def __init__(self, key: events.Key) -> None:
            super().__init__()
            self.key = key

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self.request: RequestBlock | None = None
        self._clock = clock
        self._shown_at = 0.0
        self._is_typing = False
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
        """Decide, if the key stands for an offered decision; other characters are for the input."""
        decision = self._decision_of(event.key.lower())
        if decision is not None and self.request is not None:
            event.stop()
            self.post_message(self.Decided(self.request.request_id, decision))
        elif event.is_printable or self._is_typing:
            event.stop()
            # The keys that follow in a burst arrive here before the focus has moved.
            self._is_typing = True
            self.post_message(self.Typed(event))

    def on_blur(self) -> None:
        """Take keys as decisions again, the next time."""
        self._is_typing = False

    def _decision_of(self, key: str) -> str | None:
        request = self.request
        is_early = self._clock() - self._shown_at < _GRACE_SECONDS
        if request is None or is_early or self._is_typing:
            return None
        decision, _ = DECISION_KEYS.get(key, (None, None))
        return decision if decision in request.options else None


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
    text.append(f"\n{decision_hints(request)} · other keys write{behind}", Style(color="yellow"))
    return text
