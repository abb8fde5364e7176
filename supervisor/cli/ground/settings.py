"""The configuration, as a command reads it: from where it was called, and for who called it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # it takes longer to come up than most commands take to run
    from supervisor.configuration import Configuration


def load_configuration(
    path: str | None, *, flags: Mapping[str, object] | None = None
) -> Configuration:
    """All layers, or only the file that was named; raises `ConfigError` with all that is wrong."""
    from supervisor.configuration import load  # noqa: PLC0415 - see above

    return load(cwd=_here(), environ=os.environ, flags=flags, path=path)


def _here() -> Path | None:
    try:
        return Path.cwd()
    except FileNotFoundError:
        return None  # somebody has deleted the folder that we are called in
