"""Data and text of any agent can be stored after core/text.py."""
# ruff: noqa: ANN401 - rubbish has every type

from __future__ import annotations

import enum
import math
from collections import OrderedDict, deque
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisor.core.text import MAX_DEPTH, MAX_ITEMS, plain_data, plain_text

ENOUGH = 10 * MAX_ITEMS

any_text = st.text(st.characters())  # halves of characters too
whole_text = st.text(st.characters(exclude_categories=["Cs"]))
scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(-(2**70), 2**70)
    | st.floats()
    | any_text
    | st.binary()
    | st.complex_numbers()
    | st.dates()
    | st.builds(object)
)
keys = any_text | st.integers() | st.none() | st.tuples(st.integers(), any_text)
values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.tuples(inner, inner)
        | st.dictionaries(keys, inner, max_size=4)
        | st.frozensets(st.integers() | any_text, max_size=4)
        | st.lists(inner, max_size=4).map(deque)
    ),
    max_leaves=12,
)
as_json = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | whole_text,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(whole_text, inner, max_size=4),
    max_leaves=12,
)


def depth_of(value: object) -> int:
    if isinstance(value, dict):
        return 1 + max(map(depth_of, value.values()), default=0)
    if isinstance(value, list):
        return 1 + max(map(depth_of, value), default=0)
    return 0


# For any value ---------------------------------------------------------------------------


@given(values)
def test_plain_data_of_anything_can_be_encoded_and_decoded(value: object) -> None:
    made = plain_data(value)

    assert orjson.loads(orjson.dumps(made)) == made


@given(values)
def test_plain_data_is_returned_unchanged(value: object) -> None:
    made = plain_data(value)

    assert plain_data(made) == made


@given(as_json)
def test_json_values_are_returned_unchanged(value: object) -> None:
    assert plain_data(value) == value


# Text ------------------------------------------------------------------------------------


@given(any_text)
def test_any_text_can_be_encoded_and_is_not_longer_than_it_was(text: str) -> None:
    assert len(plain_text(text)) <= len(text)
    assert plain_text(text).encode().decode() == plain_text(text)


@given(whole_text)
def test_valid_text_is_returned_unchanged(text: str) -> None:
    assert plain_text(text) == text


@given(whole_text, st.characters(categories=["Cs"]), whole_text)
def test_a_lone_surrogate_is_replaced_and_its_neighbours_stay(
    before: str, half: str, after: str
) -> None:
    assert plain_text(before + half + after) == f"{before}\ufffd{after}"


def test_a_surrogate_pair_becomes_one_character() -> None:
    assert plain_text("\ud83d\ude00") == "\N{GRINNING FACE}"


def test_surrogates_in_the_wrong_order_are_both_replaced() -> None:
    assert plain_text("\ude00\ud83d") == "\ufffd\ufffd"


# Numbers ---------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [2**63 - 1, -(2**63), 0, 1.5, -0.0, 5e-324])
def test_a_number_that_can_be_stored_is_unchanged(number: float) -> None:
    assert plain_data(number) == number
    assert type(plain_data(number)) is type(number)


@pytest.mark.parametrize("number", [2**63, -(2**63) - 1, 2**64, math.inf, -math.inf, math.nan])
def test_a_number_that_cannot_be_stored_becomes_text(number: float) -> None:
    assert plain_data(number) == str(number)


def test_a_number_too_large_to_print_still_becomes_text() -> None:
    assert isinstance(plain_data(10**5000), str)


def test_an_enum_member_becomes_its_value() -> None:
    class Colour(enum.StrEnum):
        RED = "red"

    class Size(enum.IntEnum):
        SMALL = 1

    assert orjson.dumps(plain_data([Colour.RED, Size.SMALL])) == b'["red",1]'


# Containers ------------------------------------------------------------------------------


