"""The words in the columns of `top`."""

import pytest

from supervisor.cli import session_cells
from supervisor.cli.screens.top_columns import COLUMNS, state_cell
from supervisor.cli.screens.top_order import Entry, need_of_row
from supervisor.core.ids import TurnId
from supervisor.core.session_values import Attention, AttentionKind, LastOutcome, Outcome, Phase
from tests.support.row_builders import NOW, make_row


def shown_state(outcome: Outcome, *kinds: AttentionKind, seen_seq: int = 0) -> str:
    ended = LastOutcome(outcome, "why", NOW - 90, TurnId("turn_1"), 5)
    attention = tuple(Attention(kind, "why", NOW - 90, 5) for kind in kinds)
    row = make_row("a", last_outcome=ended, attention=attention, seen_seq=seen_seq)
    need = need_of_row(row)
    text = state_cell(Entry(row, need, NOW)).text

    assert text in (session_cells.state_cell(row, need).text, "no spawn")
    assert len(text) <= next(one.width for one in COLUMNS if one.name == "state")
    return text


@pytest.mark.parametrize(
    ("outcome", "text"),
    [
        ("failed", "idle, failed"),
        ("lost", "idle, lost"),
        ("interrupted", "idle"),
        ("completed", "idle"),
    ],
)
def test_a_failure_that_was_seen_does_not_look_like_success(outcome: Outcome, text: str) -> None:
    assert shown_state(outcome, seen_seq=9) == text


@pytest.mark.parametrize(
    ("outcome", "text"),
    [("interrupted", "interrupted"), ("completed", "finished"), ("timed_out", "timed out")],
)
def test_an_end_that_was_not_seen_is_named(outcome: Outcome, text: str) -> None:
    assert shown_state(outcome) == text


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("failed_session", "failed"),
        ("budget", "over budget"),
        ("permission_timeout", "unanswered"),
        ("refused_spawn", "no spawn"),
        ("lost_turn", "turn lost"),
    ],
)
def test_a_failure_has_the_word_of_ps(kind: AttentionKind, text: str) -> None:
    assert shown_state("completed", kind) == text


def test_an_outcome_beside_a_long_badge_is_not_cut() -> None:
    ended = LastOutcome("lost", "why", NOW - 90, TurnId("turn_1"), 5)
    rests = {"phase": Phase.SUSPENDED, "badge": "suspended", "seen_seq": 9}
    row = make_row("a", last_outcome=ended, **rests)

    assert state_cell(Entry(row, need_of_row(row), NOW)).text == "lost"
