"""What only this surface answers with; everything else is a class of the embedding API."""

from __future__ import annotations

from typing import Literal

import attrs


@attrs.frozen
class Version:
    """Which program answers, and by which version of this interface."""

    name: str
    version: str
    api: str


@attrs.frozen
class Health:
    """The process answers: `ready` once it takes work."""

    status: Literal["ok", "ready"]


@attrs.frozen
class BackupReport:
    """Where the copy is, and how large."""

    path: str
    bytes: int
