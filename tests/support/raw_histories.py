"""Histories as raw records, and functions that damage them."""

from __future__ import annotations

import functools
import json
from collections.abc import Iterable
from typing import TypeAlias

import attrs
from hypothesis import strategies as st

from supervisor.core.creation import SessionSpec, create
from supervisor.core.facts import Fact, number_facts
from supervisor.core.fold import replay
from supervisor.core.ids import TurnId
from supervisor.core.records import Body, Record, RecordKind
from supervisor.core.state import SessionState
from supervisor.store.examine import Problem
from supervisor.store.port import RawRecord
from tests.support.store_samples import ONE, random_session

SEEDS = 80
Raw: TypeAlias = list[RawRecord]
LOST = TurnId("turn_lost")


def as_raw(records: Iterable[Record]) -> Raw:
    """Return the records undecoded, as they are in the file."""
    return [
        RawRecord(place, r.session_id, r.seq, r.at, r.turn_id, r.kind, json.dumps(r.body))
        for place, r in enumerate(records, 100)
    ]


def in_file_order(raw: Iterable[RawRecord]) -> Raw:
    return [attrs.evolve(one, position=place) for place, one in enumerate(raw)]


@functools.cache
def random_history(seed: int) -> tuple[tuple[Record, ...], SessionState]:
    facts = [fact for _, facts, _ in random_session(seed, 40) for fact in facts]
    records = number_facts(ONE, facts, after=0)
    return records, folded_row(records)


def folded_row(records: Iterable[Record]) -> SessionState:
    session = replay(records)
    assert session is not None
    return session


def history_of(
    *facts: tuple[RecordKind, Body, TurnId | None],
) -> tuple[tuple[Record, ...], SessionState]:
    """Return the records of a session with these facts, one a second, and its row."""
    _, born = create(ONE, SessionSpec(agent="echo"), at=1.0)
    rest = (Fact(kind, at, body, turn) for at, (kind, body, turn) in enumerate(facts, 2))
    records = number_facts(ONE, (*born, *rest), after=0)
    return records, folded_row(records)


def began(turn: TurnId = LOST) -> tuple[RecordKind, Body, TurnId]:
    return "turn_started", {"turn_id": turn, "input_id": "in_1", "source": "user"}, turn


def called(call: str = "c_1", turn: TurnId = LOST) -> tuple[RecordKind, Body, TurnId]:
    return "tool_call", {"call_id": call, "name": "bash", "input": {}, "cancellable": True}, turn


def asked(request: str = "r_1", turn: TurnId = LOST) -> tuple[RecordKind, Body, TurnId]:
    body: Body = {"tool": "bash", "question": "?", "input": None, "options": [], "asks": "person"}
    return "permission_asked", {"request_id": request, **body}, turn


def ended(turn: TurnId) -> tuple[RecordKind, Body, TurnId]:
    body = {"outcome": "completed", "stop_reason": None, "text": "", "error": None, "messages": 0}
    more: Body = {"zombie": False, "ladder_step": None, "usage": {}, "seconds": 1.0}
    return "turn_ended", {"turn_id": turn, **body, **more}, turn


def codes(problems: Iterable[Problem]) -> list[tuple[str, str, int | None]]:
    return [(problem.code, problem.severity, problem.seq) for problem in problems]


histories = st.integers(0, SEEDS).map(random_history)
