"""Folding records that nobody has vouched for."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from supervisor.core.folds import begin, fold
from supervisor.core.records import Record
from supervisor.core.session import Session
from supervisor.store.codec import decode, encode
from supervisor.store.shapes import FLAT

from .problems import Problem

_DETAIL_LETTERS: Final = 200


def fold_all(
    records: Iterable[Record], session: Session | None = None
) -> tuple[Session | None, list[Problem]]:
    """The session that they make, without those that do not fit; None if it cannot be begun.

    With a session they go on from there. Never raises.
    """
    problems = []
    for record in records:
        if session is None and record.seq > 1:
            break
        try:
            after = (
                begin(record.session_id, record.fact)
                if session is None
                else fold(session, record.fact)
            )
            if record.kind not in FLAT and after is not session:
                decode(encode(after), Session)
        except Exception as error:  # noqa: BLE001 - whatever folding makes of what nobody checked
            problems.append(_unfit(record, error))
        else:
            session = after
    return session, problems


def _unfit(record: Record, error: Exception) -> Problem:
    why = ascii(f"{type(error).__name__}: {error}")[1:-1][:_DETAIL_LETTERS]
    detail = f"number {record.seq} is a {record.kind} that cannot be folded: {why}"
    return Problem("type_mismatch", "error", record.seq, detail)
