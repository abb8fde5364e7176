"""Rights: six sets and a mode, never wider below than above."""

from contextlib import suppress
from itertools import pairwise
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisor.core.errors import ConfigError, SpawnRefused
from supervisor.core.permissions import (
    MODES,
    RIGHTS,
    Mode,
    Permissions,
    Right,
    answer_by_mode,
    narrow_to_parent,
    root_permissions,
)

NAMES = ["bash", "edit", "read", "web"]
SETS = st.none() | st.frozensets(st.sampled_from(NAMES))
MAYBE_MODES = st.none() | st.sampled_from(MODES)
PERMISSIONS = st.builds(Permissions, mode=MAYBE_MODES, **dict.fromkeys(RIGHTS, SETS))


def only(right: Right, names: object) -> Permissions:
    asked: dict[str, Any] = {right: names}
    return Permissions(**asked)


@given(PERMISSIONS, st.lists(PERMISSIONS, max_size=4))
def test_no_descendant_has_more_rights_than_an_ancestor(
    root: Permissions, below: list[Permissions]
) -> None:
    chain = [root_permissions(root)]
    for asked in below:
        with suppress(SpawnRefused):
            chain.append(narrow_to_parent(chain[-1], asked))

    for parent, child in pairwise(chain):
        assert parent.mode is not None
        assert child.mode is not None
        assert MODES.index(child.mode) <= MODES.index(parent.mode)
        for right in RIGHTS:
            for name in [*NAMES, "never heard of"]:
                assert parent.allows(right, name) or not child.allows(right, name)


@given(PERMISSIONS)
def test_empty_permissions_are_the_parents(parent: Permissions) -> None:
    parent = root_permissions(parent)

    assert narrow_to_parent(parent, Permissions()) == parent
    assert narrow_to_parent(parent, parent) == parent


@pytest.mark.parametrize("right", RIGHTS)
def test_at_a_root_no_list_allows_all_and_an_empty_list_none(right: Right) -> None:
    assert Permissions().allows(right, "anything")
    assert not only(right, []).allows(right, "anything")


@pytest.mark.parametrize("right", RIGHTS)
def test_rights_beyond_the_parents_are_refused_by_name(right: Right) -> None:
    parent = only(right, ["a"])

    with pytest.raises(SpawnRefused, match=f"{right}: b") as refusal:
        narrow_to_parent(parent, only(right, ["a", "b"]))

    assert refusal.value.limit == "permissions"


def test_a_wider_mode_than_the_parents_is_refused() -> None:
    with pytest.raises(SpawnRefused, match="approve_all is wider"):
        narrow_to_parent(Permissions(), Permissions(mode="approve_all"))


@pytest.mark.parametrize("right", RIGHTS)
@pytest.mark.parametrize("names", [[""], ["  "], [None], "bash", 5])
def test_a_blank_name_is_refused_naming_the_set(right: Right, names: object) -> None:
    with pytest.raises(ConfigError, match=right):
        only(right, names)


def test_an_unknown_mode_is_refused() -> None:
    with pytest.raises(ConfigError, match="mode"):
        Permissions(mode="yolo")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("mode", "kind", "inside", "verdict"),
    [
        ("approve_reads", "read", "inside", "allow"),
        ("approve_reads", "search", "inside", "allow"),
        ("approve_reads", "read", "outside", "ask"),
        ("approve_reads", "edit", "inside", "ask"),
        ("approve_reads", None, "inside", "ask"),
        ("deny_all", "read", "inside", "reject"),
        ("approve_all", None, "outside", "allow"),
    ],
)
def test_the_mode_decides_requests(mode: Mode, kind: str | None, inside: str, verdict: str) -> None:
    assert answer_by_mode(mode, kind, inside_workspace=inside == "inside") == verdict


def test_rights_lists_every_set_of_permissions() -> None:
    fields = [field.name for field in attrs.fields(Permissions)]

    assert fields == [*RIGHTS, "mode"]
