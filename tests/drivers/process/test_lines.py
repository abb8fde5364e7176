"""Lines come out the same however they went in, and a flood is not kept."""

from __future__ import annotations

import tracemalloc
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisor.drivers.process.lines import KEPT_BYTES, Line, Lines, TooLong
from tests.drivers.acp.sayings import cut

CAP = 8
# Few bytes, so that newlines, white space and runs of the cap's length are common.
texts = st.lists(st.sampled_from(b"ab \r\n\xc3\xa9"), max_size=60).map(bytes)


def all_lines(pieces: Sequence[bytes], *, cap: int = CAP) -> list[Line]:
    lines = Lines(max_line_bytes=cap)
    return [line for piece in pieces for line in lines.feed(piece)] + lines.finish()


def expected(data: bytes) -> list[Line]:
    """What the words say, and nothing clever."""
    found: list[Line] = []
    for line in data.split(b"\n"):
        if len(line) > CAP:
            found.append(TooLong(line[:CAP]))
        elif line.strip():
            found.append(line.strip())
    return found


def test_a_line_is_given_out_when_its_newline_has_come() -> None:
    lines = Lines()

    assert lines.feed(b"on") == []
    assert lines.feed(b"e\ntwo\nth") == [b"one", b"two"]
    assert lines.feed(b"ree\n") == [b"three"]


def test_carriage_returns_and_empty_lines_mean_nothing() -> None:
    assert all_lines([b"\r\none\r\n\n  \ntwo\r\n"]) == [b"one", b"two"]


def test_what_stands_behind_the_last_newline_is_given_out_at_the_end() -> None:
    lines = Lines()

    assert lines.feed(b"one\ntwo") == [b"one"]
    assert lines.finish() == [b"two"]
    assert lines.finish() == []


def test_a_line_may_be_as_long_as_is_allowed_and_no_longer() -> None:
    assert all_lines([b"12345678\n123456789\n"]) == [b"12345678", TooLong(b"12345678")]


def test_a_line_that_is_too_long_is_said_once_and_what_follows_it_is_whole() -> None:
    lines = Lines(max_line_bytes=CAP)

    assert lines.feed(b"x" * 9) == [TooLong(b"x" * CAP)]
    assert lines.feed(b"x" * 100) == []
    assert lines.feed(b"x\nafter\n") == [b"after"]


@given(texts, st.lists(st.integers(min_value=0), max_size=10))
def test_where_the_pieces_were_cut_makes_no_difference(data: bytes, places: list[int]) -> None:
    assert all_lines(cut(data, places)) == expected(data)


@given(texts)
def test_neither_does_one_byte_at_a_time(data: bytes) -> None:
    assert all_lines([data[place : place + 1] for place in range(len(data))]) == expected(data)


@pytest.mark.parametrize("piece_bytes", [1, 7, 8192])
def test_a_flood_without_newline_costs_no_more_memory_than_one_line(piece_bytes: int) -> None:
    cap, piece = 30_000, b"x" * piece_bytes
    lines = Lines(max_line_bytes=cap)
    tracemalloc.start()

    found = [line for _ in range(5 * cap // piece_bytes + 2) for line in lines.feed(piece)]

    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert found == [TooLong(b"x" * KEPT_BYTES)]
    assert peak < 2 * cap + 3 * piece_bytes
