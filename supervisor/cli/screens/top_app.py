"""The program `top`: its screen in a terminal, on asyncio."""

from __future__ import annotations

import asyncio
import signal
from typing import Final

from textual.app import App

from supervisor.core.errors import SupervisorError

from .top_feed import Connect
from .top_screen import TopScreen

# The colours of the terminal, on its own background.
_THEME: Final = "ansi-dark"
_SIGNALS: Final = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)


class TopApp(App[SupervisorError | None]):
    """`top` on the whole terminal."""

    ENABLE_COMMAND_PALETTE = False

    def __init__(self, connect: Connect, *, every: float) -> None:
        super().__init__()
        self.theme = _THEME
        self._connect = connect
        self._every = every

    async def on_mount(self) -> None:
        """Show the list; leave the terminal as it was when a signal ends the program."""
        # Not as the default screen, whose CSS Textual does not load.
        self.push_screen(TopScreen(self._connect, every=self._every))
        loop = asyncio.get_running_loop()
        for one in _SIGNALS:
            loop.add_signal_handler(one, self.exit)


def run_top(connect: Connect, *, every: float) -> None:
    """Show the screen until the user leaves; raise what made it impossible."""
    app = TopApp(connect, every=every)
    error = app.run(mouse=True)
    if error is not None:
        raise error
