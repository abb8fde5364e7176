"""Draw the pictures of the terminal in docs/_static: `python docs/pictures.py`.

Each is a recording of the real command, with scripted agents, as an SVG that loads nothing.
"""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import Final

import trio
from rich.console import Console
from rich.terminal_theme import MONOKAI

import supervisor
from supervisor.cli.demo.demo import log_disabled, run_demo
from supervisor.cli.demo.live_output import LiveOutput
from supervisor.cli.screens.top_app import TopApp

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


TOP_SIZE: Final = (108, 32)
START_SECONDS: Final = 20.0
# Name, tags, and the script that the agent of each session runs.
SESSIONS: Final = (
    ("checkout", "web", "think the form needs a total\nsay splitting the work in three\nsleep 600"),
    ("release-notes", "docs", "say 14 entries since 2.3, grouped by area\nuse 5200"),
    ("flaky-tests", "ci", "say run 7 of 20\nuse 8100\nfail test_login fails on run 7"),
    ("migration", "db", "say the column is unused since May\nuse 3400\nask bash"),
)
TITLES: Final = {
    "checkout": "Show the total in the form",
    "release-notes": "Draft the notes of 2.4",
    "flaky-tests": "Find out why test_login fails",
    "migration": "Drop the old column",
}
BUDGETS: Final = {"checkout": 40_000, "migration": 10_000}
CHILDREN: Final = (
    ("api", "say adding the endpoint\nuse 6300\ntool bash 600"),
    ("web", "say moving the total into the form\nuse 9800\nsleep 600"),
)


@contextmanager
def daemon() -> Iterator[str]:
    """Yield the socket of a daemon with a new store, which ends with the block."""
    with tempfile.TemporaryDirectory() as folder:
        places = ("XDG_RUNTIME_DIR", "XDG_STATE_HOME", "XDG_CONFIG_HOME")
        environ = {**os.environ, **dict.fromkeys(places, folder)}
        command = [sys.executable, "-m", "supervisor.cli", "serve"]
        process = subprocess.Popen(  # noqa: S603 - our own command
            command, env=environ, cwd=folder, stderr=subprocess.DEVNULL
        )
        try:
            socket = Path(folder, "understudy", "understudy.sock")
            end = time.monotonic() + START_SECONDS
            while not socket.exists() and time.monotonic() < end:
                time.sleep(0.05)
            yield str(socket)
        finally:
            process.terminate()
            process.wait()


async def prepare(sup: supervisor.RemoteSupervisor) -> None:
    """Create the sessions of the picture."""
    for name, tag, script in SESSIONS:
        session = await sup.create(
            "scripted",
            name=name,
            title=TITLES[name],
            tags=[tag],
            workspace="/home/ann/shop",
            limits=supervisor.Limits(tokens=BUDGETS.get(name)),
        )
        await session.send(script)
    [lead] = [one for one in (await sup.list()).items if one.name == "checkout"]
    for name, script in CHILDREN:
        await sup.session(lead.id).spawn("scripted", script, name=name)


async def record_top(socket: str) -> str:
    """Return the screen of `understudy top` as an SVG."""
    connect = partial(supervisor.connect, socket)
    async with connect() as sup:
        await prepare(sup)
    app = TopApp(connect, every=0.25)
    async with app.run_test(size=TOP_SIZE) as pilot:
        await pilot.pause(1.5)
        await pilot.press("down")
        await pilot.pause(1.0)
        return without_fonts(app.export_screenshot(title="understudy top"))


def main() -> None:
    """Write all pictures."""
    with daemon() as socket:
        STATIC.joinpath("top.svg").write_text(asyncio.run(record_top(socket)), encoding="utf-8")
    STATIC.joinpath("demo.svg").write_text(record_demo(), encoding="utf-8")


if __name__ == "__main__":
    main()
