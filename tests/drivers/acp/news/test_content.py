"""Content as it can be kept; see acp/news/content.py."""

from __future__ import annotations

from typing import Any

import orjson
from hypothesis import given
from hypothesis import strategies as st

from supervisor.drivers.acp.news.content import bounded, cut, shown_content, text_of
from tests.drivers.acp.news.saying import block

any_text = st.text(st.characters(exclude_categories=["Cs"]))
any_json: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-100, 100) | any_text,
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(any_text, inner, max_size=5),
    max_leaves=30,
)


def test_a_text_that_is_short_enough_is_left_alone() -> None:
    assert cut("é" * 5, 10) == "é" * 5


def test_a_text_is_cut_between_characters() -> None:
    assert cut("é" * 6, 11) == "ééééé... (cut: 12 bytes in all)"


@given(any_text, st.integers(0, 50))
def test_what_is_kept_of_a_text_is_its_beginning(text: str, most: int) -> None:
    kept = cut(text, most).partition("... (cut: ")[0] if len(text.encode()) > most else text

    assert text.startswith(kept)
    assert len(text.encode()) <= most or len(kept.encode()) <= most


@given(any_json, st.integers(0, 2000))
def test_bounded_data_is_not_much_larger_than_the_bound(value: object, most: int) -> None:
    assert len(orjson.dumps(bounded(value, most))) <= 10 * most + 500


@given(any_json)
def test_data_that_is_small_enough_stays_as_it_is(value: object) -> None:
    assert bounded(value, 1_000_000) == value


def test_a_long_list_says_how_long_it_was() -> None:
    made = bounded(["x"] * 1000, 100)

    assert made[-1] == "... (cut: 1000 items in all)"
    assert len(made) < 20


def test_an_object_with_many_fields_says_how_many() -> None:
    made = bounded({str(number): number for number in range(1000)}, 100)

    assert made["..."] == "(cut: 1000 fields in all)"


def test_what_is_large_keeps_its_name() -> None:
    assert list(bounded({"text": "x" * 1000}, 100)) == ["text"]


def test_content_of_a_tool_call_that_is_a_lone_text_is_shown_as_it_is() -> None:
    assert shown_content(["hi", None, 3]) == ["hi", "", ""]


def test_what_agents_hide_beside_content_is_left_out() -> None:
    assert shown_content([{"type": "x", "_meta": {"a": 1}}]) == [{"type": "x"}]


def test_the_bytes_of_an_embedded_file_are_measured() -> None:
    resource = {"type": "resource", "resource": {"uri": "file:///a", "blob": "AAAA"}}

    assert shown_content([{"type": "content", "content": resource}]) == [
        {"type": "resource", "resource": {"uri": "file:///a", "blob": "<3 bytes>"}}
    ]


def test_blocks_inside_of_lists_of_blocks_are_not_followed() -> None:
    deep: Any = "end"
    for _ in range(100_000):
        deep = [deep]

    assert text_of([deep, "x"]) == "x"


def test_text_content_is_shown_by_its_kind() -> None:
    assert shown_content([block("hi")]) == [{"type": "text", "text": "hi"}]
