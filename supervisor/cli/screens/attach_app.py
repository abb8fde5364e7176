"""The program `attach`: the screen of one session in a terminal, on asyncio."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from typing import TYPE_CHECKING, Final, Literal

from textual.app import App

from .attach_screen import AttachScreen, SlashCommands

if TYPE_CHECKING:
    from supervisor.client import RemoteSession, RemoteSupervisor

# The colours of the terminal, on its own background.
_THEME: Final = "ansi-dark"
_SIGNALS: Final = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)


class AttachApp(App[None]):
    """The screen of one session on the whole terminal."""

    ENABLE_COMMAND_PALETTE = False

    def __init__(
        self,
        sup: RemoteSupervisor,
        session: RemoteSession,
        *,
        slash_commands: SlashCommands | None = None,
        greeting: str = "",
        after_leaving: Literal["goes on", "ends"] = "goes on",
        typed: str = "",
    ) -> None:
        super().__init__()
        self.theme = _THEME
        self.session_screen = AttachScreen(
            sup,
            session,
            slash_commands=slash_commands,
            greeting=greeting,
            after_leaving=after_leaving,
            typed=typed,
        )

    async def on_mount(self) -> None:
        """Show the session; leave the terminal as it was when a signal ends the program."""
        # Not as the default screen, whose CSS Textual does not load.
        self.push_screen(self.session_screen, lambda _: self.exit())
        loop = asyncio.get_running_loop()
        for one in _SIGNALS:
            with contextlib.suppress(RuntimeError, ValueError):  # not in the main thread
                loop.add_signal_handler(one, self.exit)