def test_containers_of_all_kinds_become_lists_and_dicts() -> None:
    value = OrderedDict(a=(1, 2), b=frozenset({3}), c=deque([4]), d=range(2), e={5: None})

    assert plain_data(value) == {"a": [1, 2], "b": [3], "c": [4], "d": [0, 1], "e": {"5": None}}


@pytest.mark.parametrize("value", [b"bytes", bytearray(b"bytes"), memoryview(b"bytes")])
def test_bytes_become_text_and_not_a_list(value: object) -> None:
    assert isinstance(plain_data(value), str)


def test_deeply_nested_data_is_cut() -> None:
    value: list[Any] = []
    for _ in range(100_000):
        value = [value]

    assert depth_of(plain_data(value)) == MAX_DEPTH


def test_recursive_data_is_cut() -> None:
    value: dict[str, Any] = {}
    value["me"] = value

    assert depth_of(plain_data(value)) == MAX_DEPTH


def test_a_long_list_is_cut() -> None:
    assert plain_data(list(range(MAX_ITEMS + 1))) == list(range(MAX_ITEMS))


def test_a_large_mapping_is_cut() -> None:
    made = plain_data(dict.fromkeys(range(MAX_ITEMS + 1)))

    assert isinstance(made, dict)
    assert len(made) == MAX_ITEMS


class TooMuch(BaseException):
    """Raised when too much is read; not an Exception, so that it is not caught."""


class Endless(Sequence[int]):
    """As `range(10**15)`, but it says when it is read to the end."""

    def __len__(self) -> int:
        return 10**15

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return [0] * len(range(*index.indices(len(self))))
        if index > ENOUGH:
            raise TooMuch
        return 0


class EndlessMapping(Mapping[str, int]):
    def __len__(self) -> int:
        return 10**15

    def __iter__(self) -> Iterator[str]:
        for number in range(ENOUGH):
            yield str(number)
        raise TooMuch

    def __getitem__(self, key: str) -> int:
        return 0


@pytest.mark.parametrize("endless", [Endless(), EndlessMapping()], ids=["sequence", "mapping"])
def test_an_endless_iterable_is_read_only_as_far_as_kept(endless: Any) -> None:
    made = plain_data(endless)

    assert isinstance(made, list | dict)
    assert len(made) <= MAX_ITEMS


class Leaf:
    """Counts how often leaves are looked at."""

    def __init__(self) -> None:
        self.seen = 0

    def __repr__(self) -> str:
        self.seen += 1
        if self.seen > ENOUGH:
            raise TooMuch
        return "leaf"


@pytest.mark.parametrize("kind", [list, dict])
def test_data_that_branches_at_every_level_is_bounded(kind: type) -> None:
    value: object = Leaf()
    for _ in range(20):  # a million leaves, of twenty objects
        value = [value, value] if kind is list else {"a": value, "b": value}

    assert len(orjson.dumps(plain_data(value))) < 100 * ENOUGH


# Objects that will not be looked at -----------------------------------------------------------


class Shy:
    def __repr__(self) -> str:
        raise ValueError("no")


class Rude:
    def __repr__(self) -> str:
        return 7  # type: ignore[return-value] # that is what is rude


class HalfSpoken:
    def __repr__(self) -> str:
        return "\ud800"


class ShyText(str):
    __slots__ = ()

    def __str__(self) -> str:
        raise ValueError("no")


class ShyKey:
    def __str__(self) -> str:
        raise ValueError("no")


class ShyList(list[int]):
    def __iter__(self) -> Iterator[int]:
        raise ValueError("no")


class ShyMapping(dict[str, int]):
    def items(self) -> Any:
        raise ValueError("no")


@pytest.mark.parametrize(
    "value",
    [Shy(), Rude(), HalfSpoken(), ShyText("text"), {ShyKey(): 1}, ShyList([1]), ShyMapping(a=1)],
    ids=lambda value: type(value).__name__,
)
def test_an_object_that_raises_on_inspection_still_becomes_text(value: object) -> None:
    orjson.dumps(plain_data(value))
