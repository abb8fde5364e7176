"""What is wrong with the records of a session, and with its row.

On top of what `reading` finds: `type_mismatch` also stands for a body that folding cannot take, or
takes and makes a row of that no store could keep; and for a row that is not what its records give,
since a row is nothing but their sum (invariant 39). The row is compared only where the records
have no errors: where they have, it is bound to differ.
`dangling_tool_call`: a call without an end, in a turn that is over or lost. `missing_terminal`: the
same of a turn, or of a request for permission. A turn that the row has open is only noted: nobody
has lost it yet, and whoever starts the session again closes it as a repair does.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import attrs

from supervisor.core.ids import SessionId
from supervisor.core.records import Record
from supervisor.core.session import Session
from supervisor.store.port import RawRecord

from .ends import LooseEnd, loose_ends
from .folding import fold_all
from .problems import Problem
from .reading import read


def examine(raw: Sequence[RawRecord], row: Session | None) -> list[Problem]:
    """All that is wrong, by number; what is about no number comes last. Never raises."""
    reading = read(raw, row.id if row is not None else _owner(raw))
    problems = [*reading.problems]
    folded, unfit = fold_all(reading.records)
    problems += unfit
    problems += _look_at_ends(reading.records, row)
    if not any(problem.severity == "error" for problem in problems):
        problems += _look_at_row(folded, row)
    return sorted(problems, key=lambda problem: (problem.seq is None, problem.seq or 0))


def _owner(raw: Iterable[RawRecord]) -> SessionId | None:
    found = (lying.session_id for lying in raw if type(lying.session_id) is str)
    return next((SessionId(name) for name in found), None)


def _look_at_ends(records: Iterable[Record], row: Session | None) -> Iterator[Problem]:
    # A session at rest has no open turn, whatever its row says.
    turn = row.turn if row is not None and not row.is_at_rest else None
    for end in loose_ends(records):
        seq = end.beginning.seq
        if turn is None or end.turn != turn.id:
            yield _left_open(end)
        elif end.thing == "turn":
            detail = f"turn {end.id} is still open in the row; a repair ends it as lost"
            yield Problem("missing_terminal", "note", seq, detail)


def _left_open(end: LooseEnd) -> Problem:
    seq = end.beginning.seq
    match end.thing:
        case "turn":
            detail = f"turn {end.id} has no end"
            return Problem("missing_terminal", "warning", seq, detail)
        case "call":
            detail = f"tool call {end.id} of turn {end.turn} has no end"
            return Problem("dangling_tool_call", "warning", seq, detail)
        case "request":
            detail = f"request {end.id} of turn {end.turn} was never answered"
            return Problem("missing_terminal", "warning", seq, detail)


def _look_at_row(folded: Session | None, row: Session | None) -> Iterator[Problem]:
    if folded is None and row is not None:
        yield Problem("gap", "error", 1, "there is a row, and not one record")
    elif folded is not None and row is None:
        yield Problem("type_mismatch", "error", None, "there are records, and no row")
    elif folded is not None and row is not None and folded != row:
        names = ", ".join(_differences(folded, row))
        detail = f"the row is not what the records give: {names} differ"
        yield Problem("type_mismatch", "error", None, detail)


def _differences(one: Session, other: Session) -> list[str]:
    names = (field.name for field in attrs.fields(Session))
    return [name for name in names if getattr(one, name) != getattr(other, name)]
