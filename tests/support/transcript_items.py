"""Records and deltas of one session for tests of transcripts."""

from __future__ import annotations

from typing import Any

from supervisor.core.ids import SessionId, TurnId
from supervisor.core.records import Delta, Record

SESSION = SessionId("s_1")
TURN = TurnId("turn_1")


class ItemMaker:
    """Makes records with the next number, and the time in tenths of a second."""

    def __init__(self) -> None:
        self.seq = 0

    def record(self, kind: Any, /, turn: TurnId | None = TURN, **body: Any) -> Record:  # noqa: ANN401 - any kind, any body
        self.seq += 1
        return Record(SESSION, self.seq, self.seq / 10, turn, kind, body)

    def turn(self, text: str = "go") -> list[Record]:
        """Return the first records of a turn."""
        return [
            self.record("turn_started", turn_id=TURN, input_id="in_1", source="user"),
            self.record("user_text", text=text, part="in_1"),
        ]

    def text(self, text: str, part: str = "p1", *, continues: bool = False) -> Record:
        return self.record("agent_text", text=text, part=part, continues=continues)

    def end(self, outcome: str = "completed", **fields: Any) -> Record:  # noqa: ANN401 - any body
        usage = {"input_tokens": 0, "output_tokens": 0, "cost": 0.0}
        body = {"outcome": outcome, "error": None, "seconds": 2.0, "usage": usage} | fields
        return self.record("turn_ended", **body)


def delta(text: str, part: str = "p1", offset: int = 0, kind: Any = "agent_text") -> Delta:  # noqa: ANN401 - any kind
    return Delta(SESSION, TURN, kind, part, offset, text)
