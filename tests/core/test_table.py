"""The table proves itself: total, and every arrow drawn is taken."""

from itertools import product

from supervisor.core.events import EVENTS
from supervisor.core.state import Phase
from supervisor.core.table import ROWS, decide
from tests.support.event_histories import history

HISTORIES = 7_000
LENGTH = 60


def test_every_phase_has_one_row_for_every_event() -> None:
    pairs = [(row.phase, row.event) for row in ROWS]

    assert set(pairs) == set(product(Phase, EVENTS))
    assert len(pairs) == len(set(pairs))


def test_every_arrow_drawn_is_taken_and_no_other() -> None:
    taken = {
        (session.phase, type(event), decide(session, event).state.phase)
        for seed in range(HISTORIES)
        for session, event in history(seed, LENGTH)
    }
    drawn = {(row.phase, row.event, phase) for row in ROWS for phase in row.next_phases}

    assert taken - drawn == set()
    assert drawn - taken == set()
