"""Content blocks as stored data; see acp/content.py."""

from __future__ import annotations

from typing import Any

import orjson
from hypothesis import given
from hypothesis import strategies as st

from supervisor.drivers.acp.content import bounded_data, content_data, content_text, truncate
from tests.support.acp_updates import block

any_text = st.text(st.characters(exclude_categories=["Cs"]))
any_json: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-100, 100) | any_text,
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(any_text, inner, max_size=5),
    max_leaves=30,
)


def test_a_short_text_is_not_truncated() -> None:
    assert truncate("é" * 5, 10) == "é" * 5


def test_a_text_is_truncated_between_characters() -> None:
    assert truncate("é" * 6, 11) == "ééééé... (cut: 12 bytes in all)"


@given(any_text, st.integers(0, 50))
def test_a_truncated_text_keeps_its_beginning(text: str, most: int) -> None:
    kept = truncate(text, most).partition("... (cut: ")[0] if len(text.encode()) > most else text

    assert text.startswith(kept)
    assert len(text.encode()) <= most or len(kept.encode()) <= most


@given(any_json, st.integers(0, 2000))
def test_bounded_data_is_not_much_larger_than_the_bound(value: object, most: int) -> None:
    assert len(orjson.dumps(bounded_data(value, most))) <= 10 * most + 500


@given(any_json)
def test_small_data_is_unchanged(value: object) -> None:
    assert bounded_data(value, 1_000_000) == value


def test_a_cut_list_notes_its_length() -> None:
    made = bounded_data(["x"] * 1000, 100)

    assert made[-1] == "... (cut: 1000 items in all)"
    assert len(made) < 20


def test_a_cut_object_notes_its_number_of_fields() -> None:
    made = bounded_data({str(number): number for number in range(1000)}, 100)

    assert made["..."] == "(cut: 1000 fields in all)"


def test_a_large_field_keeps_its_name() -> None:
    assert list(bounded_data({"text": "x" * 1000}, 100)) == ["text"]


def test_tool_call_content_that_is_plain_text_is_unchanged() -> None:
    assert content_data(["hi", None, 3]) == ["hi", "", ""]


def test_meta_fields_of_content_are_left_out() -> None:
    assert content_data([{"type": "x", "_meta": {"a": 1}}]) == [{"type": "x"}]


def test_the_bytes_of_an_embedded_file_are_replaced_by_their_size() -> None:
    resource = {"type": "resource", "resource": {"uri": "file:///a", "blob": "AAAA"}}

    assert content_data([{"type": "content", "content": resource}]) == [
        {"type": "resource", "resource": {"uri": "file:///a", "blob": "<3 bytes>"}}
    ]


def test_nested_lists_of_blocks_are_not_followed() -> None:
    deep: Any = "end"
    for _ in range(100_000):
        deep = [deep]

    assert content_text([deep, "x"]) == "x"


def test_text_content_is_shown_by_its_kind() -> None:
    assert content_data([block("hi")]) == [{"type": "text", "text": "hi"}]
