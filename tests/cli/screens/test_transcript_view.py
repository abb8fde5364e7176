"""The widget of a transcript, and the line of input."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from textual.app import App, ComposeResult

from supervisor.cli.screens import transcript_view
from supervisor.cli.screens.input_line import InputLine
from supervisor.cli.screens.transcript_view import TranscriptView
from supervisor.cli.transcript.blocks import Block
from supervisor.cli.transcript.lines import Line, block_lines
from tests.support.attached_screen import run
from tests.support.transcript_items import ItemMaker, delta


class OneWidget(App[None]):
    """An app with one widget."""

    def __init__(self, widget: TranscriptView | InputLine) -> None:
        super().__init__()
        self.widget = widget
        self.submitted: list[tuple[str, str]] = []

    def compose(self) -> ComposeResult:
        yield self.widget

    def on_input_line_submitted(self, message: InputLine.Submitted) -> None:
        self.submitted.append((message.text, message.mode))


def test_new_text_lays_out_only_its_block(monkeypatch: pytest.MonkeyPatch) -> None:
    laid_out: list[Block] = []

    def count(block: Block, width: int, **how: Any) -> list[Line]:  # noqa: ANN401 - as block_lines
        laid_out.append(block)
        return block_lines(block, width, **how)

    monkeypatch.setattr(transcript_view, "block_lines", count)

    async def test() -> None:
        view, make = TranscriptView(), ItemMaker()
        async with OneWidget(view).run_test(size=(40, 10)) as pilot:
            for number in range(200):
                for item in (*make.turn(), make.text(f"text {number}"), make.end()):
                    view.apply(item)
            await pilot.pause(0.1)
            laid_out.clear()
            for place in range(50):
                view.apply(delta("word ", offset=5 * place))
            await pilot.pause(0.1)

            assert 1 <= len(laid_out) <= 50
            assert view.render_line(view.size.height - 1).text.strip().endswith("word word")

    run(test)


def noting(calls: list[tuple[object, ...]], function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function, which notes the arguments of each call."""

    def noted(*given: object) -> object:
        calls.append(given)
        return function(*given)

    return noted


def test_new_text_draws_only_the_lines_that_differ(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[tuple[object, ...]] = []
    layouts: list[tuple[object, ...]] = []

    async def test() -> None:
        view, make = TranscriptView(), ItemMaker()
        async with (app := OneWidget(view)).run_test(size=(40, 10)) as pilot:
            for item in (*make.turn(), make.text("line\n" * 50), make.end(), *make.turn()):
                view.apply(item)
            view.apply(delta("word ", offset=0))
            await pilot.pause(0.1)
            monkeypatch.setattr(view, "render_line", noting(drawn, view.render_line))
            screen = app.screen
            monkeypatch.setattr(screen, "_refresh_layout", noting(layouts, screen._refresh_layout))
            view.apply(delta("word ", offset=5))
            await pilot.pause(0.1)
            assert drawn == [(9,)]

            view.apply(delta("word " * 20, offset=10))
            await pilot.pause(0.1)
            assert len(drawn) > 5
            assert view.render_line(9).text.strip().endswith("word")
            # Neither the size nor the place of a widget depends on the number of lines.
            assert layouts == []
            assert view.vertical_scrollbar.window_virtual_size == view.virtual_size.height

    run(test)


def test_the_scrollbar_comes_and_goes_with_the_lines() -> None:
    async def test() -> None:
        view, make = TranscriptView(), ItemMaker()
        async with OneWidget(view).run_test(size=(40, 10)) as pilot:
            assert not view.show_vertical_scrollbar
            for item in (*make.turn(), make.text("line\n" * 50)):
                view.apply(item)
            await pilot.pause(0.1)
            assert view.show_vertical_scrollbar
            assert view.max_scroll_y == view.virtual_size.height - 10

            view.clear()
            await pilot.pause(0.1)
            assert not view.show_vertical_scrollbar
            assert view.scroll_offset.y == 0

    run(test)


def test_the_view_follows_its_end_unless_scrolled_up() -> None:
    async def test() -> None:
        view, make = TranscriptView(), ItemMaker()
        async with OneWidget(view).run_test(size=(40, 10)) as pilot:
            view.focus()
            for item in (*make.turn(), make.text("line\n" * 50)):
                view.apply(item)
            await pilot.pause(0.1)
            end = view.scroll_offset.y
            assert end == view.virtual_size.height - 10

            await pilot.press("pageup")
            view.apply(make.text("line\n" * 50, "p2", continues=True))
            await pilot.pause(0.1)
            assert view.scroll_offset.y < end

            await pilot.press("end")
            assert view.scroll_offset.y == view.virtual_size.height - 10
            view.clear()
            await pilot.pause()
            assert view.virtual_size.height == 0

    run(test)


def test_lines_fit_beside_a_scroll_bar_that_appears_while_text_comes() -> None:
    async def test() -> None:
        view, make = TranscriptView(), ItemMaker()
        async with OneWidget(view).run_test(size=(40, 10)) as pilot:
            for item in (*make.turn(), make.text("x" * 400)):
                view.apply(item)
            view._lay_out()  # the width is that without a scroll bar
            view.show_vertical_scrollbar = True
            view.apply(make.end())
            view._lay_out()
            await pilot.pause(0.1)

            assert view.scrollable_content_region.width == 39
            assert not view.show_horizontal_scrollbar
            shown = "".join(view.render_line(y).text.strip() for y in range(view.size.height))
            assert shown.count("x") % 39 == 400 % 39  # nothing is cut from full lines

    run(test)


def test_keys_of_a_burst_are_taken_in_order() -> None:
    async def test() -> None:
        line = InputLine()
        async with (app := OneWidget(line)).run_test() as pilot:
            line.focus()
            for key in ("a", "x", "backspace", "ctrl+j", "b", "enter", "tab", "c", "enter"):
                app.simulate_key(key)  # all of them before the first is handled
            await pilot.pause()

            assert app.submitted == [("a\nb", "send"), ("c", "steer")]

    run(test)


def test_up_and_down_recall_texts_and_keep_the_draft() -> None:
    async def test() -> None:
        line = InputLine()
        async with OneWidget(line).run_test() as pilot:
            line.focus()
            for text in ("one", "two\nlines"):
                line.remember(text)
            await pilot.press("d", "up")
            assert line.text == "two\nlines"
            await pilot.press("up", "up")
            assert line.text == "one"
            await pilot.press("down", "down", "down")
            assert line.text == "d"

    run(test)
