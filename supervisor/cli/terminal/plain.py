"""Values as plain data, for `--json`: the same names, and nothing that only Python has."""

from __future__ import annotations

import math
from collections.abc import Mapping, Set
from enum import Enum
from typing import Any

import attrs


def plain(value: object) -> Any:  # noqa: ANN401 - whatever JSON has
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
    if isinstance(value, Set):
        return sorted(plain(inside) for inside in value)
    if isinstance(value, list | tuple):
        return [plain(inside) for inside in value]
    if attrs.has(type(value)):
        fields = attrs.fields(type(value))
        return {field.name: plain(getattr(value, field.name)) for field in fields}
    return str(value)
