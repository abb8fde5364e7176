"""Keys of `top` that arrive before the screen has reacted to the key before them, or at all."""

import asyncio

import pytest
from textual import events

from supervisor.cli.screens.top_app import TopApp
from tests.cli.screens.test_top_screen import daemon_with_family
from tests.support.fake_daemon import FakeDaemon
from tests.support.shown_top import Shown, on_screen


def test_a_decision_that_follows_the_key_of_the_inbox_at_once_answers() -> None:
    async def story(top: Shown) -> None:
        await top.until_shown("> asks")
        for key in "iy":
            top.pilot.app.post_message(events.Key(key, key))
        await top.until_shown("answered: allow once")
        assert top.daemon.asked == [("answer", "r_rm", "allow_once")]

    on_screen(daemon_with_family(), story)


@pytest.mark.parametrize("keys", [("X", "y"), ("i", "y"), ("r",), ("m", "a", "enter"), ("x", "1")])
def test_keys_typed_before_the_first_snapshot_is_drawn_do_nothing(keys: tuple[str, ...]) -> None:
    daemon = daemon_with_family()
    (first,) = daemon.first
    daemon.first.clear()

    async def story(top: Shown) -> None:
        await top.until(lambda: daemon.feed is not None)
        await top.press(*keys)
        early = [events.Key(key, key) for key in keys]
        daemon.send_items(first)
        await top.until_shown("> asks")
        # Read from the terminal before, and handled only now.
        for key in early:
            top.pilot.app.post_message(key)
        await top.press("down")
        await top.until_shown("> helps")
        assert daemon.asked == []
        assert top.lines[-1].startswith("? help")

    on_screen(daemon, story)


@pytest.mark.parametrize("key", ["q", "ctrl+c"])
def test_top_can_be_left_before_the_first_snapshot(key: str) -> None:
    app = TopApp(FakeDaemon().connect, every=0.02)

    async def run() -> None:
        async with app.run_test() as pilot:
            await pilot.press(key)
            while app.is_running:
                await pilot.pause(0.01)

    asyncio.run(run())
