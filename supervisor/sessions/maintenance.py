"""Maintenance of stored sessions: search, export, import, cleanup and replay."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import aclosing
from pathlib import Path
from typing import Final

import attrs
import trio

from supervisor.core.creation import SessionSpec, create
from supervisor.core.errors import (
    ConfigError,
    NotStorable,
    RecordNotFound,
    SessionNotFound,
    SupervisorError,
    short_repr,
)
from supervisor.core.facts import Fact, number_facts
from supervisor.core.ids import SessionId
from supervisor.core.imports import adopt_import
from supervisor.core.info import Info, make_info, shown_title
from supervisor.core.records import Record
from supervisor.core.state import Phase
from supervisor.store.examine import readable_records
from supervisor.store.export import ExportFormat, export
from supervisor.store.importing import ImportedSession, ImportFormat, read_import
from supervisor.store.port import Stored, Write
from supervisor.store.replay import replay_from
from supervisor.store.retention import Reason, RemovableTree, RetentionRules, plan_cleanup
from supervisor.store.threads import run_in_thread

from .admission import Admission
from .deletion import Deletion
from .lifecycle import Lifecycle
from .maintenance_reports import CleanupReport, SearchHit
from .registry import SessionRegistry
from .services import Services
from .session_info import session_info


async def search(
    services: Services, words: str, *, session_id: SessionId | None, before: int | None, limit: int
) -> tuple[tuple[SearchHit, ...], int | None]:
    """Return hits, newest first, and the position where the next page starts; None at the end."""
    found = await services.store.search(
        words, session_id=session_id, before=before, limit=limit + 1
    )
    hits: list[SearchHit] = []
    rows = {
        one: await _read_stored(services, one) for one in {hit.session_id for hit in found[:limit]}
    }
    for hit in found[:limit]:
        stored = rows[hit.session_id]
        if stored is not None:  # else it was deleted meanwhile, or is damaged
            hits.append(
                SearchHit(
                    session_id=hit.session_id,
                    seq=hit.seq,
                    at=hit.at,
                    turn_id=hit.turn_id,
                    kind=hit.kind,
                    snippet=hit.snippet,
                    title=shown_title(stored.row),
                    agent=stored.row.agent_name,
                    name=stored.row.name,
                )
            )
    return tuple(hits), found[limit - 1].position if len(found) > limit else None


async def _read_stored(services: Services, session_id: SessionId) -> Stored | None:
    try:
        return await services.store.read(session_id)
    except NotStorable:
        return None


async def export_session(
    services: Services,
    registry: SessionRegistry,
    admission: Admission,
    session_id: SessionId,
    format: ExportFormat,  # noqa: A002 - the public name of the option
    *,
    redact: bool,
) -> str:
    """Return a session as markdown, JSON lines or HTML; see `Session.export`."""
    stored = await registry.stored(session_id)
    info = session_info(services, registry, admission, stored.row, last_seq=stored.last_seq)
    try:
        records = await services.all_records(session_id)
    except NotStorable:
        if format == "jsonl":
            raise  # jsonl is complete and exact, or refused
        raw = await services.store.raw_records(session_id)
        records = list(_with_gaps(session_id, readable_records(raw, session_id), stored.last_seq))
    pieces = export(
        format, info, records, redact=redact
    )  # raises here, not in the thread, for an unknown format
    return await run_in_thread(lambda: "".join(pieces), services.thread_limiter)


def _with_gaps(session_id: SessionId, records: Iterable[Record], last_seq: int) -> Iterator[Record]:
    """Yield the readable records, and a warning in place of each gap."""
    expected, at = 1, 0.0
    for record in records:
        if record.seq > expected:
            yield _unreadable(session_id, expected, record.seq - 1, at)
        yield record
        expected, at = record.seq + 1, record.at
    if expected <= last_seq:
        yield _unreadable(session_id, expected, last_seq, at)


def _unreadable(session_id: SessionId, first: int, last: int, at: float) -> Record:
    which = f"record {first}" if first == last else f"records {first} to {last}"
    return Record(session_id, first, at, None, "warning", {"text": f"{which} cannot be read"})


MAX_IMPORT_BYTES: Final = 256 * 1024 * 1024


async def import_session(
    services: Services,
    lifecycle: Lifecycle,
    path: str | os.PathLike[str],
    format: ImportFormat,  # noqa: A002 - the public name of the option
    agent: str | None,
) -> tuple[SessionId, tuple[str, ...]]:
    """Store the session of a file under a new id; return the id and the reader's warnings.

    Raise ConfigError if the file cannot be read. A warning names content that is not imported.
    """
    services.refuse_if_shutting_down()
    at = services.clock.now()
    session_id = await lifecycle.draw_id()
    settings = services.settings()
    terms = services.settings.terms_of(settings)
    usual = SessionSpec(agent="", terms=terms, limits=settings.limits)

    def prepare() -> tuple[Write, tuple[str, ...]]:
        # All of it in a thread: reading and folding a large file would block the event loop.
        imported = _read_file(Path(path), format, at)
        return _import_write(session_id, imported, usual, at, agent), imported.warnings

    write, warnings = await trio.to_thread.run_sync(prepare, limiter=services.thread_limiter)
    await services.detached_tasks.run_detached(lifecycle.store_import, write)
    return session_id, warnings


def _import_write(
    session_id: SessionId,
    imported: ImportedSession,
    usual: SessionSpec,
    at: float,
    agent: str | None,
) -> Write:
    """Return the write that stores the imported session with all its records."""
    plan = attrs.evolve(
        usual,
        agent=agent or imported.agent or imported.format,
        name=imported.name,
        title=imported.title,
        tags=imported.tags,
        custom=imported.custom,
    )
    created = _first_fact(session_id, imported, plan, at, agent)
    session, facts = adopt_import(
        session_id, created, imported.facts, plan, format=imported.format, at=at
    )
    return Write(session_id, 0, number_facts(session_id, facts, after=0), session)


def _read_file(path: Path, format: ImportFormat, at: float) -> ImportedSession:  # noqa: A002 - as in `import_session`
    try:
        if not path.is_file():  # reading a pipe might never end
            raise ConfigError(f"{short_repr(str(path))} is not a file", hint="name a readable file")
        _refuse_if_large(path)
        # Split at "\n" only: message text may contain other line separators.
        with path.open(encoding="utf-8", errors="surrogateescape", newline="\n") as lines:
            meta = _meta_beside(path) if format == "picoclaw" else None
            return read_import(format, lines, meta=meta, at=at)
    except OSError as error:
        raise ConfigError(
            f"{short_repr(str(path))} cannot be read: {error.strerror}",
            hint="name a readable file",
        ) from error


def _meta_beside(path: Path) -> str | None:
    """Return the text of the metadata file beside a picoclaw session; None without one."""
    meta = path.with_suffix(".meta.json")
    if not meta.is_file():
        return None
    _refuse_if_large(meta)
    return meta.read_text(encoding="utf-8", errors="surrogateescape")


def _refuse_if_large(path: Path) -> None:
    if path.stat().st_size > MAX_IMPORT_BYTES:
        raise ConfigError(
            f"{path.name} is larger than {MAX_IMPORT_BYTES} bytes", hint="import it in parts"
        )


def _first_fact(
    session_id: SessionId,
    imported: ImportedSession,
    plan: SessionSpec,
    at: float,
    agent: str | None,
) -> Fact:
    """Return the first fact: from the file, with `agent` if given, or a new fact."""
    created = imported.created
    if created is None:
        first = imported.facts[0].at if imported.facts else at
        began = imported.created_at if imported.created_at is not None else first
        _, (made, *_) = create(session_id, plan, at=min(began, first))
        return made
    return created if agent is None else created.changed(body={**created.body, "agent": agent})


async def clean_up(
    services: Services,
    registry: SessionRegistry,
    deletion: Deletion,
    rules: RetentionRules,
    *,
    dry_run: bool,
) -> CleanupReport:
    """Delete stopped trees by the rules, or only report them; see `Supervisor.cleanup`."""
    if not dry_run:
        services.refuse_if_shutting_down()
    async with aclosing(services.store.rows()) as rows:
        known = [stored.row async for stored in rows]
    sizes = await services.store.sizes()
    trees = plan_cleanup(known, sizes, rules, at=services.clock.now())
    deleted: dict[SessionId, Reason] = {}
    failed: dict[SessionId, str] = {}
    size = 0
    seen = {row.id: row.updated_at for row in known}
    for tree in trees:
        if tree.root not in seen and await registry.exists(tree.root):
            continue  # the root exists and its row cannot be read: keep the tree
        # No session of the tree is resumed from here on, so that all of it is deleted or none.
        services.removals.add(*tree.sessions)
        try:
            if dry_run or await _is_unchanged(services, tree, seen):
                for session_id in tree.sessions:
                    if dry_run or await _delete(deletion, session_id, failed):
                        deleted[session_id] = tree.reason
                        size += sizes.get(session_id, 0)
                    if session_id in failed:
                        break
        finally:
            services.removals.discard(tree.sessions)
    return CleanupReport(dry_run, deleted, size, failed)


async def _is_unchanged(
    services: Services, tree: RemovableTree, seen: Mapping[SessionId, float]
) -> bool:
    """Return True if no session of the tree has changed since it was read."""
    for session_id in tree.sessions:
        stored = await services.store.read(session_id)
        if stored is None:
            continue  # deleted meanwhile
        if stored.row.phase is not Phase.STOPPED or stored.row.updated_at != seen[session_id]:
            return False
    return True


async def _delete(deletion: Deletion, session_id: SessionId, failed: dict[SessionId, str]) -> bool:
    """Delete the session; return True if this call deleted it; add a failure to `failed`."""
    try:
        return await deletion.delete(session_id, only_if_stopped=True)
    except SessionNotFound:
        return False
    except SupervisorError as error:
        failed[session_id] = str(error)
        return False


async def replay(
    services: Services, registry: SessionRegistry, session_id: SessionId, at: int
) -> Info:
    """Return the `Info` of a session as of a record number; see `Session.replay`."""
    stored = await registry.stored(session_id)
    if type(at) is not int or not 1 <= at <= stored.last_seq:
        raise RecordNotFound(
            f"session {session_id} has no record {short_repr(at)}",
            hint=f"give a number from 1 to {stored.last_seq}",
        )
    snapshot = await services.store.snapshot(session_id, at=at)
    after = 0 if snapshot is None else snapshot[0]
    records = await services.store.records(session_id, after=after, limit=at - after)
    return make_info(replay_from(snapshot, records, at), last_seq=at)
