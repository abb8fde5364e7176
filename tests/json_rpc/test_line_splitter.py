"""The line splitter: independence of chunks, and bounded memory."""

from __future__ import annotations

import tracemalloc
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisor.json_rpc.lines import KEPT_BYTES, Line, LineSplitter, OverlongLine
from tests.support.rpc_samples import cut

CAP = 8
# Few bytes, so that newlines, white space and runs of the cap's length are common.
texts = st.lists(st.sampled_from(b"ab \r\n\xc3\xa9"), max_size=60).map(bytes)


def all_lines(pieces: Sequence[bytes], *, cap: int = CAP) -> list[Line]:
    lines = LineSplitter(max_line_bytes=cap)
    return [line for piece in pieces for line in lines.feed(piece)] + lines.finish()


def expected(data: bytes) -> list[Line]:
    """Split lines in the simplest way, as the reference."""
    found: list[Line] = []
    for line in data.split(b"\n"):
        if len(line) > CAP:
            found.append(OverlongLine(line[:CAP]))
        elif line.strip():
            found.append(line.strip())
    return found


def test_a_line_is_returned_when_its_newline_arrives() -> None:
    lines = LineSplitter()

    assert lines.feed(b"on") == []
    assert lines.feed(b"e\ntwo\nth") == [b"one", b"two"]
    assert lines.feed(b"ree\n") == [b"three"]


def test_carriage_returns_and_empty_lines_are_dropped() -> None:
    assert all_lines([b"\r\none\r\n\n  \ntwo\r\n"]) == [b"one", b"two"]


def test_the_rest_after_the_last_newline_is_returned_at_the_end() -> None:
    lines = LineSplitter()

    assert lines.feed(b"one\ntwo") == [b"one"]
    assert lines.finish() == [b"two"]
    assert lines.finish() == []


def test_a_line_may_have_exactly_the_maximum_length() -> None:
    assert all_lines([b"12345678\n123456789\n"]) == [b"12345678", OverlongLine(b"12345678")]


def test_an_overlong_line_is_reported_once_and_the_next_is_whole() -> None:
    lines = LineSplitter(max_line_bytes=CAP)

    assert lines.feed(b"x" * 9) == [OverlongLine(b"x" * CAP)]
    assert lines.feed(b"x" * 100) == []
    assert lines.feed(b"x\nafter\n") == [b"after"]


@given(texts, st.lists(st.integers(min_value=0), max_size=10))
def test_the_lines_do_not_depend_on_the_chunks(data: bytes, places: list[int]) -> None:
    assert all_lines(cut(data, places)) == expected(data)


@given(texts)
def test_the_lines_do_not_depend_on_chunks_of_one_byte(data: bytes) -> None:
    assert all_lines([data[place : place + 1] for place in range(len(data))]) == expected(data)


@pytest.mark.parametrize("piece_bytes", [1, 7, 8192])
def test_a_flood_without_newlines_needs_memory_for_one_line_only(piece_bytes: int) -> None:
    cap, piece = 30_000, b"x" * piece_bytes
    lines = LineSplitter(max_line_bytes=cap)
    tracemalloc.start()

    found = [line for _ in range(5 * cap // piece_bytes + 2) for line in lines.feed(piece)]

    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert found == [OverlongLine(b"x" * KEPT_BYTES)]
    assert peak < 2 * cap + 3 * piece_bytes
