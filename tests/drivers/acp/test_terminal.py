"""Bounded output of a terminal; see acp/terminal.py."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisor.drivers.acp.terminal import TerminalOutput

pytestmark = pytest.mark.usefixtures("no_open_descriptors")

any_text = st.text(st.characters(exclude_categories=["Cs"]))


def output(*pieces: bytes, max_bytes: int = 10, over: bool = False) -> TerminalOutput:
    made = TerminalOutput(max_bytes)
    for piece in pieces:
        made.add(piece)
    if over:
        made.end()
    return made


def test_output_within_the_limit_is_kept() -> None:
    assert output(b"12345", b"67890").text() == "1234567890"
    assert not output(b"12345", b"67890").is_truncated


def test_the_oldest_output_is_dropped_first() -> None:
    made = output(b"12345678901234567890123")

    assert (made.text(), made.is_truncated) == ("4567890123", True)


def test_truncated_output_starts_with_a_whole_character() -> None:
    assert output("aaaaa€€€".encode(), max_bytes=8).text() == "€€"


def test_a_partial_character_at_the_end_waits_for_its_rest() -> None:
    made = output(b"a\xe2\x82")
    assert made.text() == "a"

    made.add(b"\xac")

    assert made.text() == "a€"


def test_a_partial_character_after_the_end_is_replaced() -> None:
    assert output(b"a\xe2\x82", over=True).text() == "a\ufffd"


def test_invalid_bytes_are_replaced_within_the_limit() -> None:
    made = output(b"\xff" * 20, max_bytes=10)

    assert made.text() == "\ufffd" * 3


def test_a_limit_of_zero_keeps_no_output() -> None:
    made = output(b"1", max_bytes=0)

    assert (made.text(), made.is_truncated) == ("", True)
    assert not output(max_bytes=0).is_truncated


def test_text_can_return_less_than_is_kept() -> None:
    assert output(b"1234567890").text(3) == "890"


@given(st.lists(st.binary(max_size=20)), st.integers(0, 30))
def test_any_bytes_become_text_within_the_limit(pieces: list[bytes], most: int) -> None:
    made = output(*pieces, max_bytes=most)

    assert len(made.text().encode()) <= most
    assert made.is_truncated == (len(b"".join(pieces)) > most)


@given(any_text, st.integers(1, 7), st.integers(0, 40))
def test_text_added_in_any_chunks_keeps_its_end(text: str, size: int, most: int) -> None:
    data = text.encode()
    pieces = [data[place : place + size] for place in range(0, len(data), size)]

    made = output(*pieces, max_bytes=most, over=True).text()

    assert text.endswith(made)
    assert len(data) - len(made.encode()) < 4 or len(made.encode()) > most - 4
