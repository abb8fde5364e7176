"""`RequestPanel`: the oldest open permission request of a session, with a key for each decision.

Rule 1: a letter answers only if the user has moved the focus here for the shown request. After an
        answer, and when another request is shown, letters are for the input again.
Rule 2: a decision that lasts asks for a second key.
Rule 3: a question has digits for the answers to choose from, and `/answer` takes any other text.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from rich.style import Style
from rich.text import Text
from textual import events
from textual.binding import Binding
from textual.containers import VerticalScroll
from textual.message import Message
from textual.widgets import Static

from supervisor.cli.text_format import truncate
from supervisor.cli.transcript.blocks import RequestBlock
from supervisor.core.text import one_line

if TYPE_CHECKING:
    from supervisor.client import RemoteSupervisor

DECISION_KEYS: Final = {
    "y": ("allow_once", "allow once"),
    "a": ("allow_always", "allow always"),
    "n": ("reject_once", "reject once"),
    "d": ("reject_always", "reject always"),
}
# For the answers that a question suggests, in order.
CHOICE_KEYS: Final = "123456789"
# For the keys of the screen around the panel, whatever has the focus.
ALT_BINDINGS: Final = tuple(
    Binding(f"alt+{key}", f"decide('{key}')", show=False, priority=True)
    for key in (*DECISION_KEYS, *CHOICE_KEYS)
)
_ANSWER_COMMAND: Final = "/answer "
_MAX_CHOICE_WIDTH: Final = 60
# Answers that make a rule: they ask for a second key.
LASTING_DECISIONS: Final = ("allow_always", "reject_always")
_CONFIRM_KEY: Final = "y"
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
        """The user pressed the key of a decision, or answered a question."""

        def __init__(self, request_id: str, answer: str, *, is_text: bool = False) -> None:
            super().__init__()
            self.request_id = request_id
            self.answer = answer
            self.is_text = is_text

        async def send(self, sup: RemoteSupervisor) -> None:
            """Answer the request; raise the error of the daemon."""
            if self.is_text:
                await sup.answer_question(self.request_id, self.answer)
            else:
                await sup.answer(self.request_id, self.answer)  # type: ignore[arg-type]  # an offered one

    class Typed(Message):
        """The user has pressed a key, or pasted a text, that is for the input."""

        def __init__(self, key: events.Key | events.Paste) -> None:
            super().__init__()
            self.key = key

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self.request: RequestBlock | None = None
        self._more = 0
        self._clock = clock
        self._shown_at = 0.0
        self._takes_letters = False
        # The lasting decision that waits for its second key, and the letter that asked for it.
        self._unconfirmed: str | None = None
        self._first_letter: events.Key | None = None
        self._text = Static(markup=False)

    def on_mount(self) -> None:
        """Add the text."""
        self.mount(self._text)

    def show(self, request: RequestBlock | None, *, more: int = 0) -> bool:
        """Show the request, or nothing; `more` wait behind it. Return whether it is another one."""
        is_other = request is not self.request
        if is_other:
            self.request = request
            self._shown_at = self._clock()
            self._takes_letters = False
            self._unconfirmed = self._first_letter = None
            self.set_class(request is not None, "-open")
            self.scroll_home(animate=False)
        if is_other or more != self._more:
            self._more = more
            self._draw()
        return is_other

    @property
    def is_confirming(self) -> bool:
        """Whether a lasting decision waits for its second key."""
        return self._unconfirmed is not None

    def cancel_confirmation(self) -> None:
        """Forget the lasting decision that was not confirmed."""
        self._unconfirmed = self._first_letter = None
        self._draw()

    def decide(self, key: str) -> bool:
        """Take the key of an offered decision; return False if it stands for none now."""
        request = self.request
        if request is None or self._clock() - self._shown_at < _GRACE_SECONDS:
            return False
        if request.choices is not None:
            return self._choose(request, key)
        if self._unconfirmed is not None:
            decision = self._unconfirmed if key == _CONFIRM_KEY else None
        else:
            decision, _ = DECISION_KEYS.get(key, (None, None))
        if decision is None or decision not in request.options:
            return False
        if decision in LASTING_DECISIONS and self._unconfirmed is None:
            self._unconfirmed = decision
            self._draw()
        else:
            self._takes_letters = False
            self.cancel_confirmation()
            self.post_message(self.Decided(request.request_id, decision))
        return True

    def _choose(self, request: RequestBlock, key: str) -> bool:
        """Answer the question with a suggested answer; return False if the key has none."""
        place = CHOICE_KEYS.find(key)
        choices = request.choices or ()
        if place < 0 or place >= len(choices):
            return False
        self._takes_letters = False
        self._draw()
        self.post_message(self.Decided(request.request_id, choices[place], is_text=True))
        return True

    def answer_in(self, line: str) -> Decided | None:
        """Return the answer that a line of the input gives to the shown question, or None."""
        text = line.removeprefix(_ANSWER_COMMAND).strip()
        if self.request is None or self.request.choices is None or text == line.strip():
            return None
        return self.Decided(self.request.request_id, text, is_text=True)

    def on_key(self, event: events.Key) -> None:
        """Decide, if the key stands for an offered decision; other characters are for the input."""
        was_confirming = self.is_confirming
        if self._takes_letters and self.decide(event.key.lower()):
            event.stop()
            if self.is_confirming and not was_confirming:
                self._first_letter = event
        elif event.is_printable or not self._takes_letters:
            event.stop()
            self._type(event)

    def on_paste(self, event: events.Paste) -> None:
        """Leave a pasted text to the input."""
        event.stop()
        self._type(event)

    def _type(self, event: events.Key | events.Paste) -> None:
        """Give the event to the input, after the letter that it shows to be the start of a text."""
        first = self._first_letter
        # The keys that follow in a burst arrive here before the focus has moved.
        self._takes_letters = False
        self.cancel_confirmation()
        for one in (first, event):
            if one is not None:
                self.post_message(self.Typed(one))

    def on_focus(self) -> None:
        """Take letters as decisions: the user has moved here."""
        self._takes_letters = self.request is not None
        self._draw()

    def on_blur(self) -> None:
        """Leave letters to the input."""
        self._takes_letters = False
        self.cancel_confirmation()

    def _draw(self) -> None:
        if self.request is not None:
            text = _request_text(self.request, self._more)
            text.append(f"\n{self._keys_text(self.request)}", Style(color="yellow"))
            self._text.update(text)

    def _keys_text(self, request: RequestBlock) -> str:
        if self._unconfirmed is not None:
            verb = self._unconfirmed.partition("_")[0]
            about = request.tool or "this"
            return f"{verb} {about} always, without asking again? {_CONFIRM_KEY} yes · Esc no"
        hints = decision_hints(request)
        return f"{hints} · Esc back" if self._takes_letters else f"Esc answers: {hints}"


def decision_hints(request: RequestBlock) -> str:
    """Return the keys of the offered decisions: `y allow once · n reject once`."""
    if request.choices is not None:
        keys = zip(CHOICE_KEYS, request.choices, strict=False)
        shown = [f"{key} {truncate(one_line(choice), _MAX_CHOICE_WIDTH)}" for key, choice in keys]
        return " · ".join([*shown, "/answer TEXT"])
    return " · ".join(
        f"{key} {label}" for key, (word, label) in DECISION_KEYS.items() if word in request.options
    )


def _request_text(request: RequestBlock, more: int) -> Text:
    text = Text(f"{request.question}", Style(bold=True))
    if request.tool:
        text.append(f"  ({request.tool})", Style(bold=False, color="magenta"))
    if more:
        text.append(f"  {more} more", Style(bold=False, color="yellow"))
    if request.input:
        text.append(f"\n{request.input}", Style(bold=False))
    return text
