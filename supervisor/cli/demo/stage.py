"""Where the demo is shown: lines in a pipe, JSON for programs, a live tree on a terminal."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any, Final, Protocol

from supervisor.cli.table import wrapped
from supervisor.cli.terminal.columns import Cell
from supervisor.cli.terminal.screen import Screen

if TYPE_CHECKING:
    from supervisor.core.info import Node

# The words of the story, and their colours.
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
    """Seconds since it was first asked: what was imported before is nobody's story."""

    def __init__(self) -> None:
        self._began: float | None = None

    def seconds(self) -> float:
        """So long has it taken."""
        now = time.monotonic()
        if self._began is None:
            self._began = now
        return now - self._began


class Stage(Protocol):
    """Whoever shows the story."""

    # How long a scene is held for the eye. Nobody watches a pipe.
    breath_seconds: float

    def lit(self) -> AbstractContextManager[object]:
        """Things are shown for as long as the block lasts."""

    def scene(self, number: int, count: int, word: str, sentence: str) -> None:
        """A scene begins."""

    def tell(self, word: str, sentence: str, **facts: Any) -> None:  # noqa: ANN401 - plain data
        """Something has happened; the facts are for programs."""

    def show(self, roots: Sequence[Node], doings: dict[str, str], remark: str) -> None:
        """Show how all sessions are now; the remark is for a stage that is empty."""


class PlainStage:
    """Lines, one after the other."""

    breath_seconds = 0.0

    def __init__(self, screen: Screen) -> None:
        self._screen = screen
        self._time = Stopwatch()

    def lit(self) -> AbstractContextManager[object]:
        """Nothing to switch on."""
        return nullcontext()

    def scene(self, number: int, count: int, word: str, sentence: str) -> None:
        """A line of its own."""
        self._screen.line()
        for line in self._lines(f"{number}/{count} {word}: {sentence}"):
            self._screen.line(Cell(line, "bold"))

    def tell(self, word: str, sentence: str, **_: Any) -> None:  # noqa: ANN401 - see Stage
        """The time, the word, and the sentence."""
        when, label = f"{self._time.seconds():6.2f} s  ", f"{word:<{WORD_WIDTH}} "
        first, *rest = self._lines(sentence, beside=len(when + label))
        self._screen.line(Cell(when, "dim"), Cell(label, WORDS.get(word)), first)
        for line in rest:
            self._screen.line(" " * len(when + label), line)

    def show(self, roots: Sequence[Node], doings: dict[str, str], remark: str) -> None:
        """A tree that moves is no line."""

    def _lines(self, text: str, *, beside: int = 0) -> list[str]:
        """As one line in a pipe, and in lines of whole words on a terminal."""
        width = self._screen.width
        return [text] if width is None else wrapped(text, width - beside)


class JsonStage:
    """One JSON object a line."""

    breath_seconds = 0.0

    def __init__(self, screen: Screen) -> None:
        self._screen = screen
        self._time = Stopwatch()

    def lit(self) -> AbstractContextManager[object]:
        """Nothing to switch on."""
        return nullcontext()

    def scene(self, number: int, count: int, word: str, sentence: str) -> None:
        """What comes next."""
        self._put({"scene": number, "of": count, "word": word, "text": sentence})

    def tell(self, word: str, sentence: str, **facts: Any) -> None:  # noqa: ANN401 - see Stage
        """What happened, with the facts."""
        self._put({"word": word, "text": sentence, **facts})

    def show(self, roots: Sequence[Node], doings: dict[str, str], remark: str) -> None:
        """Programs ask for a tree when they want one."""

    def _put(self, said: dict[str, Any]) -> None:
        self._screen.data({"seconds": round(self._time.seconds(), 3), **said})
