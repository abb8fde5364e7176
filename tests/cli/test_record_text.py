"""Records as lines of text: the counts of interrupts."""

from __future__ import annotations

from typing import Any

import pytest

from supervisor.cli.commands.log import body_text
from supervisor.core.ids import SessionId
from supervisor.core.records import Record
from supervisor.store.export.items import record_note

CALL: dict[str, Any] = {"scope": "tool_call", "call_id": "c1", "reason": "slow", "step": None}
TURN: dict[str, Any] = {"scope": "turn", "turn_id": "t1", "reason": "slow", "step": "ask"}
TREE: dict[str, Any] = {
    "scope": "tree",
    "reason": "slow",
    "step": "kill",
    "matched": 3,
    "stopped": 2,
    "already_over": 0,
    "unreachable": 1,
}


@pytest.mark.parametrize(
    ("body", "line", "note"),
    [
        (TURN, "turn, ask, slow", "The turn is interrupted (ask)"),
        (CALL, "tool_call, slow", "The tool call is interrupted"),
        (CALL | {"unreachable": 0}, "tool_call, slow", "The tool call is interrupted"),
        (
            CALL | {"unreachable": 1},
            "tool_call, slow, 1 unreachable",
            "The tool call cannot be interrupted",
        ),
        (
            TREE,
            "tree, kill, slow, 3 matched, 2 stopped, 1 unreachable",
            "The tree was interrupted",
        ),
    ],
)
def test_an_interrupt_is_shown_with_its_counts(body: dict[str, Any], line: str, note: str) -> None:
    record = Record(SessionId("s_1"), 1, 0.0, None, "interrupted", body)
    shown = record_note(record)

    assert body_text(record) == line
    assert shown is not None
    assert shown.text == note
