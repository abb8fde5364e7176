"""What is news of a session, and the cursor that says which news a caller has.

Rule 1: a cursor is made of numbers of records, so it outlives restarts, and an old one only brings
        news again. It names sessions with the last record that the caller was told of.
Rule 2: without a cursor there is no past: a session has news when it is at rest, however long.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, Literal, TypeAlias

import attrs

from supervisor.core.attention import attention_of
from supervisor.core.errors import ConfigError, short_repr
from supervisor.core.ids import SessionId
from supervisor.core.info import is_idle
from supervisor.core.state import STOPPED, SessionState

NewsKind: TypeAlias = Literal["turn", "attention", "stopped", "any"]

_MAX_CURSOR_CHARS: Final = 100_000
_ENTRY: Final = re.compile(r"([a-z0-9_]{3,64}):(\d{1,18})(?:x(\d{1,18}))?", re.ASCII)


@attrs.frozen
class Known:
    """What a caller knows of a session: records up to `seq`, and, if it was stopped, which stop.

    A stop is named by the number of starts after a stop before it (`SessionState.returns`).
    """

    seq: int
    stop: int | None = None


Cursor: TypeAlias = Mapping[SessionId, Known]


def print_cursor(cursor: Cursor) -> str:
    """Return the cursor as text."""
    return ",".join(
        f"{one}:{known.seq}" + ("" if known.stop is None else f"x{known.stop}")
        for one, known in cursor.items()
    )


def parse_cursor(text: str) -> Cursor:
    """Return the cursor with this text form; raise ConfigError if it is not one."""
    parts = text.split(",") if len(text) <= _MAX_CURSOR_CHARS else [text]
    found = [_ENTRY.fullmatch(part) for part in parts]
    cursor: dict[SessionId, Known] = {}
    for one in found:
        if one is None:
            raise ConfigError(
                f"after is {short_repr(text)}, which is not a cursor",
                hint="give the cursor of an earlier answer of wait, or leave it out",
            )
        stop = None if one[3] is None else int(one[3])
        cursor[SessionId(one[1])] = Known(int(one[2]), stop)
    return cursor


def known_now(state: SessionState, last_seq: int) -> Known:
    """Return what a caller knows after it was told of the session as it is."""
    return Known(last_seq, state.returns if state.phase is STOPPED else None)


def is_at_rest(state: SessionState, kind: NewsKind) -> bool:
    """Return True if no news of the kind can come before the session gets work."""
    if kind == "stopped":
        return state.phase is STOPPED
    return is_idle(state.phase, queued=len(state.inputs))


def has_news(state: SessionState, kind: NewsKind, known: Known | None) -> bool:
    """Return True if the session has news of the kind; `known` is None without a cursor."""
    if kind == "any":
        kinds: tuple[NewsKind, ...] = ("turn", "attention", "stopped")
        return any(has_news(state, one, known) for one in kinds)
    if kind == "attention":
        return any(known is None or item.seq > known.seq for item in attention_of(state))
    if _has_stopped(state, known):
        return True
    return kind == "turn" and has_ended_turn(state, known)


def has_ended_turn(state: SessionState, known: Known | None) -> bool:
    """Return True if a turn has ended of which the caller does not know.

    Without a cursor: if the last turn has ended and nothing follows it.
    """
    if state.last_turn is None:
        return False
    if known is None:
        return is_at_rest(state, "turn")
    ended_at: int = state.last_turn[-1]
    return ended_at > known.seq


def _has_stopped(state: SessionState, known: Known | None) -> bool:
    return state.phase is STOPPED and (known is None or known.stop != state.returns)
