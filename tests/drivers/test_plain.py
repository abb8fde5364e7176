"""Whatever an agent hands in, what comes out can be stored: see drivers/plain.py."""

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

from supervisor.drivers.plain import MAX_DEPTH, MAX_ITEMS, plain, plain_text

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
def test_whatever_goes_in_can_be_encoded_and_comes_back_the_same(value: object) -> None:
    made = plain(value)

    assert orjson.loads(orjson.dumps(made)) == made


@given(values)
def test_what_is_plain_already_stays_as_it_is(value: object) -> None:
    made = plain(value)

    assert plain(made) == made


@given(as_json)
def test_what_json_can_say_goes_through_unchanged(value: object) -> None:
    assert plain(value) == value


# Text ------------------------------------------------------------------------------------


@given(any_text)
def test_any_text_can_be_encoded_and_is_not_longer_than_it_was(text: str) -> None:
    assert len(plain_text(text)) <= len(text)
    assert plain_text(text).encode().decode() == plain_text(text)


@given(whole_text)
def test_text_of_whole_characters_is_left_alone(text: str) -> None:
    assert plain_text(text) == text


@given(whole_text, st.characters(categories=["Cs"]), whole_text)
def test_half_a_character_is_marked_and_its_neighbours_stay(
    before: str, half: str, after: str
) -> None:
    assert plain_text(before + half + after) == f"{before}\ufffd{after}"


def test_two_halves_that_belong_together_are_one_character() -> None:
    assert plain_text("\ud83d\ude00") == "\N{GRINNING FACE}"


def test_two_halves_in_the_wrong_order_are_two_marks() -> None:
    assert plain_text("\ude00\ud83d") == "\ufffd\ufffd"


# Numbers ---------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [2**63 - 1, -(2**63), 0, 1.5, -0.0, 5e-324])
def test_a_number_that_can_be_stored_is_one(number: float) -> None:
    assert plain(number) == number
    assert type(plain(number)) is type(number)


@pytest.mark.parametrize("number", [2**63, -(2**63) - 1, 2**64, math.inf, -math.inf, math.nan])
def test_a_number_that_cannot_be_stored_is_shown(number: float) -> None:
    assert plain(number) == str(number)


def test_a_number_too_large_to_be_printed_is_still_shown_as_something() -> None:
    assert isinstance(plain(10**5000), str)


def test_a_word_of_an_enum_is_its_value() -> None:
    class Colour(enum.StrEnum):
        RED = "red"

    class Size(enum.IntEnum):
        SMALL = 1

    assert orjson.dumps(plain([Colour.RED, Size.SMALL])) == b'["red",1]'


# Containers ------------------------------------------------------------------------------


def test_containers_of_all_kinds_become_lists_and_dicts() -> None:
    value = OrderedDict(a=(1, 2), b=frozenset({3}), c=deque([4]), d=range(2), e={5: None})

    assert plain(value) == {"a": [1, 2], "b": [3], "c": [4], "d": [0, 1], "e": {"5": None}}


@pytest.mark.parametrize("value", [b"bytes", bytearray(b"bytes"), memoryview(b"bytes")])
def test_bytes_are_shown_and_not_counted_out(value: object) -> None:
    assert isinstance(plain(value), str)


def test_what_is_nested_too_deep_is_cut() -> None:
    value: list[Any] = []
    for _ in range(100_000):
        value = [value]

    assert depth_of(plain(value)) == MAX_DEPTH


def test_what_contains_itself_is_cut() -> None:
    value: dict[str, Any] = {}
    value["me"] = value

    assert depth_of(plain(value)) == MAX_DEPTH


def test_a_long_list_is_cut() -> None:
    assert plain(list(range(MAX_ITEMS + 1))) == list(range(MAX_ITEMS))


def test_a_large_mapping_is_cut() -> None:
    made = plain(dict.fromkeys(range(MAX_ITEMS + 1)))

    assert isinstance(made, dict)
    assert len(made) == MAX_ITEMS


class TooMuch(BaseException):
    """Somebody was asked for more than anybody needs. No Exception, so that nobody catches it."""


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
def test_no_more_is_read_of_what_never_ends_than_is_kept(endless: Any) -> None:
    made = plain(endless)

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
def test_what_branches_at_every_level_is_bounded_as_a_whole(kind: type) -> None:
    value: object = Leaf()
    for _ in range(20):  # a million leaves, of twenty objects
        value = [value, value] if kind is list else {"a": value, "b": value}

    assert len(orjson.dumps(plain(value))) < 100 * ENOUGH


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
def test_an_object_that_will_not_be_looked_at_is_shown_as_something(value: object) -> None:
    orjson.dumps(plain(value))
