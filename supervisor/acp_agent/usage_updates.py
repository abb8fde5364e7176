"""What the agent has used, as `usage_update`: tokens in its context, and the cost of the session.

No I/O: records go in. Each figure is told when it changes, and no other time.
"""

from __future__ import annotations

from typing import Any, Final, Self

import attrs

from supervisor.core.info import Info
from supervisor.core.records import Record

from .tool_cards import Update

# The code of ISO 4217 for "no currency": records have the amounts of the agent without it.
_CURRENCY: Final = "XXX"


@attrs.define(eq=False)
class UsageUpdates:
    """The figures of one session, from its `Info` and from the records after that."""

    _last_seq: int
    _cost: float
    _used: int | None
    _size: int | None
    _told: Update | None = None

    @classmethod
    def of(cls, info: Info) -> Self:
        """Return the figures of a session as they are now."""
        context = info.context
        return cls(
            info.last_seq,
            info.usage.cost,
            None if context is None else context.used,
            None if context is None else context.size,
        )

    def add(self, record: Record) -> None:
        """Take in a record."""
        if record.kind != "usage" or record.seq <= self._last_seq:
            return
        body = record.body
        self._last_seq = record.seq
        self._cost += body["cost"]
        if "context_used" in body:
            self._used, self._size = body["context_used"], body.get("context_size")

    def changed(self) -> Update | None:
        """Return the update, None if nothing has changed or the agent reports no context."""
        if self._used is None or self._size is None:
            return None
        update: dict[str, Any] = {
            "sessionUpdate": "usage_update",
            "used": self._used,
            "size": self._size,
        }
        if self._cost:
            update["cost"] = {"amount": self._cost, "currency": _CURRENCY}
        if update == self._told:
            return None
        self._told = update
        return update
