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
from supervisor.api.wire.kinds import Partial
from supervisor.api.wire.reading import MAX_FAULTS, Fault, Unreadable, decode, read

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


def faults(kind: Any, value: object) -> dict[str, Fault]:  # noqa: ANN401 - any annotation
    with pytest.raises(Unreadable) as raised:
        read(kind, value)
    return {fault.path: fault for fault in raised.value.faults}


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
def test_what_is_right_is_read(kind: Any, value: object, made: object) -> None:  # noqa: ANN401
    found = read(kind, value)

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
def test_nothing_is_bent_into_shape(kind: Any, value: object) -> None:  # noqa: ANN401
    assert len(faults(kind, value)) == 1


def test_every_fault_is_told_with_its_path() -> None:
    found = faults(Bag, {"count": "3", "tags": ["a", 5], "limits": {"turns": 1.5}, "colour": 1})

    assert set(found) == {"$.count", "$.tags[1]", "$.limits.turns", "$.colour", "$.name"}
    assert found["$.name"].detail == "is missing"


def test_an_unknown_name_is_answered_with_the_one_that_was_probably_meant() -> None:
    assert faults(Bag, {"name": "a", "cuont": 1})["$.cuont"].hint == "did you mean count?"


def test_a_number_that_a_class_refuses_is_told_by_its_own_path() -> None:
    found = faults(Bag, {"name": "a", "limits": {"turns": -1, "tokens": -1, "max_depth": 1}})

    assert set(found) == {"$.limits.turns", "$.limits.tokens"}


def test_some_fields_are_checked_as_all_would_be() -> None:
    assert set(faults(Partial[Limits], {"turns": -1})) == {"$.turns"}
    assert set(faults(Partial[Limits], {"turn": 1})) == {"$.turn"}


def test_a_name_that_is_no_name_is_shown_short_and_without_its_control_characters() -> None:
    (path,) = faults(Bag, {"name": "a", "\x1b[2J" + "x" * 1000: 1})

    assert path.isprintable()
    assert len(path) < 80


def test_so_many_faults_are_told_and_no_more() -> None:
    assert len(faults(Bag, {f"x{number}": 1 for number in range(1_000)})) == MAX_FAULTS


def test_a_client_leaves_out_what_a_newer_server_adds() -> None:
    assert decode(Bag, {"name": "a", "colour": "red"}) == Bag(name="a")


@pytest.mark.parametrize("kind", [Bag, Limits, Permissions | None, Record, Info, Page[Bag]])
@given(value=JSON)
def test_whatever_there_is_gives_a_thing_or_faults(kind: Any, value: object) -> None:  # noqa: ANN401
    found: tuple[Fault, ...] = ()
    try:
        read(kind, value)
    except Unreadable as error:
        found = error.faults

    assert len(found) <= MAX_FAULTS
    assert all(fault.path.startswith("$") and fault.hint for fault in found)
