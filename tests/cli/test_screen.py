"""What people see: columns that fit, colours where they may be, and no more than that."""

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisor.cli.terminal.columns import Cell, columns, cut, width_of
from supervisor.cli.terminal.screen import Screen


class Tty(io.StringIO):
    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


def screen(*, environ: dict[str, str], out: io.StringIO | None = None) -> Screen:
    return Screen(out=out or Tty(), err=Tty(), environ=environ)


def shown(one: Screen) -> str:
    assert isinstance(one.out, io.StringIO)
    return one.out.getvalue()


@given(st.text(), st.integers(0, 40))
def test_what_is_cut_fits(text: str, width: int) -> None:
    assert width_of(cut(text, width)) <= width


def test_a_column_is_as_wide_as_what_is_in_it() -> None:
    rows = columns([("a", "one"), ("long", "two")], width=None)

    assert ["".join(cell.text for cell in row) for row in rows] == ["a     one", "long  two"]


def test_letters_that_are_two_places_wide_count_as_two() -> None:
    rows = columns([("日本", "x"), ("abcd", "x")], width=None)

    assert [row[0].text for row in rows] == ["日本  ", "abcd  "]


def test_one_column_gives_way_to_a_narrow_terminal() -> None:
    (row,) = columns([("name", "a very long title indeed")], width=20, stretch=[1])

    assert row[1].text == "a very long t…"


def test_of_several_columns_the_widest_gives_way_first() -> None:
    (row,) = columns([("name", "a very long value", "from here")], width=27, stretch=[1, 2])

    assert [cell.text.strip() for cell in row] == ["name", "a very lo…", "from here"]


def test_what_has_to_be_read_to_its_end_is_not_cut() -> None:
    one = screen(environ={"TERM": "xterm", "NO_COLOR": "1"})
    one.table(("A", "B"), [("x", "y" * 100)])

    assert "y" * 100 in shown(one)


def test_in_a_pipe_nothing_is_cut() -> None:
    one = Screen(out=io.StringIO(), err=io.StringIO(), environ={})
    one.table(("A", "B"), [("x" * 200, "y")], stretch=[0])

    assert "x" * 200 in shown(one)


def test_no_line_is_longer_than_the_terminal_is_wide() -> None:
    one = screen(environ={"TERM": "xterm", "NO_COLOR": "1"})
    one.table(("A", "B", "C"), [("x" * 50, "y" * 50, "z" * 50)], stretch=[2])

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
def test_colours_are_for_terminals_that_have_them(environ: dict[str, str], colored: bool) -> None:  # noqa: FBT001 - a parameter
    one = screen(environ=environ)
    one.line(Cell("text", "red"))

    assert ("\x1b[31m" in shown(one)) is colored


def test_a_pipe_gets_no_colours() -> None:
    one = screen(environ={"TERM": "xterm"}, out=io.StringIO())
    one.line(Cell("text", "red"))

    assert shown(one) == "text\n"


def test_text_of_others_is_made_safe_whatever_it_is_in() -> None:
    one = screen(environ={"TERM": "dumb"})
    one.line("\x1b[2J", Cell("\x9b2J\x07", "red"))
    one.table(("A",), [("a\x1b]0;t\x07b\nc",)])
    one.fields([("name", "\u202ex")])

    assert shown(one) == "\nA\nab c\nname  x\n"


def test_a_terminal_that_cannot_show_a_letter_gets_a_sign_instead() -> None:
    out = io.TextIOWrapper(io.BytesIO(), encoding="ascii", write_through=True)
    Screen(out=out, err=out, environ={}).line("fünf")

    assert out.buffer.getvalue() == b"f?nf\n"


def test_remarks_go_to_standard_error_and_not_to_programs() -> None:
    for as_json in (False, True):
        one = Screen(as_json=as_json, out=Tty(), err=Tty(), environ={})
        one.note("by the way")

        assert shown(one) == ""
        assert isinstance(one.err, io.StringIO)
        assert one.err.getvalue() == ("" if as_json else "by the way\n")
