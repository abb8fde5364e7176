"""What can be wrong with the records of a session, and how bad that is."""

from __future__ import annotations

from typing import Literal, TypeAlias

import attrs

from supervisor.core.ids import SessionId
from supervisor.core.records import Record

# What each of them means stands where it is found: `reading` and `examining`.
Code: TypeAlias = Literal[
    "gap",
    "duplicate",
    "regression",
    "bad_json",
    "type_mismatch",
    "dangling_tool_call",
    "missing_terminal",
]

# error: the records do not tell the whole story, or not one story; what is appended to them is
#        appended to something that nobody can vouch for, and so only by force.
# warning: the story can be told, and something about it is not as it should be. What was left open
#        is closed by a repair, and a row that cannot be read is made anew; what lies in the wrong
#        order stays as it is.
# note: nothing is wrong; somebody who looks may want to know.
Severity: TypeAlias = Literal["error", "warning", "note"]


@attrs.frozen
class Problem:
    """One thing that is not as it should be; `seq` is None if it is about no number."""

    code: Code
    severity: Severity
    seq: int | None
    detail: str


@attrs.frozen
class RepairReport:
    """What was found, and what was appended for it; in a dry run, what would be."""

    session_id: SessionId
    dry_run: bool
    problems: tuple[Problem, ...]
    appended: tuple[Record, ...] = ()
    # Whether the row could not be read, and was made anew from the records.
    row_made: bool = False
