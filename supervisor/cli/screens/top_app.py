"""The program `top`: its screen in a terminal, on asyncio.

Rule 1: what is typed before the first snapshot is drawn does nothing, except to leave: the user has
        not seen what it would act on.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
from typing import Final

from textual import events
from textual.app import App

from supervisor.core.errors import SupervisorError

from .attach_screen import SlashCommands
from .top_feed import Connect
from .top_screen import TopScreen

# The colours of the terminal, on its own background.
_THEME: Final = "ansi-dark"
_LEAVING_KEYS: Final = frozenset({"q", "ctrl+c"})
_SIGNALS: Final = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)


class TopApp(App[SupervisorError | None]):
    """`top` on the whole terminal; its result is what made it impossible."""

    ENABLE_COMMAND_PALETTE = False

    def __init__(
        self, connect: Connect, *, every: float, slash_commands: SlashCommands | None = None
    ) -> None:
        super().__init__()
        self.theme = _THEME
        self.top_screen = TopScreen(connect, every=every, slash_commands=slash_commands)

    async def on_event(self, event: events.Event) -> None:
        """Pass an event on, unless it is of the user and came before anything was drawn."""
        if isinstance(event, events.InputEvent | events.Paste) and self._is_early(event):
            return
        await super().on_event(event)

    def _is_early(self, event: events.Event) -> bool:
        drawn_at = self.top_screen.list.drawn_at
        if drawn_at is not None and event.time > drawn_at:
            return False
        return not (isinstance(event, events.Key) and event.key in _LEAVING_KEYS)

    async def on_mount(self) -> None:
        """Show the list; leave the terminal as it was when a signal ends the program."""
        # Not as the default screen, whose CSS Textual does not load.
        self.push_screen(self.top_screen)
        loop = asyncio.get_running_loop()
        for one in _SIGNALS:
            with contextlib.suppress(RuntimeError, ValueError):  # not in the main thread
                loop.add_signal_handler(one, self.exit)
