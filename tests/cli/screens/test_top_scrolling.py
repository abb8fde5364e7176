"""Which lines of the list `top` shows while they change places."""

from tests.support.fake_daemon import FakeDaemon
from tests.support.row_builders import asking_row, make_row, snapshot
from tests.support.shown_top import Shown, on_screen

ROWS = [make_row(f"row{place:02}") for place in range(40)]


def test_a_list_at_its_start_shows_who_needs_a_person_now() -> None:
    async def story(top: Shown) -> None:
        await top.until_shown("> row00")
        for name in ("row37", "row38"):
            top.daemon.send_items(asking_row(name))
        await top.until_shown("waiting for you  2")
        await top.until_shown("> row00")
        assert top.screen.list.scroll_offset.y == 0

        for place in range(10, 30):  # the selected line would leave the screen
            top.daemon.send_items(asking_row(f"row{place}"))
        await top.until_shown("22 waiting")
        await top.until_shown("> row00")

    on_screen(FakeDaemon(snapshot(*ROWS)), story)


def test_a_list_that_was_scrolled_keeps_the_selected_line_in_its_place() -> None:
    async def story(top: Shown) -> None:
        await top.until_shown("> row00")
        await top.press("end")
        await top.until_shown("> row39")
        line = next(one for one in top.lines if "> row39" in one)
        place = top.lines.index(line)
        top.daemon.send_items(asking_row("row00"))
        await top.until_shown("1 waiting")
        await top.until(lambda: len(top.screen.model.lines) == 42)
        assert "> row39" in top.lines[place]

    on_screen(FakeDaemon(snapshot(*ROWS)), story)
