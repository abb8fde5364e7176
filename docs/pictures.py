"""Draw the pictures of the terminal in docs/_static: `python docs/pictures.py`.

Each is a recording of the real command, with scripted agents, as an SVG that loads nothing.
"""

from __future__ import annotations

import re
import tempfile
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from pathlib import Path
from typing import Final

import trio
from rich.console import Console
from rich.terminal_theme import MONOKAI

from supervisor.cli.demo.demo import log_disabled, run_demo
from supervisor.cli.demo.live_output import LiveOutput

STATIC: Final = Path(__file__).parent / "_static"
COLUMNS: Final = 92
# The pictures of rich name fonts of a server; without them the reader's own are used.
_COMMENTS: Final = re.compile(r"<!--.*?-->\s*", re.DOTALL)
_FONT_FACES: Final = re.compile(r"@font-face\s*\{.*?\}\s*", re.DOTALL)


def without_fonts(picture: str) -> str:
    """Return the SVG without references to fonts elsewhere."""
    return _COMMENTS.sub("", _FONT_FACES.sub("", picture)).replace(
        "Fira Code, monospace", "monospace"
    )


class RecordedOutput(LiveOutput):
    """The lines of the demo without the tree, which a still picture cannot show."""

    def shown(self) -> AbstractContextManager[object]:
        """Do nothing: the tree is drawn only in a block of `LiveOutput.shown`."""
        return nullcontext()


def record_demo() -> str:
    """Run the demo, and return its lines as an SVG."""
    with tempfile.TemporaryFile("w+") as nowhere:
        console = Console(file=nowhere, record=True, force_terminal=True, width=COLUMNS, height=60)
        with log_disabled():
            trio.run(partial(run_demo, RecordedOutput(console), 1.0))
        return without_fonts(
            console.export_svg(title="understudy demo", theme=MONOKAI, unique_id="demo")
        )


def main() -> None:
    """Write all pictures."""
    STATIC.joinpath("demo.svg").write_text(record_demo(), encoding="utf-8")


if __name__ == "__main__":
    main()
