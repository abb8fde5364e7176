"""What a session's actor is told by those who work for it, besides events."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import attrs

from supervisor.core.effects import Effect

if TYPE_CHECKING:
    from .actor import SessionActor


@attrs.frozen(eq=False)
class CaughtUp:
    """The store has written what an incarnation had decided: what waited for that may be done."""

    by: SessionActor
    waits: Sequence[Effect]


@attrs.frozen(eq=False)
class NotWritten:
    """Output of an incarnation did not get into the store, so nothing after it will either."""

    by: SessionActor
    error: Exception
