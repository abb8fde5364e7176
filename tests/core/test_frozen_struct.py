"""Structs: frozen, copied with changes, and known to attrs where rows contain them."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import attrs
import pytest

from supervisor.core.ids import InputId, TurnId
from supervisor.core.state import NO_USAGE, OpenTurn, PendingInput

WAITING = PendingInput(InputId("i1"), 1, "go", "queue", "user", 2.0, 0)
TURN = OpenTurn(id=TurnId("t1"), input_id=InputId("i1"), source="user", started_at=2.0)


@pytest.mark.parametrize("value", [WAITING, TURN], ids=["input", "turn"])
def test_a_struct_is_frozen_and_equal_to_its_copies(value: PendingInput | OpenTurn) -> None:
    with pytest.raises(AttributeError):
        value.id = "other"  # type: ignore[misc,assignment] # what is tested

    pickled = pickle.loads(pickle.dumps(value))  # noqa: S301 - our own data
    assert copy.copy(value) == copy.deepcopy(value) == pickled == value
    assert hash(value.changed()) == hash(value)
    assert value.changed(id="other") != value


def test_attrs_knows_the_fields_and_the_defaults_of_a_struct() -> None:
    fields = {field.name: field.default for field in attrs.fields(OpenTurn)}  # type: ignore[arg-type] # mypy knows the struct

    assert tuple(fields) == OpenTurn.__struct_fields__
    assert fields["started_at"] is attrs.NOTHING
    assert (fields["usage"], fields["calls"], fields["step"]) == (NO_USAGE, (), None)


def test_attrs_copies_a_struct_with_changes() -> None:
    changed: Any = attrs.evolve(WAITING, text="stop")  # type: ignore[misc] # as above

    assert changed == WAITING.changed(text="stop")
