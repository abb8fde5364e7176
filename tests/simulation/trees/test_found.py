"""Schedules under which a tree once broke a promise, found by the long runs.

A seed names a schedule of the code as it was: when the code changes, it names another one. So these
are kept because they are cheap; what they found has a test of its own where one could be written.
"""

import pytest

from actors.testing import explore

from .attacks import ATTACKS, Attack
from .test_attacks import MAX_STEPS

FOUND = {
    # Brought back between the stop and the deletion: what it reported was in no row.
    "wake_up_into_a_full_house": (688,),
    # A silence was said as of when its timer rang; the end of a child's turn was no progress.
    "stall": (493, 653, 1184, 1331, 822, 1119),
    # A spawn that leaving cut short gave its place back, though the child was written.
    "leave_a_tree": (245, 1184, 1511),
    # A session that stopped on the way of an input was brought back unasked; and 1168, in which the
    # referee held it to a promise of before its end.
    "hang_at_the_doors": (4, 6, 14, 1080, 1168),
    # Told to end with its parent, and heard of it when both had ended and come back.
    "spawn_below_a_sleeper": (1349,),
    # The referee went by starts that were told when the order to end was given already.
    "come_back": (191, 348, 1402, 1615),
    # Taken away from the side while it had news to hear, and never called again.
    # A child that outlives its parent stood in line to end with it, and the others waited for it.
    "trouble_a_tree": (686, 996, 83, 976),
}


@pytest.mark.parametrize(
    "attack",
    [attack for attack in ATTACKS if attack.__name__ in FOUND],
    ids=lambda attack: attack.__name__,
)
def test_what_was_found_stays_mended(attack: Attack) -> None:
    assert explore(attack, seeds=FOUND[attack.__name__], max_steps=MAX_STEPS) == []
