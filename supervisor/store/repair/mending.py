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
from supervisor.store.port import RawRecord

from .closing import closing
from .examining import examine
from .problems import Problem, RepairReport
from .reading import readable


@attrs.frozen
class Mended:
    """What to tell, and what to write: the report's records, with the row if there are any."""

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
