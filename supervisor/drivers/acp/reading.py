"""What an agent sent, read without trust: a field has the type that was wanted, or is not there.

Rule 1: nothing here raises, whatever it is given.
Rule 2: text that comes out has whole characters, and numbers fit into every store.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

from supervisor.drivers.plain import plain_text

# Larger ones lose their last digits in whatever reads them as a float.
_LARGEST: Final = 2**53
_NOTHING: Final[Mapping[str, Any]] = {}


def as_mapping(value: object) -> Mapping[str, Any]:
    """An object; an empty one if it is something else."""
    return value if isinstance(value, dict) else _NOTHING


def as_list(value: object) -> Sequence[Any]:
    """A list; an empty one if it is something else."""
    return value if isinstance(value, list) else ()


def as_text(value: object) -> str | None:
    """Text, or None."""
    return plain_text(value) if isinstance(value, str) else None


def as_name(value: object, *, max_letters: int = 200) -> str | None:
    """Text that names something: with something in it besides space, and not too long."""
    if not isinstance(value, str) or len(value) > max_letters:
        return None
    return plain_text(value) if value.strip() else None


def as_whole(value: object) -> int | None:
    """A whole number from 0 on, or None; 3.0 is one too, for some languages know no other."""
    number = as_number(value)
    return int(number) if number is not None and number.is_integer() else None


def as_number(value: object) -> float | None:
    """A number from 0 on, or None."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    if not 0 <= value < _LARGEST or not math.isfinite(value):
        return None
    return float(value)


def is_offered(value: object) -> bool:
    """Whether a capability is there: True, or an object, however empty."""
    return value is True or isinstance(value, dict)
