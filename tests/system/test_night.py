"""Hours of mixed load leave nothing behind: tasks, threads, descriptors, slots, timers, memory."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import trio

from actors.testing import VirtualClock
from supervisor.store.sqlite.reader import MAX_READERS
from tests.soak.night import Night, table

# Idle readers of the store stay open: the file, its log, and the index of the log.
FILES_OF_A_READER = 3
# The interpreter may keep a little more after later hours.
MAX_GROWTH = 1.05
# Of the anonymous memory, from the second to the last hour: the free memory of an allocator grows
# a little as long as its largest piece does not fit the next request.
MAX_ANONYMOUS_GROWTH = 1.1


def quiet_night(path: Path, *, hours: int, hour_seconds: float) -> Night:
    """Run a night; check that each hour ends with what the first hour ended with."""
    night = Night(path / "state.db", hours, hour_seconds)
    trio.run(night.run, clock=VirtualClock())
    shown = table(night.samples)
    assert len({sample.facts for sample in night.samples}) == 1, shown
    assert spread([sample.threads for sample in night.samples]) <= MAX_READERS, shown
    descriptors = [sample.descriptors for sample in night.samples]
    assert spread(descriptors) <= FILES_OF_A_READER * MAX_READERS, shown
    return night


def spread(counts: list[int]) -> int:
    return max(counts) - min(counts)


def test_minutes_of_mixed_load_leave_nothing_behind(tmp_path: Path) -> None:
    night = quiet_night(tmp_path, hours=2, hour_seconds=60.0)

    assert (night.samples[-1].slots, night.samples[-1].nodes) == (0, 0)
    assert night.turns > 50
    assert night.refusals > 0


@pytest.mark.soak
def test_eight_hours_of_mixed_load_leave_nothing_behind(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    night = quiet_night(tmp_path, hours=8, hour_seconds=3600.0)

    assert night.refusals > 0
    _, second, *_, last = night.samples
    assert last.objects < MAX_GROWTH * second.objects, table(night.samples)
    assert last.blocks < MAX_GROWTH * second.blocks, table(night.samples)
    assert last.anonymous_mb < MAX_ANONYMOUS_GROWTH * second.anonymous_mb, table(night.samples)
    record_property("covered", "8 hours of mixed load")
    record_property("covered", f"{night.turns} turns")
