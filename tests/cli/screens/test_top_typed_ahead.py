"""Keys of `top` that arrive before the screen has reacted to the key before them."""

from textual import events

from tests.cli.screens.test_top_screen import daemon_with_family
from tests.support.shown_top import Shown, on_screen


def test_a_decision_that_follows_the_key_of_the_inbox_at_once_answers() -> None:
    async def story(top: Shown) -> None:
        await top.until_shown("> asks")
        for key in "iy":
            top.pilot.app.post_message(events.Key(key, key))
        await top.until_shown("answered: allow once")
        assert top.daemon.asked == [("answer", "r_rm", "allow_once")]

    on_screen(daemon_with_family(), story)
