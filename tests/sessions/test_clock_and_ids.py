"""Stamps follow the wall clock, steady time does not; names are never used twice."""

from __future__ import annotations

import random
import re
import time
from collections import Counter
from collections.abc import Callable

import pytest
import trio

import supervisor
from supervisor.core.ids import parse_session_id
from supervisor.sessions.clock import Clock
from supervisor.sessions.services import Ids


class Wall:
    """A wall clock that people set as they like."""

    def __init__(self, now: float) -> None:
        self.now = now

    def time(self) -> float:
        return self.now


@pytest.fixture
def wall(monkeypatch: pytest.MonkeyPatch) -> Wall:
    made = Wall(now=1_700_000_000.0)
    monkeypatch.setattr(time, "time", made.time)
    return made


def on_a_real_clock(look: Callable[[Clock], list[float]]) -> list[float]:
    async def main() -> list[float]:
        await trio.lowlevel.checkpoint()
        return look(Clock())

    return trio.run(main)


async def test_stamps_go_by_virtual_time_where_time_is_virtual() -> None:
    clock = Clock()
    before = clock.now()

    await trio.sleep(3600.0)

    assert clock.now() == before + 3600.0


async def test_time_stamps_under_a_virtual_clock_ignore_the_wall_clock(wall: Wall) -> None:
    clock = Clock()
    before = clock.now()

    wall.now += 1e6

    assert clock.now() == before


def test_stamps_begin_at_the_wall_clock(wall: Wall) -> None:
    [stamp] = on_a_real_clock(lambda clock: [clock.now()])

    assert stamp == pytest.approx(wall.now, abs=0.9)


@pytest.mark.parametrize(("back", "held"), [(0.9, True), (1.1, False), (1e6, False)])
def test_stamps_wait_for_a_small_step_back_and_follow_others(
    wall: Wall, back: float, *, held: bool
) -> None:
    def look(clock: Clock) -> list[float]:
        before = clock.now()
        wall.now -= back
        return [before, clock.now()]

    before, after = on_a_real_clock(look)

    assert after == (before if held else wall.now)


def test_stamps_catch_up_when_the_machine_has_slept(wall: Wall) -> None:
    def look(clock: Clock) -> list[float]:
        clock.now()
        wall.now += 8 * 3600.0
        return [clock.now()]

    [stamp] = on_a_real_clock(look)

    assert stamp == pytest.approx(wall.now, abs=1.5)


def test_steady_time_ignores_every_jump_of_the_wall_clock(wall: Wall) -> None:
    def look(clock: Clock) -> list[float]:
        times = []
        for jump in (0.0, 30.0, -7200.0, 3600.0, -1e9, 2e9, 0.5):
            wall.now += jump
            clock.now()
            times.append(clock.steady())
        return times

    times = on_a_real_clock(look)

    assert times == sorted(times)
    assert times[-1] < times[0] + 60.0


def test_ids_match_the_id_pattern_and_have_a_prefix_of_their_kind() -> None:
    made = Ids().new("s")

    assert parse_session_id(made) == made
    assert re.fullmatch(r"s_[0-9a-z]{12}", made)


def test_ids_are_unique() -> None:
    ids = Ids()

    made = [ids.new("turn") for _ in range(10_000)]

    assert len(set(made)) == 10_000


def test_two_runs_do_not_make_the_same_ids() -> None:
    assert Ids().new("s") != Ids().new("s")


def test_the_same_seed_makes_the_same_ids() -> None:
    import random  # noqa: PLC0415 - its state is put back below

    before = random.getstate()
    try:
        random.seed(7)
        first = Ids().new("s")
        random.seed(7)
        again = Ids().new("s")
    finally:
        random.setstate(before)

    assert first == again


def test_every_character_of_an_id_is_as_likely_as_the_others() -> None:
    ids = Ids(random.Random(7))

    seen = Counter("".join(ids.new("")[1:] for _ in range(30_000)))

    assert len(seen) == 36
    assert max(seen.values()) < 1.06 * min(seen.values())


async def test_another_id_is_drawn_for_a_session_if_the_first_is_taken(
    sup: supervisor.Supervisor, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, ids = await sup.create("echo"), sup._services.ids
    drawn = iter([first.id, first.id])
    monkeypatch.setattr(ids, "new", lambda prefix: next(drawn, None) or Ids.new(ids, prefix))

    second = await sup.create("echo")

    assert second != first
    assert (await first.prompt("hello")).text == "hello"
