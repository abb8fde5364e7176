"""The screen of `top` in a terminal that Textual simulates."""

import asyncio
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import attrs
from textual.pilot import Pilot

from supervisor.cli.screens.top_app import TopApp
from supervisor.cli.screens.top_screen import TopScreen
from tests.support.fake_daemon import FakeDaemon

# Every bound only ends a test that hangs.
LONG_SECONDS = 20.0


@attrs.frozen
class Shown:
    """The running screen."""

    pilot: Pilot[Any]
    daemon: FakeDaemon
    screen: TopScreen

    @property
    def lines(self) -> list[str]:
        """The lines of the terminal, as Textual composes them."""
        strips = self.pilot.app.screen._compositor.render_strips()
        return ["".join(segment.text for segment in strip).rstrip() for strip in strips]

    @property
    def text(self) -> str:
        return "\n".join(self.lines)

    async def until(self, condition: Callable[[], bool]) -> None:
        end = time.monotonic() + LONG_SECONDS
        while not condition():
            assert time.monotonic() < end, self.text
            await self.pilot.pause(0.01)

    async def until_shown(self, text: str) -> None:
        await self.until(lambda: text in self.text)

    async def press(self, *keys: str) -> None:
        await self.pilot.press(*keys)

    async def select(self, name: str) -> None:
        """Move down until the session with that name is selected."""
        await self.until_shown(name)
        while self.screen.model.selected != f"s_{name}":
            await self.press("down")
        await self.until(lambda: bool(re.search(f"^> +{name}", self.text, re.MULTILINE)))


@asynccontextmanager
async def shown(daemon: FakeDaemon, *, size: tuple[int, int] = (80, 24)) -> AsyncIterator[Shown]:
    app = TopApp(daemon.connect, every=0.02)
    async with app.run_test(size=size) as pilot:
        screen = app.screen
        assert isinstance(screen, TopScreen)
        yield Shown(pilot, daemon, screen)


def on_screen(
    daemon: FakeDaemon,
    story: Callable[[Shown], Awaitable[None]],
    size: tuple[int, int] = (80, 24),
) -> None:
    async def run() -> None:
        async with shown(daemon, size=size) as top:
            await story(top)

    asyncio.run(run())
