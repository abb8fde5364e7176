"""Files to import: our own, picoclaw's and ggcode's."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from supervisor.core.creation import SessionSpec, create
from supervisor.core.facts import number_facts
from supervisor.core.fold import replay
from supervisor.core.ids import SessionId
from supervisor.core.state import SessionState
from supervisor.store.importing import ImportedSession, read_import

from .export_samples import SampleHistory, exported, records_of

NEW = SessionId("s_new")
NOON = "2026-03-11T12:00:00.123456789Z"
NOON_AT = 1773230400.123456


def lines_of(*objects: dict[str, Any]) -> list[str]:
    return [json.dumps(thing) + "\n" for thing in objects]


def ours() -> list[str]:
    """Return a small export: five records after the header and the first record."""
    history = SampleHistory()
    history.begin("hello")
    history.say("hel", "lo")
    history.finish()
    return exported("jsonl", records_of(history)).splitlines(keepends=True)


def replayed(imported: ImportedSession) -> SessionState:
    """Return the session that an import stores."""
    created = imported.created
    if created is None:
        _, (created,) = create(NEW, SessionSpec(agent="echo"), at=imported.created_at or 0.0)
    session = replay(number_facts(NEW, (created, *imported.facts), after=0))
    assert session is not None
    return session


def kinds_of(imported: ImportedSession) -> list[str]:
    return [fact.kind for fact in imported.facts]


def read_picoclaw(
    *messages: dict[str, Any], meta: dict[str, Any] | None = None, at: float = 5.0
) -> ImportedSession:
    beside = None if meta is None else json.dumps(meta)
    return read_import("picoclaw", lines_of(*messages), meta=beside, at=at)


def read_ggcode(*things: dict[str, Any], at: float = 5.0) -> ImportedSession:
    return read_import("ggcode", lines_of(*things), at=at)


def blocks(role: str, *content: dict[str, Any], **more: Any) -> dict[str, Any]:  # noqa: ANN401 - JSON
    """Return a ggcode line with a message."""
    message = {"role": role, "content": list(content), **more}
    return {"type": "message", "session_id": "x", "message": message, "timestamp": NOON}


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


def changed(lines: Iterable[str], number: int, **changes: Any) -> list[str]:  # noqa: ANN401 - JSON
    """Return the lines with changed fields in one of them, counted from 1."""
    made = list(lines)
    made[number - 1] = json.dumps({**json.loads(made[number - 1]), **changes}) + "\n"
    return made
