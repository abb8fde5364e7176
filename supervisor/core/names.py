"""Names of sessions: who holds a name, and where a name is unique.

Rule 1: a name is unique among the roots that hold one, and among the descendants of one root.
Rule 2: a stored state says by itself whether its session holds its name, so the holders can be
        found again after every restart.
"""

from __future__ import annotations

from typing import Final

from .session_values import STOPPED
from .state import SessionState

# The scope of the names of all roots. That of a child is the id of its root, which is not empty.
ROOT_SCOPE: Final = ""


def name_scope(session: SessionState) -> str:
    """Return the scope in which the session's name is unique."""
    lineage = session.lineage
    return ROOT_SCOPE if lineage.parent is None else lineage.root or lineage.parent


def held_name(session: SessionState) -> str | None:
    """Return the name that no other session of the scope can take; None if it holds none.

    An archived session holds none, and neither does one whose agent did not start before its first
    turn: a user tries that again, with the same name.
    """
    if session.name is None or session.archived:
        return None
    has_failed = session.phase is STOPPED and session.stop_reason == "start_failed"
    return None if has_failed and not session.turns else session.name
