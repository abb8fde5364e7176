"""News of an agent beside its work: notices for the user, compactions, and subagents.

An agent sends news at any time. Those between two turns are kept for the next turn, because a
record needs one.

Rule: history that an agent replays makes no records, except notices, which are never history.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal, NamedTuple

from supervisor.core.state import ContextUse

from .compactions import Compactions
from .content import as_name, as_text
from .subagents import MESSAGES, UPDATE, Subagents

MAX_NOTICE_LETTERS: Final = 300
MAX_DETAIL_LETTERS: Final = 4000
# News between two turns; later ones are dropped.
MAX_PENDING_NEWS: Final = 100

_COMPACTION_UPDATES: Final = frozenset({"compaction_update", "compaction_summary_chunk"})

NewsKind = Literal["notice", "agent_compaction", "subagent"]


class NewsRecord(NamedTuple):
    """A record to write: its kind and body."""

    kind: NewsKind
    body: Mapping[str, Any]

    @property
    def error(self) -> str | None:
        """The text of a notice that reports an error."""
        if self.kind != "notice" or self.body["severity"] != "error":
            return None
        detail = self.body["detail"]
        return f"{self.body['text']}: {detail}" if detail else str(self.body["text"])


class AgentNews:
    """The news of one agent, over all its turns."""

    def __init__(self, *, has_subagents: bool) -> None:
        self.subagents = Subagents() if has_subagents else None
        self._compactions = Compactions()
        self._pending: list[NewsRecord] = []

    def handles(self, kind: str) -> bool:
        """Return True if updates of this kind are news."""
        if kind == UPDATE or kind in MESSAGES:
            return self.subagents is not None
        return kind == "notice" or kind in _COMPACTION_UPDATES

    def read(
        self, update: Mapping[str, Any], context: ContextUse | None
    ) -> NewsRecord | str | None:
        """Return a record, the problem of a malformed update, or None."""
        kind = update["sessionUpdate"]
        body: Mapping[str, Any] | str | None
        record_kind: NewsKind
        if kind == "notice":
            body, record_kind = _notice(update), "notice"
        elif kind in _COMPACTION_UPDATES:
            body, record_kind = self._compactions.on_update(update, context), "agent_compaction"
        elif kind == UPDATE and self.subagents is not None:
            body, record_kind = self.subagents.on_update(update), "subagent"
        else:
            return None
        if body is None or isinstance(body, str):
            return body
        return NewsRecord(record_kind, body)

    def keep(self, news: NewsRecord) -> None:
        """Keep a record for the next turn."""
        if len(self._pending) < MAX_PENDING_NEWS:
            self._pending.append(news)

    def take_pending(self) -> list[NewsRecord]:
        """Return the records that were kept."""
        pending, self._pending = self._pending, []
        return pending


def _notice(update: Mapping[str, Any]) -> Mapping[str, Any] | str:
    title = as_text(update.get("title"))
    if title is None or not title.strip():
        return "a notice without a title"
    detail = as_text(update.get("description"))
    return {
        "severity": as_name(update.get("severity"), max_letters=40) or "info",
        "text": title[:MAX_NOTICE_LETTERS],
        "detail": detail[:MAX_DETAIL_LETTERS] if detail and detail.strip() else None,
    }
