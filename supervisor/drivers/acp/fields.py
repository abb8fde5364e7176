"""Readers of untrusted data from agents: a field has the expected type or counts as absent.

Rule 1: nothing here raises, for any value.
Rule 2: returned text has no lone surrogates, and returned numbers fit into every store.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

from supervisor.core.sanitize import plain_text

# Larger numbers lose digits when read as a float.
_MAX_NUMBER: Final = 2**53
_EMPTY: Final[Mapping[str, Any]] = {}


def as_mapping(value: object) -> Mapping[str, Any]:
    """Return the value if it is an object, else an empty one."""
    return value if isinstance(value, dict) else _EMPTY


def as_list(value: object) -> Sequence[Any]:
    """Return the value if it is a list, else an empty one."""
    return value if isinstance(value, list) else ()


def as_text(value: object) -> str | None:
    """Return the value if it is text, else None."""
    return plain_text(value) if isinstance(value, str) else None


def as_name(value: object, *, max_letters: int = 200) -> str | None:
    """Return the value if it is text, not blank and not too long; else None."""
    if not isinstance(value, str) or len(value) > max_letters:
        return None
    return plain_text(value) if value.strip() else None


def as_integer(value: object) -> int | None:
    """Return a whole number of 0 or more, else None; 3.0 counts, as in JavaScript."""
    number = as_number(value)
    return int(number) if number is not None and number.is_integer() else None


def as_number(value: object) -> float | None:
    """Return a number of 0 or more, else None."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    if not 0 <= value < _MAX_NUMBER or not math.isfinite(value):
        return None
    return float(value)


def has_capability(value: object) -> bool:
    """Return whether a capability is present: True, or an object, also an empty one."""
    return value is True or isinstance(value, dict)
