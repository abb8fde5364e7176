"""The table proves itself: total, and every arrow drawn is taken."""

from itertools import product

from supervisor.core.events import EVENTS
from supervisor.core.session import Phase
from supervisor.core.table import ROWS, decide
from tests.core.histories import history

HISTORIES = 2_500
LENGTH = 60


def test_every_phase_has_exactly_one_answer_to_every_event() -> None:
    pairs = [(row.when, row.told) for row in ROWS]

    assert set(pairs) == set(product(Phase, EVENTS))
    assert len(pairs) == len(set(pairs))


def test_every_arrow_drawn_is_taken_and_no_other() -> None:
    taken = {
        (session.phase, type(event), decide(session, event).session.phase)
        for seed in range(HISTORIES)
        for session, event in history(seed, LENGTH)
    }
    drawn = {(row.when, row.told, phase) for row in ROWS for phase in row.becomes}

    assert taken - drawn == set()
    assert drawn - taken == set()
