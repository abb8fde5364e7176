"""Whether a session may be repaired, and what comes of it."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence

import attrs

from supervisor.core.errors import RepairRefused
from supervisor.core.folds import fold
from supervisor.core.ids import SessionId
from supervisor.core.records import numbered
from supervisor.core.session import Session
from supervisor.store.port import RawRecord, RawRow

from .closing import closing
from .examining import examine
from .problems import Problem, RepairReport
from .reading import readable
from .rows import Snapshot, made_anew, problem_of_row


@attrs.frozen
class Mended:
    """What to tell, and what to write: the report's records, and the row, None if it stays."""

    report: RepairReport
    row: Session | None


def refusal(
    session_id: SessionId,
    problems: Iterable[Problem],
    *,
    live: bool,
    dry_run: bool,
    force: bool,
) -> RepairRefused | None:
    """Why nothing may be done, or None.

    A session at work is not even looked at: what it has begun is not lost. Force is about errors
    only: it appends what can be appended to records that cannot be relied on.
    """
    if live:
        return RepairRefused(
            f"session {session_id} is at work", hint="stop it first, then repair it"
        )
    errors = sum(problem.severity == "error" for problem in problems)
    if errors and not dry_run and not force:
        return RepairRefused(
            f"the records of session {session_id} have {errors} errors that cannot be mended",
            hint="look at a dry run; with force, what was left open is closed in spite of them",
        )
    return None


def mend(
    session_id: SessionId,
    raw: Sequence[RawRecord],
    row: Session | None,
    *,
    at: float,
    last_seq: int,
    epoch: int | None = None,
    dry_run: bool = True,
    force: bool = False,
) -> Mended:
    """Examine a session that is not at work, and close what it has left open.

    What is appended is numbered after `last_seq`. Without a row nothing can be appended. Raises
    `RepairRefused`.
    """
    problems = tuple(examine(raw, row))
    refused = refusal(session_id, problems, live=False, dry_run=dry_run, force=force)
    if refused is not None:
        raise refused
    facts = () if row is None else closing(row, readable(raw, row.id), at, epoch=epoch)
    appended = numbered(session_id, facts, after=last_seq)
    after = functools.reduce(fold, facts, row) if row is not None and facts else None
    return Mended(RepairReport(session_id, dry_run, problems, appended), after)


def mend_row(
    damaged: RawRow,
    raw: Sequence[RawRecord],
    snapshot: Snapshot | None,
    *,
    at: float,
    last_seq: int,
    dry_run: bool = True,
    force: bool = False,
) -> Mended:
    """The same for a session whose row cannot be read: the row is made anew, and then closed.

    It is written under the epoch that the damaged one has, since whoever cannot be read cannot be
    claimed. Raises `RepairRefused`, also with force if its records do not give a row.
    """
    session_id = damaged.session_id
    row = made_anew(damaged, raw, snapshot)
    problems = (*examine(raw, row), problem_of_row(damaged, row))
    if row is None and not dry_run:
        raise RepairRefused(
            f"the row of session {session_id} cannot be read, and its records do not give it",
            hint="look at a dry run; then restore a backup, or delete the session",
        )
    refused = refusal(session_id, problems, live=False, dry_run=dry_run, force=force)
    if refused is not None:
        raise refused
    if row is None:
        return Mended(RepairReport(session_id, dry_run, problems), None)
    records = readable(raw, session_id)
    facts = closing(row, records, at, epoch=damaged.epoch, is_astray=not row.is_at_rest)
    appended = numbered(session_id, facts, after=last_seq)
    report = RepairReport(session_id, dry_run, problems, appended, row_made=True)
    return Mended(report, functools.reduce(fold, facts, row))
