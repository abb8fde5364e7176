"""Repair of a session: rebuild a row that cannot be read, and close open turns, calls and requests.

A row is the fold of its records, so it can be rebuilt if the records are complete. If some are
missing, a snapshot can replace all records before it.

Rule 1: a turn that is open in the row is closed by the table, as after a restart of the supervisor:
        it is lost, and the restart policy decides the session's next phase.
Rule 2: a turn, call or request that the row does not contain only gets its end record; the state
        of the session does not change otherwise.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, TypeAlias

import attrs
import orjson

from supervisor.core.agent_events import SupervisorRestarted
from supervisor.core.errors import RepairRefused
from supervisor.core.facts import Fact, fact_of, number_facts
from supervisor.core.fold import fold
from supervisor.core.ids import SessionId, TurnId
from supervisor.core.records import Body, Record
from supervisor.core.state import Phase, SessionState, Usage
from supervisor.core.table import decide
from supervisor.core.text import TurnOutput, turn_output
from supervisor.core.tree.admission import TreeView

from .codec import decode
from .examine import (
    OpenItem,
    ParsedRecords,
    Problem,
    ProblemCode,
    examine,
    fold_records,
    open_items,
    parse_records,
    readable_records,
)
from .port import RawRecord, RawRow


@attrs.frozen
class RepairReport:
    """The problems found and the records appended; in a dry run, the records to append."""

    session_id: SessionId
    dry_run: bool
    problems: tuple[Problem, ...]
    appended: tuple[Record, ...] = ()
    # True if the row could not be read and was rebuilt from the records.
    row_made: bool = False


Snapshot: TypeAlias = tuple[int, SessionState]

_MAX_DAMAGE_CHARS: Final = 200


def row_damage(raw: RawRow) -> str | None:
    """Return why the row cannot be read; None if it is readable. Never raise."""
    try:
        row = decode(raw.row, SessionState)
    except ValueError as error:
        return ascii(str(error))[1:-1][:_MAX_DAMAGE_CHARS]
    return None if row.id == raw.session_id else "it is the row of another session"


def row_problem(raw: RawRow, made: SessionState | None) -> Problem:
    """Return the problem for a row that cannot be read; `made` is the rebuilt row, if any."""
    why = row_damage(raw)
    code: ProblemCode = "type_mismatch" if _is_json(raw.row) else "bad_json"
    if made is None:
        detail = f"the row cannot be read, and cannot be rebuilt from its records: {why}"
        return Problem(code, "error", None, detail)
    detail = f"the row cannot be read; a repair rebuilds it from its records: {why}"
    return Problem(code, "warning", None, detail)


def _is_json(row: bytes) -> bool:
    try:
        orjson.loads(row)
    except ValueError:
        return False
    return True


def rebuild_row(
    raw: RawRow, records: Sequence[RawRecord], snapshot: Snapshot | None
) -> SessionState | None:
    """Return the fold of all records, or of those after the last snapshot, or None.

    A sequence of records is not used if one is missing or does not fit, because the result would be
    a guess. Never raise.
    """
    last = max((one.seq for one in records if type(one.seq) is int), default=0)
    if snapshot is not None and snapshot[0] > last:
        return None  # records after the last one are lost
    parsed = parse_records(records, raw.session_id)
    session, unfit = fold_records(parsed.records)
    if not _errors((*parsed.problems, *unfit)):
        return session
    return None if snapshot is None else _fold_from_snapshot(snapshot, parsed, last)


def _fold_from_snapshot(
    snapshot: Snapshot, parsed: ParsedRecords, last: int
) -> SessionState | None:
    """Return the snapshot's row with all later records folded in; None if they are incomplete."""
    number, row = snapshot
    if any(one.seq is None or one.seq > number for one in _errors(parsed.problems)):
        return None
    later = [record for record in parsed.records if record.seq > number]
    if [record.seq for record in later] != list(range(number + 1, last + 1)):
        return None
    made, unfit = fold_records(later, row)
    return None if unfit else made


def _errors(problems: Iterable[Problem]) -> list[Problem]:
    return [problem for problem in problems if problem.severity == "error"]


_END_NOT_RECORDED: Final = "its end was not recorded"
# No turn starts during a repair: queued inputs run when the session is started next.
_TREE_VIEW: Final = TreeView(child_slots_full=True)


def closing_facts(
    session: SessionState,
    records: Sequence[Record],
    at: float,
    *,
    epoch: int | None = None,
    needs_recovery: bool = False,
) -> tuple[Fact, ...]:
    """Return the facts that close open turns, calls and requests; empty if none is open.

    The row to store is `session` with these facts folded in. `epoch` is the epoch of the claim
    under which they are written; None means the next epoch. `needs_recovery`: a start could not
    recover the session, so the facts also recover it, with or without an open turn. Descendants are
    not considered: if the session ends, they are stopped at their next start.
    """
    at = max(at, session.updated_at)  # the clock may have been set back meanwhile
    recovers = needs_recovery or session.turn is not None
    last = records[-1].seq if records else 0
    facts = _recover(session, records, at, epoch) if recovers else ()
    ends = open_items([*records, *number_facts(session.id, facts, after=last)])
    return (*facts, *_end_facts(ends, records, at))


def _recover(
    session: SessionState, records: Sequence[Record], at: float, epoch: int | None
) -> tuple[Fact, ...]:
    turn = session.turn
    if session.phase is Phase.STOPPING and session.stopping is None:
        return ()  # not a row that we wrote; the table has no rule for it
    event = SupervisorRestarted(
        epoch=session.epoch + 1 if epoch is None else epoch,
        output=TurnOutput() if turn is None else turn_output(records, turn.id),
        at=at,
        fresh=TurnId("unused"),
        tree_view=_TREE_VIEW,
    )
    return decide(session, event).facts


