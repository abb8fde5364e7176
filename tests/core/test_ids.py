"""Ids that this program creates, and keys that callers choose."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisor.core.errors import InvalidKey, SessionNotFound
from supervisor.core.ids import SessionKey, parse_session_id

# Every text a caller can use for a part: any text but lone surrogates, which no store keeps.
PARTS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20)
KEYS = st.builds(SessionKey, PARTS, PARTS, PARTS, st.none() | PARTS)


@given(KEYS)
def test_a_printed_key_parses_to_the_same_key(key: SessionKey) -> None:
    assert SessionKey.parse(str(key)) == key


@given(st.text(max_size=30))
def test_a_parsed_key_prints_to_the_same_text(text: str) -> None:
    try:
        key = SessionKey.parse(text)
    except InvalidKey:
        return

    assert str(key) == text


def test_colons_and_percent_signs_inside_a_part_are_escaped() -> None:
    assert str(SessionKey("a:b", "50%", "c")) == "a%3Ab:50%25:c"


def test_a_key_may_have_a_thread() -> None:
    assert SessionKey.parse("coder:slack:ann:42") == SessionKey("coder", "slack", "ann", "42")


@pytest.mark.parametrize(
    "text",
    ["", "a", "a:b", "a:b:c:d:e", "::", "a::c", "a:b:", "a:b:c:", "a:b:%", "a:b:%3a", "a:b:%41"],
)
def test_an_invalid_key_is_refused_with_the_expected_form(text: str) -> None:
    with pytest.raises(InvalidKey) as refusal:
        SessionKey.parse(text)

    assert refusal.value.hint


@pytest.mark.parametrize("part", ["", None, 5, "\ud800", "fine until \udfff"])
def test_a_part_that_cannot_be_stored_is_refused(part: str) -> None:
    with pytest.raises(InvalidKey):
        SessionKey("agent", part, "peer")


@pytest.mark.parametrize("text", ["abc", "s_01", "a" * 64])
def test_a_valid_session_id_is_returned(text: str) -> None:
    assert parse_session_id(text) == text


@pytest.mark.parametrize(
    "text", ["", "ab", "a" * 65, "ABC", "a-b", "../etc", "abc\n", "ab\u0663", None, 123]
)
def test_an_invalid_id_is_not_found(text: str) -> None:
    with pytest.raises(SessionNotFound):
        parse_session_id(text)


def test_a_key_equals_and_hashes_like_its_text() -> None:
    key = SessionKey("a:1", "b", "c", "d")

    assert key == "a%3A1:b:c:d"
    assert {"a%3A1:b:c:d": 1}[key] == 1  # type: ignore[index]
    assert key != SessionKey("a:1", "b", "c")
    assert key != ("a:1", "b", "c", "d")
