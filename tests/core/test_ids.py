"""Ids that we make, keys that callers choose."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisor.core.errors import InvalidKey, SessionNotFound
from supervisor.core.ids import SessionKey, as_key, session_id

# Everything a caller can put into a part: any text but half characters, which no store takes.
PARTS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20)
KEYS = st.builds(SessionKey, PARTS, PARTS, PARTS, st.none() | PARTS)


@given(KEYS)
def test_what_was_printed_parses_to_the_same_key(key: SessionKey) -> None:
    assert SessionKey.parse(str(key)) == key


@given(st.text(max_size=30))
def test_what_parses_prints_to_the_same_text(text: str) -> None:
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
def test_a_text_that_is_no_key_is_refused_with_the_form_it_should_have(text: str) -> None:
    with pytest.raises(InvalidKey) as refusal:
        SessionKey.parse(text)

    assert refusal.value.hint


@pytest.mark.parametrize("part", ["", None, 5, "\ud800", "fine until \udfff"])
def test_a_part_that_cannot_be_stored_is_refused(part: str) -> None:
    with pytest.raises(InvalidKey):
        SessionKey("agent", part, "peer")


def test_wherever_a_key_is_taken_its_text_is_too() -> None:
    assert as_key("a:b:c") == as_key(SessionKey("a", "b", "c"))


@pytest.mark.parametrize("text", ["abc", "s_01", "a" * 64])
def test_a_session_id_is_taken_as_it_is(text: str) -> None:
    assert session_id(text) == text


@pytest.mark.parametrize(
    "text", ["", "ab", "a" * 65, "ABC", "a-b", "../etc", "abc\n", "ab\u0663", None, 123]
)
def test_what_cannot_be_an_id_cannot_be_found(text: str) -> None:
    with pytest.raises(SessionNotFound):
        session_id(text)


def test_a_key_equals_its_text_form_and_finds_it() -> None:
    key = SessionKey("a:1", "b", "c", "d")

    assert key == "a%3A1:b:c:d"
    assert {"a%3A1:b:c:d": 1}[key] == 1  # type: ignore[index]
    assert key != SessionKey("a:1", "b", "c")
    assert key != ("a:1", "b", "c", "d")
