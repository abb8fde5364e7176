"""The demo on a terminal: the story scrolls by, and below it stands the tree, as it is now."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Final

from rich import box
from rich.console import Console, Group
from rich.live import Live
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from supervisor.cli.terminal.columns import BADGE_STYLES
from supervisor.core.printable import one_line

from .stage import WORD_WIDTH, WORDS, Stopwatch

if TYPE_CHECKING:
    from supervisor.core.info import Node

_BREATH_SECONDS: Final = 0.5
_NAME_WIDTH: Final = 22
_WIDEST: Final = 100
# So that a terminal has room for the `^C` of somebody who leaves: on a line of its own, it would
# have what is drawn next begin a line too low.
_MARGIN: Final = 3
_SIGNS: Final = {
    "running": "●",
    "idle": "○",
    "suspended": "◌",
    "restarting": "↻",
    "hung": "▲",
    "failed": "✕",
    "stopped": "·",
}


class LiveStage:
    """Rich draws it; nothing runs beside, so that whoever shows it says when."""

    breath_seconds = _BREATH_SECONDS

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Console(highlight=False, emoji=False)
        self._live = Live(console=self._console, auto_refresh=False)
        self._time = Stopwatch()
        self._scene = (0, 0, "")
        self._roots: Sequence[Node] = ()
        self._doings: dict[str, str] = {}
        self._remark = ""

    def lit(self) -> AbstractContextManager[object]:
        """The tree stands at the bottom while this lasts, and stays there as it was last."""
        return self._live

    def scene(self, number: int, count: int, word: str, sentence: str) -> None:
        """A headline."""
        self._scene = (number, count, word)
        headline = Text.assemble(
            f"{number}/{count} {word}: ", (sentence, "default not bold"), style="bold"
        )
        self._console.print()
        self._console.print(headline)
        self._draw()

    def tell(self, word: str, sentence: str, **_: Any) -> None:  # noqa: ANN401 - see Stage
        """The time, the word, and the sentence, which may take several lines."""
        line = Table.grid(padding=(0, 1))
        line.add_column(width=7, justify="right", style="dim")
        line.add_column(width=WORD_WIDTH, style=f"bold {WORDS.get(word, 'default')}")
        line.add_column(overflow="fold")
        line.add_row(f"{self._time.seconds():.2f} s", word, Text(one_line(sentence)))
        self._console.print(line)
        self._draw()

    def show(self, roots: Sequence[Node], doings: dict[str, str], remark: str) -> None:
        """Draw the tree as it is now."""
        self._roots, self._doings, self._remark = roots, doings, remark
        self._draw()

    def _draw(self) -> None:
        number, count, word = self._scene
        steps = "●" * number + "○" * (count - number)
        lines = [line for root in self._roots for line in self._branch(root, "", "")]
        self._live.update(
            Panel(
                Group(*(lines or [Text(self._remark, style="dim", no_wrap=True)])),
                title=f"understudy {steps} {word}".rstrip(),
                title_align="left",
                box=box.ROUNDED,
                border_style="dim",
                width=min(self._console.width - _MARGIN, _WIDEST),
            ),
            refresh=True,
        )

    def _branch(self, node: Node, first: str, rest: str) -> Iterator[Text]:
        yield self._line(node, first)
        for number, child in enumerate(node.children, 1):
            is_last = number == len(node.children)
            corner, line = ("└─ ", "   ") if is_last else ("├─ ", "│  ")
            yield from self._branch(child, rest + corner, rest + line)

    def _line(self, node: Node, first: str) -> Text:
        style = BADGE_STYLES.get(node.badge, "default")
        name = first + one_line(node.name or node.id)
        waiting = "▪" * node.queued
        return Text.assemble(
            (f"{name:<{_NAME_WIDTH}} ", "bold"),
            (f"{_SIGNS.get(node.badge, '?')} {node.badge:<11}", style),
            (f"{waiting:<4}", "cyan"),
            (one_line(self._doings.get(node.id, "")), "dim"),
            no_wrap=True,
            overflow="ellipsis",
        )
