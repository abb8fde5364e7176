"""What became of one input, picked out of what happened in its session."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from supervisor.core.ids import InputId, TurnId
from supervisor.core.records import Record

# Whatever becomes of an input, records of these kinds say so.
KINDS_OF_FATES: Final = frozenset({"input_accepted", "turn_started", "input_settled", "turn_ended"})


def fate_of(input_id: InputId, records: Iterable[Record]) -> list[Record]:
    """Of records in their order, those about the input; no more are taken than that needs."""
    fate: list[Record] = []
    turn: TurnId | None = None
    for record in records:
        if record.kind == "turn_ended":
            if turn is not None and record.body["turn_id"] == turn:
                return [*fate, record]
            continue
        if record.kind not in KINDS_OF_FATES or record.body["input_id"] != input_id:
            continue
        if not fate and record.kind != "input_accepted":
            continue  # whatever began the turn, no input that this session has accepted
        fate.append(record)
        if record.kind == "turn_started":
            turn = record.body["turn_id"]
        elif record.kind == "input_settled":
            if record.body["outcome"] == "steered":
                turn = record.turn_id
            elif record.body["outcome"] != "delivered":
                return fate
    return fate
