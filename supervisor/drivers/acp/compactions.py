"""Compactions that an agent reports: it replaced the older part of its context by a summary.

An agent reports a compaction by updates with one id, which patch each other: an absent field keeps
its value, null and an empty list clear it. The summary may also arrive in chunks.

Rule 1: a compaction has one record when it begins and one when it ends; another one follows only
        if an ended compaction gets another status, summary or error.
Rule 2: the tokens after it are known only if the agent reports its context before the end.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import attrs

from supervisor.core.state import ContextUse

from .content import MAX_BLOCKS, as_list, as_name, as_text, content_text, truncate

MAX_COMPACTIONS: Final = 100
MAX_SUMMARY_BYTES: Final = 65536
MAX_ERROR_LETTERS: Final = 2000

_FINAL_STATUSES: Final = frozenset({"completed", "failed", "cancelled"})


@attrs.define(eq=False)
class _Compaction:
    """One compaction; `written` is the body of its last record."""

    tokens_before: int | None
    status: str = "in_progress"
    summary: str = ""
    error: str | None = None
    written: Mapping[str, Any] | None = None

    def add_summary(self, content: object) -> None:
        """Append a block to the summary, up to its bound."""
        left = MAX_SUMMARY_BYTES - len(self.summary.encode())
        if left > 0:
            self.summary += truncate(content_text(content), left)


class Compactions:
    """The compactions of one agent, by the agent's ids."""

    def __init__(self) -> None:
        # Invariant: at most MAX_COMPACTIONS, of which the oldest is dropped first.
        self._known: dict[str, _Compaction] = {}

    def on_update(
        self, update: Mapping[str, Any], context: ContextUse | None
    ) -> Mapping[str, Any] | str | None:
        """Return the body of a record, the problem of a malformed update, or None."""
        key = as_name(update.get("compactionId"))
        if key is None:
            return "a compaction without an id"
        compaction = self._find(key, context)
        if update.get("sessionUpdate") == "compaction_summary_chunk":
            compaction.add_summary(update.get("content"))
            return self._record(key, compaction, context) if compaction.written is None else None
        compaction.status = as_name(update.get("status")) or compaction.status
        if "summary" in update:
            compaction.summary = ""
            for block in as_list(update["summary"])[:MAX_BLOCKS]:
                compaction.add_summary(block)
        if "error" in update:
            error = as_text(update["error"])
            compaction.error = error and error[:MAX_ERROR_LETTERS]
        if compaction.written is None or compaction.status in _FINAL_STATUSES:
            return self._record(key, compaction, context)
        return None

    def _find(self, key: str, context: ContextUse | None) -> _Compaction:
        if key not in self._known:
            if len(self._known) >= MAX_COMPACTIONS:
                del self._known[next(iter(self._known))]
            self._known[key] = _Compaction(None if context is None else context.used)
        return self._known[key]

    def _record(
        self, key: str, compaction: _Compaction, context: ContextUse | None
    ) -> Mapping[str, Any] | None:
        """Return the body of its next record; None if it would repeat the last one."""
        is_over = compaction.status in _FINAL_STATUSES
        before = after = compaction.tokens_before
        if is_over and context is not None:
            after = context.used
        body = {
            "compaction_id": key,
            "status": compaction.status if is_over else "in_progress",
            "summary": (compaction.summary or None) if is_over else None,
            "error": compaction.error,
            "tokens_before": before,
            "tokens_after": None if after == before else after,
        }
        written = compaction.written
        if written is not None and all(body[name] == written[name] for name in _REPEATED):
            return None
        compaction.written = body
        return body


_REPEATED: Final = ("status", "summary", "error")
