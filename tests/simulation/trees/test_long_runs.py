"""Many sessions in trees for many turns, in virtual time: all settle within the caps."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial
from pathlib import Path

import attrs
import pytest
import trio

import supervisor
from actors.testing import VirtualClock
from supervisor import Limits, PythonAgent, Restart, Settings, SpawnRefused, SupervisorError, Turn
from supervisor.core.state import SessionState as Row
from supervisor.drivers.python import AgentDied
from tests.soak.pieces import FOLDER

from .counting_store import RowCounter, counted_by
from .saved_run import SavedRun

# One root, nine children, ten children of each: a hundred.
CHILDREN = (9, 10, 0)
TREE = 100
RUNNING_TURNS = 1_000
# Of the run with ten thousand sessions.
PARTS = 10
TURNS_OF_A_PART = 10
RULE = Restart(policy="on_crash", max_restarts=3, within_seconds=60.0, backoff_seconds=0.5)


@attrs.define(eq=False)
class LongRun:
    """`sessions` sessions with `turns` turns each; one turn in a hundred crashes its agent.

    A run that continues another one counts the turns of both.
    """

    sessions: int
    turns: int
    seed: int = 0
    continued: SavedRun | None = None
    saved: SavedRun | None = None  # set at the end
    counter: RowCounter = attrs.Factory(RowCounter)
    # Number of missing children by session.
    missing: dict[str, int] = attrs.Factory(dict)
    # Set when no session is missing: a spawn needs a free turn slot, and sessions with all
    # their children would take every slot.
    is_complete: trio.Event = attrs.Factory(trio.Event)
    settled: int = 0
    given_up: int = 0
    refused: int = 0

    async def run(self) -> None:
        # A continued run makes other ids than the run before it.
        random.seed(f"long run {self.seed} {self.turns}")
        settings = Settings(
            limits=Limits(max_depth=2, max_children=10, max_descendants=99, max_spawns=99),
            max_sessions=self.sessions,
            max_running_turns=RUNNING_TURNS,
            restart=RULE,
            suspend_after_seconds=3600.0,
        )
        agent = PythonAgent("worker", self.work)
        with counted_by(self.counter) as store:
            if self.continued is not None:
                self.continued.load(store, self.counter)
            async with supervisor.open(agents=[agent], settings=settings) as sup:
                async with trio.open_nursery() as drivers:
                    self.counter.created = partial(self.begin, drivers, sup)
                    for row in [*self.counter.rows.values()]:
                        self.begin(drivers, sup, row)
                    for _ in range((self.sessions - len(self.counter.rows)) // TREE):
                        await sup.create("worker")
                await self.compare(sup)
            self.saved = SavedRun.take(store, self.counter, trio.current_time())

    def begin(self, drivers: trio.Nursery, sup: supervisor.Supervisor, row: Row) -> None:
        self.missing[row.id] = CHILDREN[row.lineage.depth]
        if row.lineage.parent is not None:
            self.missing[row.lineage.parent] -= 1
        if len(self.missing) == self.sessions:
            self.is_complete.set()
        drivers.start_soon(self.drive, sup, row)

    async def drive(self, sup: supervisor.Supervisor, row: Row) -> None:
        """Run turn after turn; resume the session when its restarts are exhausted."""
        session, done = sup.session(row.id), 0
        while done < self.turns or self.missing[row.id]:
            if not self.missing[row.id]:
                await self.is_complete.wait()
            try:
                await session.prompt("go")
            except SupervisorError:
                await self.bring_back(session)
            done = (await session.info()).turns
        self.settled += 1

    async def bring_back(self, session: supervisor.Session) -> None:
        """Resume a session after it or an ancestor exhausted its restarts."""
        self.given_up += 1
        await session.wait_stopped()
        while True:
            await trio.sleep(random.random())
            try:
                await session.resume()
            except SupervisorError:
                continue
            return

    async def work(self, turn: Turn) -> None:
        """Spawn missing children, work a little, and sometimes crash."""
        try:
            while self.missing[turn.session_id]:
                await turn.spawn("worker", "go")
        except SpawnRefused as refusal:
            # Waiting for a turn slot inside a turn could deadlock.
            known = refusal.limit in ("max_running_turns", "parent")
            self.counter.check(known, repr(refusal))
            self.refused += 1
        await trio.sleep(random.random())
        if random.random() < 0.01:
            raise AgentDied("one in a hundred")

    async def compare(self, sup: supervisor.Supervisor) -> None:
        """Check that the tree of the admission equals the rows."""
        tree, counter = sup._parts.admission.tree, self.counter
        assert (len(tree.live), len(tree.turn_slots)) == (counter.live, counter.running)
        for session_id, up in counter.up.items():
            member = tree.find(session_id)
            assert member is not None
            assert member.active_children == up
        for root in [node for node in tree._nodes.values() if node.parent is None]:
            assert root.descendant_count == counter.below[root.id]
            assert root.spawns == TREE - 1
            assert root.spent.turns == sum(
                row.turns for row in counter.rows.values() if root.id in (row.id, row.lineage.root)
            )
        await trio.lowlevel.checkpoint()


def checked_run(run: LongRun) -> LongRun:
    clock = VirtualClock()
    if run.continued is not None:
        clock._jump(run.continued.virtual_seconds)
    trio.run(run.run, clock=clock)
    counter = run.counter
    assert counter.violations == []
    assert run.settled == run.sessions
    assert counter.most_live <= run.sessions == len(counter.rows)
    assert counter.most_running <= RUNNING_TURNS
    assert counter.turns >= run.sessions * run.turns
    return run


def test_a_few_trees_settle_with_their_caps_kept() -> None:
    run = checked_run(LongRun(sessions=TREE, turns=5))

    assert run.counter.restarts > 0


def test_a_run_continues_from_its_file(tmp_path: Path) -> None:
    path = tmp_path / "run.json.gz"
    first = checked_run(LongRun(sessions=TREE, turns=3))
    assert first.saved is not None
    first.saved.write(path)

    second = checked_run(LongRun(sessions=TREE, turns=6, continued=SavedRun.read(path)))

    assert second.counter.rows.keys() == first.counter.rows.keys()
    assert second.counter.turns >= 6 * TREE > first.counter.turns
    assert second.saved is not None
    assert second.saved.virtual_seconds > first.saved.virtual_seconds


# Many turns of each session, under other seeds.
@pytest.mark.soak(per_piece=1)
@pytest.mark.parametrize("seed", range(1, 4))
def test_sessions_of_a_long_run_settle_with_their_caps_kept(
    seed: int, record_property: Callable[[str, object], None]
) -> None:
    run = checked_run(LongRun(sessions=1_000, turns=100, seed=seed))

    check_crashes(run)
    record_property("covered", f"{run.counter.turns} turns")


# Many sessions at once and many turns of each, a million in all: too long for one process.
@pytest.mark.soak(in_order=True)
@pytest.mark.parametrize("part", range(1, PARTS + 1))
def test_ten_thousand_sessions_settle_after_each_part_of_a_hundred_turns(
    part: int, record_property: Callable[[str, object], None]
) -> None:
    before = None if part == 1 else SavedRun.read(saved_path(part - 1))
    run = checked_run(LongRun(sessions=10_000, turns=TURNS_OF_A_PART * part, continued=before))

    check_crashes(run)
    assert run.saved is not None
    run.saved.write(saved_path(part))
    earlier = 0 if before is None else before.turns
    record_property("covered", f"{run.counter.turns - earlier} turns")


def check_crashes(run: LongRun) -> None:
    counter = run.counter
    assert counter.restarts + counter.crashed > 0.009 * run.sessions * run.turns


def saved_path(part: int) -> Path:
    return FOLDER / f"ten_thousand_sessions_{part}.json.gz"
