"""The numbers in scripts and flags."""

from __future__ import annotations

import math
from typing import Final

from supervisor.core.errors import ConfigError, shown

LARGEST: Final = 1e9


def number(step: str, text: str) -> float:
    """A number of at least 0; raises `ConfigError`."""
    try:
        read = float(text)
    except ValueError:
        read = math.nan
    if not 0.0 <= read < LARGEST:
        raise ConfigError(f"{step} {shown(text)} is no number", hint="give a number of at least 0")
    return read


def whole(step: str, text: str) -> int:
    """One that counts something; raises `ConfigError`."""
    read = number(step, text)
    if not read.is_integer():
        raise ConfigError(
            f"{step} {shown(text)} is no whole number", hint="there are no halves of it"
        )
    return int(read)
