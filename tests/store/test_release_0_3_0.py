"""A session that release 0.3.0 stored: it keeps its old default, and has no outcome yet."""

from __future__ import annotations

from functools import reduce
from pathlib import Path
from typing import Any

import orjson

from supervisor.core import agent_events
from supervisor.core import events as ev
from supervisor.core.effects import SetRequestTimer
from supervisor.core.facts import fact_of
from supervisor.core.fold import fold, replay
from supervisor.core.ids import TurnId
from supervisor.core.info import make_info, need_of
from supervisor.core.records import Record
from supervisor.core.state import SessionState
from supervisor.core.table import decide
from supervisor.store.codec import decode, encode
from supervisor.store.examine import examine
from tests.support.raw_histories import as_raw

FILE = Path(__file__).parent / "fixtures" / "release_0_3_0.jsonl"
ROW, *RECORDS = FILE.read_bytes().splitlines()


def stored() -> tuple[SessionState, list[Record]]:
    return decode(ROW, SessionState), [decode(line, Record) for line in RECORDS]


def continued(session: SessionState, seq: int, *events: ev.Event) -> tuple[SessionState, list[Any]]:
    """Return the session after the events, and the effects; its facts fold to the same row."""
    effects: list[Any] = []
    for event in events:
        step = decide(session, event, seq)
        assert reduce(fold, step.facts, session) == step.state
        session, seq = step.state, seq + len(step.facts)
        effects += step.effects
    return session, effects


def test_a_row_of_release_0_3_0_equals_the_fold_of_its_records() -> None:
    row, records = stored()

    assert replay(records) == row
    assert examine(as_raw(records), row) == []
    assert orjson.loads(encode(row)) == orjson.loads(ROW)


def test_a_row_of_release_0_3_0_has_no_outcome_and_needs_nothing() -> None:
    row, records = stored()

    info = make_info(row, last_seq=len(records))

    assert (info.last_outcome, info.attention, info.seen_seq) == (None, (), 0)
    assert need_of(info) == "resting"


def test_a_session_of_release_0_3_0_keeps_five_minutes_for_requests() -> None:
    row, records = stored()
    common: dict[str, Any] = {"at": row.updated_at + 1.0, "fresh": TurnId("turn_new")}

    session, effects = continued(
        row,
        len(records),
        agent_events.Claimed(epoch=row.epoch + 1, **common),
        ev.InputSubmitted(input="in_new", text="go on", **common),  # type: ignore[arg-type]
        agent_events.PermissionAsked(
            turn=TurnId("turn_new"),
            request="req_1",  # type: ignore[arg-type]
            tool="bash",
            question="may I?",
            options=("allow_once", "reject_once"),
            **common,
        ),
        agent_events.TurnEnded(turn=TurnId("turn_new"), outcome="failed", error="no", **common),
    )

    assert SetRequestTimer("req_1", 300.0) in effects  # type: ignore[arg-type]
    assert [item.kind for item in session.attention] == ["failed_turn"]
    assert session.terms.permission_timeout_seconds == 300.0
    assert fact_of(records[0]).body["terms"]["permission_timeout_seconds"] == 300.0
