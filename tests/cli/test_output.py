"""Output: columns that fit, and colours only where allowed."""

import io
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisor.cli.output import Screen
from supervisor.cli.text_format import Cell, align_columns, cell_width, truncate
from tests.support.cli_runner import Tty


def screen(*, environ: dict[str, str], out: io.StringIO | None = None) -> Screen:
    return Screen(out=out or Tty(), err=Tty(), environ=environ)


def shown(one: Screen) -> str:
    assert isinstance(one.out, io.StringIO)
    return one.out.getvalue()


@given(st.text(), st.integers(0, 40))
def test_truncated_text_fits(text: str, width: int) -> None:
    assert cell_width(truncate(text, width)) <= width


def test_a_column_is_as_wide_as_its_contents() -> None:
    rows = align_columns([("a", "one"), ("long", "two")], width=None)

    assert ["".join(cell.text for cell in row) for row in rows] == ["a     one", "long  two"]


def test_wide_letters_count_as_two_columns() -> None:
    rows = align_columns([("日本", "x"), ("abcd", "x")], width=None)

    assert [row[0].text for row in rows] == ["日本  ", "abcd  "]


def test_a_stretch_column_shrinks_on_a_narrow_terminal() -> None:
    (row,) = align_columns([("name", "a very long title indeed")], width=20, shrinkable=[1])

    assert row[1].text == "a very long t…"


def test_the_widest_stretch_column_shrinks_first() -> None:
    (row,) = align_columns(
        [("name", "a very long value", "from here")], width=27, shrinkable=[1, 2]
    )

    assert [cell.text.strip() for cell in row] == ["name", "a very lo…", "from here"]


def test_columns_without_stretch_are_not_cut() -> None:
    one = screen(environ={"TERM": "xterm", "NO_COLOR": "1"})
    one.table(("A", "B"), [("x", "y" * 100)])

    assert "y" * 100 in shown(one)


def test_in_a_pipe_nothing_is_cut() -> None:
    one = Screen(out=io.StringIO(), err=io.StringIO(), environ={})
    one.table(("A", "B"), [("x" * 200, "y")], shrinkable=[0])

    assert "x" * 200 in shown(one)


def test_no_line_is_longer_than_the_terminal_is_wide() -> None:
    one = screen(environ={"TERM": "xterm", "NO_COLOR": "1"})
    one.table(("A", "B", "C"), [("x" * 50, "y" * 50, "z" * 50)], shrinkable=[2])

    assert max(map(len, shown(one).splitlines())) == 80


@pytest.mark.parametrize(
    ("environ", "colored"),
    [
        ({"TERM": "xterm"}, True),
        ({"TERM": "xterm", "NO_COLOR": "1"}, False),
        ({"TERM": "dumb"}, False),
        ({}, False),
    ],
)
def test_colours_are_used_only_on_capable_terminals(environ: dict[str, str], colored: bool) -> None:  # noqa: FBT001 - a parameter
    one = screen(environ=environ)
    one.line(Cell("text", "red"))

    assert ("\x1b[31m" in shown(one)) is colored


def test_a_pipe_gets_no_colours() -> None:
    one = screen(environ={"TERM": "xterm"}, out=io.StringIO())
    one.line(Cell("text", "red"))

    assert shown(one) == "text\n"


def test_every_output_function_makes_text_safe() -> None:
    one = screen(environ={"TERM": "dumb"})
    one.line("\x1b[2J", Cell("\x9b2J\x07", "red"))
    one.table(("A",), [("a\x1b]0;t\x07b\nc",)])
    one.fields([("name", "\u202ex")])

    assert shown(one) == "\nA\nab c\nname  x\n"


def test_unencodable_letters_are_replaced() -> None:
    out = io.TextIOWrapper(io.BytesIO(), encoding="ascii", write_through=True)
    Screen(out=out, err=out, environ={}).line("fünf")

    assert out.buffer.getvalue() == b"f?nf\n"


def test_notes_go_to_standard_error_and_not_to_json() -> None:
    for as_json in (False, True):
        one = Screen(as_json=as_json, out=Tty(), err=Tty(), environ={})
        one.note("by the way")

        assert shown(one) == ""
        assert isinstance(one.err, io.StringIO)
        assert one.err.getvalue() == ("" if as_json else "by the way\n")


def test_a_long_text_is_broken_between_words_and_keeps_its_colours() -> None:
    one = screen(environ={"TERM": "xterm"})
    words = [f"word{place:03}" for place in range(30)]
    one.wrapped_line(Cell("bob", "bold"), Cell(" "), Cell(" ".join(words), "red"))
    one.wrapped_line(Cell("short", "red"))

    *lines, short = shown(one).splitlines()
    plain = [re.sub(r"\x1b\[\d+m", "", line) for line in lines]
    assert " ".join(plain).split() == ["bob", *words]
    assert [len(line) <= 80 for line in plain] == [True] * 4
    assert [line.startswith("  word") for line in plain] == [False, True, True, True]
    assert (lines[1][:7], lines[1][-4:]) == ("  \x1b[31m", "\x1b[0m")
    assert short == "\x1b[31mshort\x1b[0m"


def test_a_long_text_in_a_pipe_is_one_line() -> None:
    one = Screen(out=io.StringIO(), err=io.StringIO(), environ={})
    one.wrapped_line(Cell("word " * 50))
    one.wrapped_note(Cell("word " * 50))

    assert shown(one).count("\n") == 1


def test_in_a_pipe_a_very_long_text_does_not_widen_the_other_lines() -> None:
    rows = align_columns([("x" * 300, "one"), ("short", "two")], width=None)

    assert [row[0].text for row in rows] == ["x" * 300 + "  ", "short".ljust(62)]
