"""Values as plain data, for `--json`: the same names, and nothing that only Python has."""

from __future__ import annotations

import math
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from enum import Enum
from typing import Any

import attrs


def plain(value: object) -> Any:  # noqa: ANN401, PLR0911 - whatever JSON has, one by one
    """What JSON can say of it; what it has no word for is null or text."""
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, Enum):
        return plain(value.value)
    if isinstance(value, str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(name): plain(inside) for name, inside in value.items()}
    if isinstance(value, AbstractSet):
        return sorted(plain(inside) for inside in value)
    if isinstance(value, list | tuple):
        return [plain(inside) for inside in value]
    kind: type[Any] = type(value)
    if attrs.has(kind):
        fields = attrs.fields(kind)
        return {field.name: plain(getattr(value, field.name)) for field in fields}
    return str(value)
