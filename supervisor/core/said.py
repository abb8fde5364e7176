"""What an agent has said in a turn, as far as it was written down."""

from __future__ import annotations

from collections.abc import Iterable

from .events import Said
from .ids import TurnId
from .records import Record


def said_in(records: Iterable[Record], turn: TurnId) -> Said:
    """All of its text, and in how many messages; what is damaged, and has none, is left out."""
    mine = [
        record.body
        for record in records
        if record.turn_id == turn
        and record.kind == "agent_text"
        and isinstance(record.body.get("text"), str)
    ]
    text = "".join(body["text"] for body in mine)
    return Said(text, sum(not body.get("continues") for body in mine))
