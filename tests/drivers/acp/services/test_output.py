"""What a terminal has put out; see acp/services/output.py."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from supervisor.drivers.acp.services.terminals.output import Output

any_text = st.text(st.characters(exclude_categories=["Cs"]))


def output(*pieces: bytes, max_bytes: int = 10, over: bool = False) -> Output:
    made = Output(max_bytes)
    for piece in pieces:
        made.add(piece)
    if over:
        made.end()
    return made


def test_what_fits_is_kept() -> None:
    assert output(b"12345", b"67890").text() == "1234567890"
    assert not output(b"12345", b"67890").is_cut


def test_the_oldest_goes_first() -> None:
    made = output(b"12345678901234567890123")

    assert (made.text(), made.is_cut) == ("4567890123", True)


def test_what_is_cut_begins_with_a_whole_character() -> None:
    assert output("aaaaa€€€".encode(), max_bytes=8).text() == "€€"


def test_half_a_character_at_the_end_waits_for_its_rest() -> None:
    made = output(b"a\xe2\x82")
    assert made.text() == "a"

    made.add(b"\xac")

    assert made.text() == "a€"


def test_half_a_character_at_the_very_end_is_marked() -> None:
    assert output(b"a\xe2\x82", over=True).text() == "a\ufffd"


def test_bytes_that_are_no_text_are_marked_within_the_limit() -> None:
    made = output(b"\xff" * 20, max_bytes=10)

    assert made.text() == "\ufffd" * 3


def test_nothing_is_kept_if_nothing_is_wanted() -> None:
    made = output(b"1", max_bytes=0)

    assert (made.text(), made.is_cut) == ("", True)
    assert not output(max_bytes=0).is_cut


def test_less_may_be_shown_than_is_kept() -> None:
    assert output(b"1234567890").text(3) == "890"


@given(st.lists(st.binary(max_size=20)), st.integers(0, 30))
def test_any_bytes_are_text_within_the_limit(pieces: list[bytes], most: int) -> None:
    made = output(*pieces, max_bytes=most)

    assert len(made.text().encode()) <= most
    assert made.is_cut == (len(b"".join(pieces)) > most)


@given(any_text, st.integers(1, 7), st.integers(0, 40))
def test_text_in_any_pieces_is_its_own_end(text: str, size: int, most: int) -> None:
    data = text.encode()
    pieces = [data[place : place + size] for place in range(0, len(data), size)]

    made = output(*pieces, max_bytes=most, over=True).text()

    assert text.endswith(made)
    assert len(data) - len(made.encode()) < 4 or len(made.encode()) > most - 4
