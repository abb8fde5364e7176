"""The demo on a terminal: events scroll by, and the tree is shown live below them."""

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

from supervisor.cli.text_format import BADGE_STYLES
from supervisor.core.text import one_line

from .demo_output import WORD_WIDTH, WORDS, PromiseResult, Stopwatch

if TYPE_CHECKING:
    from supervisor.core.info import Node

PAUSE_SECONDS: Final = 0.5
_NAME_WIDTH: Final = 22
_MAX_WIDTH: Final = 100
# Room for the `^C` of the user: on a line of its own it would shift what is drawn next down by one
# line.
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


class LiveOutput:
    """Output drawn with rich, without a refresh thread: the caller decides when to draw."""

    def __init__(
        self, console: Console | None = None, *, pause_seconds: float = PAUSE_SECONDS
    ) -> None:
        self.pause_seconds = pause_seconds
        self._console = console or Console(highlight=False, emoji=False)
        self._live = Live(console=self._console, auto_refresh=False)
        self._time = Stopwatch()
        self._scene = (0, 0, "")
        self._roots: Sequence[Node] = ()
        self._activity: dict[str, str] = {}
        self._remark = ""

    def shown(self) -> AbstractContextManager[object]:
        """Show the tree at the bottom during the block; the last state stays."""
        return self._live

    def scene(self, number: int, count: int, word: str, sentence: str) -> None:
        """Print a headline."""
        self._scene = (number, count, word)
        headline = Text.assemble(
            f"{number}/{count} {word}: ", (sentence, "default not bold"), style="bold"
        )
        self._console.print()
        self._console.print(headline)
        self._draw()

    def tell(self, word: str, sentence: str, **_: Any) -> None:  # noqa: ANN401 - see DemoOutput
        """Print one event: seconds since the start, its label, and its description."""
        line = Table.grid(padding=(0, 1))
        line.add_column(width=7, justify="right", style="dim")
        line.add_column(width=WORD_WIDTH, style=f"bold {WORDS.get(word, 'default')}")
        line.add_column(overflow="fold")
        line.add_row(f"{self._time.seconds():.2f} s", word, Text(one_line(sentence)))
        self._console.print(line)
        self._draw()

    def show(self, roots: Sequence[Node], activity: dict[str, str], remark: str) -> None:
        """Draw the current tree."""
        self._roots, self._activity, self._remark = roots, activity, remark
        self._draw()

    def promises(self, promises: Sequence[PromiseResult]) -> None:
        """Print a table of the promises in place of the tree."""
        table = Table.grid(padding=(0, 2))
        for one in promises:
            style = "bold green" if one.kept else "bold red"
            table.add_row(Text(one.verdict, style), one.promise, Text(one.figure, "dim"))
        self._live.update(Text(), refresh=True)
        self._live.stop()
        self._console.print()
        self._console.print(table)
        self._console.print()

    def _draw(self) -> None:
        if not self._live.is_started:
            return  # the table of promises has replaced the tree
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
                width=min(self._console.width - _MARGIN, _MAX_WIDTH),
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
            (one_line(self._activity.get(node.id, "")), "dim"),
            no_wrap=True,
            overflow="ellipsis",
        )
