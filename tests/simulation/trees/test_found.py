"""Schedules under which a tree once broke a guarantee, found by the long runs.

A seed names a schedule of the code at that time; after a change it names another one. They are kept
because they are cheap; each finding has a test of its own where possible.
"""

import pytest

from actors.testing import explore

from .attacks import ATTACKS, Attack
from .test_attacks import MAX_STEPS

FOUND = {
    # Resumed between stop and deletion: its usage was in no row.
    "wake_into_full_slots": (688,),
    # A stall was dated by its timer; the end of a child's turn did not count as progress.
    "stall": (493, 653, 1184, 1331, 822, 1119),
    # A spawn cancelled by the exit released its slot although the child was written.
    "exit_with_tree": (245, 1184, 1511),
    # A session that stopped during the delivery of an input was resumed without hooks; in 1168 the
    # oracle expected a turn reserved before its end.
    "hang_in_hooks": (4, 6, 14, 1080, 1168),
    # Its stop with the parent arrived after both had stopped and resumed.
    "spawn_below_suspended": (1349,),
    # The oracle used starts that were recorded after the stop order was fixed.
    "resume_below_stopping": (191, 348, 1402, 1615),
    # Claimed by another while notifications were pending, and never woken again.
    # A detached child was in the stop order of its parent, and the others waited for it.
    # The writer crashed while a session that was already deleted was forgotten.
    "fail_tree_writes": (686, 996, 83, 976, 572, 771, 1351),
}


@pytest.mark.parametrize(
    "attack",
    [attack for attack in ATTACKS if attack.__name__ in FOUND],
    ids=lambda attack: attack.__name__,
)
def test_a_found_schedule_stays_fixed(attack: Attack) -> None:
    assert (
        explore(attack, seeds=FOUND[attack.__name__], max_steps=MAX_STEPS, early_timeouts=True)
        == []
    )
