"""Reports of search, cleanup and reload, which the client package imports too."""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from supervisor.core.ids import SessionId, TurnId
from supervisor.store.retention import Reason


@attrs.frozen
class Reloaded:
    """Changed agents and settings by name; `fixed` are settings that need a restart."""

    added: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    settings: tuple[str, ...] = ()
    fixed: tuple[str, ...] = ()


@attrs.frozen(kw_only=True)
class SearchHit:
    """A record that matches a search; the snippet marks the words with `[` and `]`."""

    session_id: SessionId
    seq: int
    at: float
    turn_id: TurnId | None
    kind: str
    snippet: str
    title: str | None
    agent: str
    name: str | None = None


@attrs.frozen
class CleanupReport:
    """Deleted sessions (in a dry run: to delete) with the reason, and failures with the error."""

    dry_run: bool
    deleted: Mapping[SessionId, Reason]
    bytes: int
    failed: Mapping[SessionId, str]
