"""What a session's actor is told by those who work for it, besides events."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

if TYPE_CHECKING:
    from .actor import SessionActor


@attrs.frozen(eq=False)
class NotWritten:
    """Output of an incarnation did not get into the store, so nothing after it will either."""

    by: SessionActor
    error: Exception
