"""The base class of frozen values that every turn creates anew: events, effects, writes.

msgspec creates such a value in C: an event of ten fields takes 1,800 instructions, where a frozen
attrs class takes 9,600; see decision 94. Values that short commands import stay attrs classes,
because msgspec takes 20 ms to import.
"""

from __future__ import annotations

from typing import Any, Self, TypeVar, dataclass_transform

import attrs
import msgspec


@dataclass_transform(frozen_default=True)
class FrozenStruct(msgspec.Struct, frozen=True):
    """A frozen value: equal if its class and all its fields are. Types are not checked."""

    def changed(self, **changes: Any) -> Self:  # noqa: ANN401 - the types of the fields
        """Return a copy with these fields changed."""
        return msgspec.structs.replace(self, **changes)


StructClass = TypeVar("StructClass", bound=type[FrozenStruct])


def known_to_attrs(kind: StructClass) -> StructClass:
    """Let attrs and cattrs read the fields of a struct: the store encodes rows with them.

    attrs reads `__attrs_attrs__` only, so the fields of an attrs class with the same annotations
    and defaults are set there.
    """
    defaults = kind.__struct_defaults__
    required = len(kind.__struct_fields__) - len(defaults)
    fields = {
        name: attrs.field(
            default=attrs.NOTHING if place < required else defaults[place - required],
            type=kind.__annotations__[name],
        )
        for place, name in enumerate(kind.__struct_fields__)
    }
    twin = attrs.make_class(kind.__name__, fields, slots=False, init=False, repr=False, eq=False)
    kind.__attrs_attrs__ = twin.__attrs_attrs__  # type: ignore[attr-defined] # known to attrs only
    return kind
