"""Output of the demo: lines in a pipe, JSON for programs, a live tree on a terminal."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any, Final, Protocol

from supervisor.cli.columns import Cell
from supervisor.cli.output import Screen
from supervisor.cli.table import wrap_words

if TYPE_CHECKING:
    from supervisor.core.info import Node

# The words of the events, and their colours.
WORDS: Final = {
    "spawn": "green",
    "queue": "cyan",
    "steer": "blue",
    "interrupt": "yellow",
    "stall": "magenta",
    "crash": "red",
    "recovery": "green",
    "done": "bold",
}
WORD_WIDTH: Final = 9


class Stopwatch:
    """Seconds since the first call, so that import time does not count."""

    def __init__(self) -> None:
        self._began: float | None = None

    def seconds(self) -> float:
        """Return the elapsed seconds."""
        now = time.monotonic()
        if self._began is None:
            self._began = now
        return now - self._began


class Stage(Protocol):
    """The output of the demo."""

    # How long a scene pauses for viewers; 0 in a pipe.
    breath_seconds: float

    def lit(self) -> AbstractContextManager[object]:
        """Show the output during the block."""

    def scene(self, number: int, count: int, word: str, sentence: str) -> None:
        """Begin a scene."""

    def tell(self, word: str, sentence: str, **facts: Any) -> None:  # noqa: ANN401 - plain data
        """Print an event; the facts are for programs."""

    def show(self, roots: Sequence[Node], activity: dict[str, str], remark: str) -> None:
        """Show the current sessions; the remark is for an empty stage."""


class PlainStage:
    """Output as plain lines."""

    breath_seconds = 0.0

    def __init__(self, screen: Screen) -> None:
        self._screen = screen
        self._time = Stopwatch()

    def lit(self) -> AbstractContextManager[object]:
        """Do nothing."""
        return nullcontext()

    def scene(self, number: int, count: int, word: str, sentence: str) -> None:
        """Print a headline."""
        self._screen.line()
        for line in self._lines(f"{number}/{count} {word}: {sentence}"):
            self._screen.line(Cell(line, "bold"))

    def tell(self, word: str, sentence: str, **_: Any) -> None:  # noqa: ANN401 - see Stage
        """Print the time, the word, and the sentence."""
        when, label = f"{self._time.seconds():6.2f} s  ", f"{word:<{WORD_WIDTH}} "
        first, *rest = self._lines(sentence, beside=len(when + label))
        self._screen.line(Cell(when, "dim"), Cell(label, WORDS.get(word)), first)
        for line in rest:
            self._screen.line(" " * len(when + label), line)

    def show(self, roots: Sequence[Node], activity: dict[str, str], remark: str) -> None:
        """Do nothing: a live tree does not fit into lines."""

    def _lines(self, text: str, *, beside: int = 0) -> list[str]:
        """Return one line in a pipe, and wrapped lines on a terminal."""
        width = self._screen.width
        return [text] if width is None else wrap_words(text, width - beside)


class JsonStage:
    """Output as one JSON object per line."""

    breath_seconds = 0.0

    def __init__(self, screen: Screen) -> None:
        self._screen = screen
        self._time = Stopwatch()

    def lit(self) -> AbstractContextManager[object]:
        """Do nothing."""
        return nullcontext()

    def scene(self, number: int, count: int, word: str, sentence: str) -> None:
        """Print the scene."""
        self._put({"scene": number, "of": count, "word": word, "text": sentence})

    def tell(self, word: str, sentence: str, **facts: Any) -> None:  # noqa: ANN401 - see Stage
        """Print the event with its facts."""
        self._put({"word": word, "text": sentence, **facts})

    def show(self, roots: Sequence[Node], activity: dict[str, str], remark: str) -> None:
        """Do nothing: programs request the tree themselves."""

    def _put(self, said: dict[str, Any]) -> None:
        self._screen.data({"seconds": round(self._time.seconds(), 3), **said})
