"""Text for terminals: no control sequences, independent of chunks."""

import re

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisor.cli.output import json_text
from supervisor.cli.safe import MAX_SEQUENCE, SafeStream, escaped_json, safe, without_breaks

OBEYED = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)
PIECES = st.sampled_from(
    [
        *"\x1b[]PX^_\\mHc;0?/ \x07\x9b\x9c\x9d\x90\r\n\tab\u202e\u2028\ud800\ufeff",
        "\x1b]52;c;aGk=\x07",
        "\x1b]8;;http://x\x1b\\",
        "\x1b[31m",
        "text",
    ]
)
HOSTILE = st.lists(PIECES | st.text(max_size=5), max_size=30).map("".join)


@given(HOSTILE)
def test_safe_removes_control_sequences(text: str) -> None:
    assert OBEYED.search(safe(text)) is None
    assert OBEYED.search(without_breaks(text)) is None
    assert not {"\n", "\t"} & set(without_breaks(text))


@given(HOSTILE)
def test_safe_is_idempotent(text: str) -> None:
    assert safe(safe(text)) == safe(text)


@given(st.text(st.characters(exclude_categories=["C", "Z"])))
def test_ordinary_text_is_unchanged(text: str) -> None:
    assert safe(text) == text


@given(st.lists(HOSTILE, max_size=6))
def test_text_in_chunks_is_shown_like_the_whole_text(pieces: list[str]) -> None:
    stream = SafeStream()

    shown = "".join(map(stream.feed, pieces)) + stream.finish()

    assert shown == safe("".join(pieces))


@given(HOSTILE)
def test_a_stream_of_single_letters_shows_the_same(text: str) -> None:
    stream = SafeStream()

    assert "".join(map(stream.feed, text)) + stream.finish() == safe(text)


def test_a_stream_holds_back_only_incomplete_sequences() -> None:
    assert SafeStream().feed("word by ") == "word by "


@pytest.mark.parametrize("ending", ["\n", ""])
def test_an_unterminated_sequence_hides_nothing(ending: str) -> None:
    stream = SafeStream()

    shown = stream.feed(f"\x1b]0;{'x' * 10}{ending}") + stream.finish()

    assert shown == f"0;{'x' * 10}{ending}"


def test_a_sequence_that_is_too_long_is_printed() -> None:
    stream = SafeStream()

    shown = "".join(stream.feed("x" * 100) for _ in [stream.feed("\x1b]52;c;"), *range(100)][1:])

    assert len(shown) > MAX_SEQUENCE
    assert len(stream._incomplete) <= MAX_SEQUENCE


@given(st.recursive(HOSTILE | st.integers() | st.floats(), st.lists, max_leaves=5))
def test_safe_json_has_no_control_characters(value: object) -> None:
    text = json_text({"value": value})

    assert OBEYED.search(text) is None
    assert "\n" not in text


@given(st.text())
def test_safe_json_has_the_same_value(text: str) -> None:
    assert orjson.loads(escaped_json(orjson.dumps(text).decode())) == text
