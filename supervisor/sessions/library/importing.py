"""A session from a file: read, checked and stored under a new id."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

import attrs
import trio

from supervisor.core.creation import Plan, create
from supervisor.core.errors import ConfigError, shown
from supervisor.core.facts import Fact
from supervisor.core.ids import SessionId
from supervisor.core.immigration import settle_in
from supervisor.core.records import numbered
from supervisor.store.importing import Format, Imported, read
from supervisor.store.port import Write

if TYPE_CHECKING:
    from supervisor.sessions.house.house import House

MAX_BYTES: Final = 256 * 1024 * 1024


async def import_session(
    house: House,
    path: str | os.PathLike[str],
    format: Format,  # noqa: A002 - the word that every surface uses for it
    agent: str | None,
) -> tuple[SessionId, tuple[str, ...]]:
    """The id of the new session, and what the file has in it that could not be kept."""
    house.tree.refuse_if_leaving()
    at = house.clock.now()
    session_id = SessionId(house.ids.new("s"))
    usual = Plan(agent="", terms=house.terms_of(house.settings), limits=house.settings.limits)

    def prepare() -> tuple[Write, tuple[str, ...]]:
        # All of it apart: to read and fold what is large would keep everybody waiting.
        imported = _read(Path(path), format, at)
        return _settled(session_id, imported, usual, at, agent), imported.warnings

    write, warnings = await trio.to_thread.run_sync(prepare, limiter=house.long_work)
    await house.works.carry_through(house.register.store, write)
    return session_id, warnings


def _settled(
    session_id: SessionId, imported: Imported, usual: Plan, at: float, agent: str | None
) -> Write:
    """The session as it will be, with all its records."""
    plan = attrs.evolve(
        usual,
        agent=agent or imported.agent or imported.format,
        name=imported.name,
        title=imported.title,
        tags=imported.tags,
        custom=imported.custom,
    )
    created = _beginning(session_id, imported, plan, at, agent)
    session, facts = settle_in(
        session_id, created, imported.facts, plan, format=imported.format, at=at
    )
    return Write(session_id, 0, numbered(session_id, facts, after=0), session)


def _read(path: Path, format: Format, at: float) -> Imported:  # noqa: A002 - as above
    try:
        if not path.is_file():  # a pipe would be waited for, for ever
            raise ConfigError(f"{shown(str(path))} is no file", hint="name a file you may read")
        _refuse_if_large(path)
        # Split at "\n" only: other characters that end a line may be in what somebody said.
        with path.open(encoding="utf-8", errors="surrogateescape", newline="\n") as lines:
            meta = _meta_beside(path) if format == "picoclaw" else None
            return read(format, lines, meta=meta, at=at)
    except OSError as error:
        raise ConfigError(
            f"{shown(str(path))} cannot be read: {error.strerror}", hint="name a file you may read"
        ) from error


def _meta_beside(path: Path) -> str | None:
    """What picoclaw keeps beside a session's lines, if it is there."""
    meta = path.with_suffix(".meta.json")
    if not meta.is_file():
        return None
    _refuse_if_large(meta)
    return meta.read_text(encoding="utf-8", errors="surrogateescape")


def _refuse_if_large(path: Path) -> None:
    if path.stat().st_size > MAX_BYTES:
        raise ConfigError(
            f"{path.name} is larger than {MAX_BYTES} bytes", hint="import it in parts"
        )


def _beginning(
    session_id: SessionId, imported: Imported, plan: Plan, at: float, agent: str | None
) -> Fact:
    """Its own first record; another agent than it says, if somebody wants one."""
    created = imported.created
    if created is None:
        first = imported.facts[0].at if imported.facts else at
        began = imported.created_at if imported.created_at is not None else first
        _, (made, *_) = create(session_id, plan, at=min(began, first))
        return made
    return (
        created if agent is None else attrs.evolve(created, body={**created.body, "agent": agent})
    )
