"""The program `attach`: the screen of one session in a terminal, on asyncio."""

from __future__ import annotations

import asyncio
import contextlib
import io
import signal
from typing import TYPE_CHECKING, Final, cast

from textual.app import App

from supervisor.cli.output import Screen as PlainScreen

from .attach_screen import AttachScreen, SlashCommands

if TYPE_CHECKING:
    from supervisor.client import RemoteSession, RemoteSupervisor
    from supervisor.handles.session import Session

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
    ) -> None:
        super().__init__()
        self.theme = _THEME
        self.session_screen = AttachScreen(
            sup, session, slash_commands=slash_commands or run_slash_command
        )

    async def on_mount(self) -> None:
        """Show the session; leave the terminal as it was when a signal ends the program."""
        # Not as the default screen, whose CSS Textual does not load.
        self.push_screen(self.session_screen, lambda _: self.exit())
        loop = asyncio.get_running_loop()
        for one in _SIGNALS:
            with contextlib.suppress(RuntimeError, ValueError):  # not in the main thread
                loop.add_signal_handler(one, self.exit)


async def run_slash_command(session: RemoteSession, line: str) -> str | None:
    """Run a line of `chat` that begins with a slash; return its output, None for `/quit`."""
    from supervisor.cli.commands.chat import handle_line  # noqa: PLC0415 - slow to import

    output = io.StringIO()
    plain = PlainScreen(out=output, err=output, environ={"NO_COLOR": "1"})
    if not await handle_line(plain, cast("Session", session), line):
        return None
    return output.getvalue()