def _end_facts(ends: Iterable[OpenItem], records: Sequence[Record], at: float) -> Iterator[Fact]:
    """Yield an end fact for each item, turn by turn, the end of the turn last."""
    turns: dict[TurnId | None, list[OpenItem]] = {}
    for end in ends:
        turns.setdefault(end.turn, []).append(end)
    for turn, left in turns.items():
        for kind in ("request", "call", "turn"):
            for end in left:
                if end.kind == kind:
                    yield _end_fact(end, turn, records, at)


def _end_fact(end: OpenItem, turn: TurnId | None, records: Sequence[Record], at: float) -> Fact:
    match end.kind:
        case "request":
            answer = {"request_id": end.id, "decision": "cancelled", "by": "turn"}
            return Fact("permission_answered", at, answer, turn)
        case "call":
            name = end.start_record.body["name"]
            ended = {"call_id": end.id, "name": name, "outcome": "interrupted", "result": None}
            return Fact("tool_ended", at, ended, turn)
        case "turn":
            return _turn_ended_fact(TurnId(end.id), end.start_record.at, records, at)


def _turn_ended_fact(turn: TurnId, began_at: float, records: Iterable[Record], at: float) -> Fact:
    """Return the end of a turn known only from its records; its duration ends with the last one."""
    of_turn = [record for record in records if record.turn_id == turn]
    output = turn_output(of_turn, turn)
    reports = (_usage(record.body) for record in of_turn if record.kind == "usage")
    usage = functools.reduce(Usage.__add__, reports, Usage())
    body = {
        "turn_id": turn,
        "outcome": "lost",
        "stop_reason": None,
        "text": output.text,
        "messages": output.messages,
        "error": _END_NOT_RECORDED,
        "zombie": False,
        "ladder_step": None,
        "seconds": max((record.at - began_at for record in of_turn), default=0.0),
        "usage": {
            "input_tokens": usage.input_tokens,
            "output_tokens": usage.output_tokens,
            "cost": usage.cost,
        },
    }
    if output.truncated:
        body["truncated"] = True
    return Fact("turn_ended", at, body, turn)


def _usage(body: Body) -> Usage:
    return Usage(body["input_tokens"], body["output_tokens"], body["cost"])


@attrs.frozen
class RepairResult:
    """The report, whose records are to be written, and the new row, None if it is unchanged."""

    report: RepairReport
    row: SessionState | None


def repair_refusal(
    session_id: SessionId,
    problems: Iterable[Problem],
    *,
    live: bool,
    dry_run: bool,
    force: bool,
) -> RepairRefused | None:
    """Return the error that forbids the repair, or None.

    A live session is not examined, because its open turn is not lost. `force` only overrides
    errors: the possible end records are appended to damaged records.
    """
    if live:
        return RepairRefused(f"session {session_id} is live", hint="stop it first, then repair it")
    errors = sum(problem.severity == "error" for problem in problems)
    if errors and not dry_run and not force:
        return RepairRefused(
            f"the records of session {session_id} have {errors} errors that cannot be repaired",
            hint="list the errors with dry_run; force closes open turns and calls nevertheless",
        )
    return None


def repair_records(
    session_id: SessionId,
    raw: Sequence[RawRecord],
    row: SessionState | None,
    *,
    at: float,
    last_seq: int,
    epoch: int | None = None,
    dry_run: bool = True,
    force: bool = False,
) -> RepairResult:
    """Examine a session that is not live, and close its open turns, calls and requests.

    Appended records are numbered after `last_seq`. Without a row nothing is appended. Raise
    `RepairRefused` if the records have errors and `force` is not set.
    """
    problems = tuple(examine(raw, row))
    refused = repair_refusal(session_id, problems, live=False, dry_run=dry_run, force=force)
    if refused is not None:
        raise refused
    facts = (
        () if row is None else closing_facts(row, readable_records(raw, row.id), at, epoch=epoch)
    )
    appended = number_facts(session_id, facts, after=last_seq)
    after = None if row is None or not facts else _folded(row, appended)
    return RepairResult(RepairReport(session_id, dry_run, problems, appended), after)


def repair_row(
    damaged: RawRow,
    raw: Sequence[RawRecord],
    snapshot: Snapshot | None,
    *,
    at: float,
    last_seq: int,
    dry_run: bool = True,
    force: bool = False,
) -> RepairResult:
    """Rebuild a row that cannot be read, then close open turns, calls and requests.

    The row is written under the epoch of the damaged row, since a session that cannot be read
    cannot be claimed. Raise `RepairRefused`, even with force, if the records do not yield a row.
    """
    session_id = damaged.session_id
    row = rebuild_row(damaged, raw, snapshot)
    problems = (*examine(raw, row), row_problem(damaged, row))
    if row is None and not dry_run:
        raise RepairRefused(
            f"the row of session {session_id} cannot be read or rebuilt from its records",
            hint="list the problems with dry_run; then restore a backup, or delete the session",
        )
    refused = repair_refusal(session_id, problems, live=False, dry_run=dry_run, force=force)
    if refused is not None:
        raise refused
    if row is None:
        return RepairResult(RepairReport(session_id, dry_run, problems), None)
    records = readable_records(raw, session_id)
    facts = closing_facts(row, records, at, epoch=damaged.epoch, needs_recovery=not row.is_inactive)
    appended = number_facts(session_id, facts, after=last_seq)
    report = RepairReport(session_id, dry_run, problems, appended, row_made=True)
    return RepairResult(report, _folded(row, appended))


def _folded(row: SessionState, appended: Iterable[Record]) -> SessionState:
    return functools.reduce(fold, map(fact_of, appended), row)
