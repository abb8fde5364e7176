"""JSON into typed things: strictly, with the path of everything that is wrong."""

from __future__ import annotations

import types
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisor import Info, Limits, Page, Permissions, Phase, Record, SessionId, SessionKey
from supervisor.decode import (
    MAX_INVALID_FIELDS,
    DecodeError,
    InvalidField,
    Partial,
    decode,
    decode_light,
)

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inside: st.lists(inside, max_size=3) | st.dictionaries(st.text(max_size=5), inside),
    max_leaves=10,
)


@attrs.frozen(kw_only=True)
class Bag:
    name: str
    count: int = 1
    tags: tuple[str, ...] = ()
    limits: Limits | None = None


def faults(kind: Any, value: object) -> dict[str, InvalidField]:  # noqa: ANN401 - any annotation
    with pytest.raises(DecodeError) as raised:
        decode(kind, value)
    return {fault.path: fault for fault in raised.value.invalid_fields}


@pytest.mark.parametrize(
    ("kind", "value", "made"),
    [
        (str, "a", "a"),
        (SessionId, "a", "a"),
        (int, 5, 5),
        (float, 5, 5.0),
        (bool, True, True),
        (Any, {"a": [None]}, {"a": [None]}),
        (Literal["a", "b"], "b", "b"),
        (Phase, "idle", Phase.IDLE),
        (str | None, None, None),
        (tuple[str, ...], ["a"], ("a",)),
        (Sequence[str], ["a"], ("a",)),
        (list[int], [1], [1]),
        (frozenset[str], ["a", "a"], frozenset("a")),
        (Mapping[str, int], {"a": 1}, {"a": 1}),
        (SessionKey | str, "a:b:c", "a:b:c"),
        (SessionKey | str, {"agent": "a", "channel": "b", "peer": "c"}, SessionKey("a", "b", "c")),
        (Limits, {"turns": 3}, Limits(turns=3)),
        (Permissions | None, {"tools": ["a"]}, Permissions(tools=frozenset("a"))),
        (Partial[Limits], {"turns": 3}, {"turns": 3}),
        (Page[Bag], {"items": [{"name": "a"}], "next": None}, Page((Bag(name="a"),), None)),
    ],
)
def test_a_valid_value_is_decoded(kind: Any, value: object, made: object) -> None:  # noqa: ANN401
    found = decode(kind, value)

    assert found == made
    assert type(found) is type(made)


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (str, 5),
        (str, None),
        (int, "5"),
        (int, 1.0),
        (int, True),
        (int, 2**63),
        (float, "1"),
        (bool, 1),
        (Literal["a", "b"], "c"),
        (Phase, "asleep"),
        (tuple[str, ...], "abc"),
        (frozenset[str], {"a": 1}),
        (Mapping[str, int], [["a", 1]]),
        (types.NoneType, 0),
        (Limits, {"turns": -1}),
        (Limits, []),
    ],
)
def test_a_value_of_another_type_is_refused(kind: Any, value: object) -> None:  # noqa: ANN401
    assert len(faults(kind, value)) == 1


def test_every_fault_has_its_path() -> None:
    found = faults(Bag, {"count": "3", "tags": ["a", 5], "limits": {"turns": 1.5}, "colour": 1})

    assert set(found) == {"$.count", "$.tags[1]", "$.limits.turns", "$.colour", "$.name"}
    assert found["$.name"].detail == "required field missing"


def test_an_unknown_field_gets_the_closest_name_as_hint() -> None:
    assert faults(Bag, {"name": "a", "cuont": 1})["$.cuont"].hint == "did you mean count?"


def test_a_field_that_its_class_refuses_has_its_own_path() -> None:
    found = faults(Bag, {"name": "a", "limits": {"turns": -1, "tokens": -1, "max_depth": 1}})

    assert set(found) == {"$.limits.turns", "$.limits.tokens"}


def test_a_partial_class_checks_its_fields() -> None:
    assert set(faults(Partial[Limits], {"turns": -1})) == {"$.turns"}
    assert set(faults(Partial[Limits], {"turn": 1})) == {"$.turn"}


def test_an_odd_field_name_is_shortened_and_escaped() -> None:
    (path,) = faults(Bag, {"name": "a", "\x1b[2J" + "x" * 1000: 1})

    assert path.isprintable()
    assert len(path) < 80


def test_the_number_of_faults_is_bounded() -> None:
    assert len(faults(Bag, {f"x{number}": 1 for number in range(1_000)})) == MAX_INVALID_FIELDS


def test_the_light_decoder_ignores_unknown_fields() -> None:
    assert decode_light(Bag, {"name": "a", "colour": "red"}) == Bag(name="a")


@pytest.mark.parametrize(
    ("kind", "value"),
    [(int, 2**63), (float, 10**400), (int, True), (float, "1"), (Literal["a"], "b"), (str, 5)],
)
def test_both_decoders_refuse_a_value_with_the_same_words(kind: Any, value: object) -> None:  # noqa: ANN401
    with pytest.raises(DecodeError) as raised:
        decode_light(kind, value)

    assert raised.value.invalid_fields == tuple(faults(kind, value).values())


def test_a_word_that_is_not_a_choice_gets_the_closest_choice_as_hint() -> None:
    hint = faults(Literal["approve_all", "deny_all"], "approve_al")["$"].hint

    assert hint == "did you mean approve_all? choose one of approve_all, deny_all"


@pytest.mark.parametrize("kind", [Bag, Limits, Permissions | None, Record, Info, Page[Bag]])
@given(value=JSON)
def test_any_json_is_decoded_or_has_faults(kind: Any, value: object) -> None:  # noqa: ANN401
    found: tuple[InvalidField, ...] = ()
    try:
        decode(kind, value)
    except DecodeError as error:
        found = error.invalid_fields

    assert len(found) <= MAX_INVALID_FIELDS
    assert all(fault.path.startswith("$") and fault.hint for fault in found)
