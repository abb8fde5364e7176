"""The last line of a text that comes in pieces."""

from hypothesis import given
from hypothesis import strategies as st

from supervisor.handles.last_line import MAX_LINE_CHARS, LastLine

PIECES = st.lists(st.tuples(st.text("ab \n\t", max_size=300), st.booleans()))


@given(PIECES)
def test_the_last_line_is_that_of_the_whole_text(pieces: list[tuple[str, bool]]) -> None:
    line = LastLine()
    for text, continues in pieces:
        line.add(text, continues=continues)

    whole = "".join(text if continues else f"\n{text}" for text, continues in pieces)
    lines = [one.strip() for one in whole.split("\n") if one.strip()]
    expected = lines[-1][:MAX_LINE_CHARS].rstrip().replace("\t", " ") if lines else None
    assert line.text == expected


def test_a_hostile_line_becomes_printable_and_bounded() -> None:
    line = LastLine()
    line.add("\x1b[2J\x07" + "x" * 5_000_000)

    assert line.text is not None
    assert line.text.isprintable()
    assert len(line.text) <= MAX_LINE_CHARS


def test_nothing_of_an_escape_sequence_is_left() -> None:
    line = LastLine()
    line.add("\x1b[31mred\x1b[0m \x1b]8;;http://evil.example\x07link\x1b]8;;\x07 \u202eend")

    assert line.text == "red link end"
