"""Answers that only the HTTP interface has; all others are classes of the embedding API."""

from __future__ import annotations

from typing import Literal

import attrs

from supervisor.core.store_finding import StoreFinding


@attrs.frozen
class VersionReport:
    """Name and version of the program, and version of the HTTP interface."""

    name: str
    version: str
    api: str


@attrs.frozen
class HealthReport:
    """Health of the process; `ready` when it accepts work.

    `findings` are losses and damage of the store that do not prevent work.
    """

    status: Literal["ok", "ready"]
    findings: tuple[StoreFinding, ...] = ()


@attrs.frozen
class BackupReport:
    """Path, size and name of a backup in the daemon's folder, and when it was made."""

    path: str
    bytes: int
    name: str = ""
    created_at: float = 0.0
