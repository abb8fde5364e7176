"""Numbers in scripts and flags of the scripted agents."""

from __future__ import annotations

import math
from typing import Final

from supervisor.core.errors import ConfigError, short_repr

MAX_NUMBER: Final = 1e9


def parse_number(step: str, text: str) -> float:
    """Return a number of at least 0 and below `MAX_NUMBER`; raise `ConfigError`."""
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not 0.0 <= number < MAX_NUMBER:
        raise ConfigError(
            f"{step} {short_repr(text)} is not a number", hint="give a number of at least 0"
        )
    return number


def parse_whole_number(step: str, text: str) -> int:
    """Return a whole number of at least 0 and below `MAX_NUMBER`; raise `ConfigError`."""
    number = parse_number(step, text)
    if not number.is_integer():
        raise ConfigError(
            f"{step} {short_repr(text)} is not a whole number",
            hint="give a number without a fraction",
        )
    return int(number)
