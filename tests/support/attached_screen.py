"""The screen of a session with Textual's pilot, on a real supervisor in a thread."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any, Final

import attrs
from textual.pilot import Pilot

import supervisor
from supervisor.cli.commands.slash import run_slash_command
from supervisor.cli.private_server import serve_in_thread
from supervisor.cli.screens.attach_app import AttachApp
from supervisor.cli.screens.attach_screen import AttachScreen
from supervisor.client import RemoteSession, RemoteSupervisor, connect

# Ends a hang; what is waited for are facts.
PATIENCE_SECONDS: Final = 30.0


@asynccontextmanager
async def embedded(
    agent: str,
    **options: Any,  # noqa: ANN401 - those of open()
) -> AsyncIterator[tuple[supervisor.Supervisor, supervisor.Session]]:
    async with supervisor.open(**options) as sup:
        yield sup, await sup.create(agent, name="bob")


@attrs.frozen
class Attached:
    """A screen, the user who types, and the session."""

    app: AttachApp
    pilot: Pilot[None]
    sup: RemoteSupervisor
    session: RemoteSession

    @property
    def screen(self) -> AttachScreen:
        return self.app.session_screen

    def text(self) -> str:
        """Return the whole screen as lines of text."""
        strips = self.app.screen._compositor.render_strips()
        return "\n".join(strip.text.rstrip() for strip in strips)

    async def until(self, condition: Callable[[], object]) -> None:
        """Wait until the condition is met."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not condition():
            assert time.monotonic() < deadline, self.text()
            await self.pilot.pause(0.01)

    async def see(self, text: str) -> str:
        """Wait until the screen shows the text; return the screen."""
        await self.until(lambda: text in self.text())
        return self.text()

    async def type(self, text: str, *keys: str) -> None:
        """Type a text, and then press keys."""
        names = {"\n": "ctrl+j", " ": "space", "/": "slash"}
        await self.pilot.press(*(names.get(one, one) for one in text), *keys)


@asynccontextmanager
async def attached(
    agent: str = "scripted",
    *,
    size: tuple[int, int] = (80, 24),
    before: Callable[[RemoteSession], Coroutine[Any, Any, object]] | None = None,
    **options: Any,  # noqa: ANN401 - those of open()
) -> AsyncIterator[Attached]:
    """Yield the screen of a new session, after `before` has done something with it."""
    settings = supervisor.Settings(exit_seconds=0.0)
    opened = embedded(agent, settings=settings, **options)
    async with serve_in_thread(opened) as address, connect(address.socket) as sup:
        session = sup.session(address.session_id)
        if before is not None:
            await before(session)
        app = AttachApp(sup, session, slash_commands=run_slash_command)
        async with app.run_test(size=size) as pilot:
            made = Attached(app, pilot, sup, session)
            await made.see("bob")
            yield made


def run(test: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run a test on asyncio, as Textual needs it."""
    asyncio.run(test())
