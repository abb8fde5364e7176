"""Many sessions in trees for many turns, in virtual time: all settle within the caps."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial

import attrs
import pytest
import trio

import supervisor
from actors.testing import VirtualClock
from supervisor import Limits, PythonAgent, Restart, Settings, SpawnRefused, SupervisorError, Turn
from supervisor.core.state import SessionState as Row
from supervisor.drivers.python import AgentDied

from .counting_store import RowCounter, counted_by

# One root, nine children, ten children of each: a hundred.
CHILDREN = (9, 10, 0)
TREE = 100
RUNNING_TURNS = 1_000
RULE = Restart(policy="on_crash", max_restarts=3, within_seconds=60.0, backoff_seconds=0.5)


@attrs.define(eq=False)
class LongRun:
    """`sessions` sessions with `turns` turns each; one turn in a hundred crashes its agent."""

    sessions: int
    turns: int
    seed: int = 0
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
        random.seed(f"long run {self.seed}")
        settings = Settings(
            limits=Limits(max_depth=2, max_children=10, max_descendants=99, max_spawns=99),
            max_sessions=self.sessions,
            max_running_turns=RUNNING_TURNS,
            restart=RULE,
            suspend_after_seconds=3600.0,
        )
        agent = PythonAgent("worker", self.work)
        with counted_by(self.counter):
            async with supervisor.open(agents=[agent], settings=settings) as sup:
                async with trio.open_nursery() as drivers:
                    self.counter.created = partial(self.begin, drivers, sup)
                    for _ in range(self.sessions // TREE):
                        await sup.create("worker")
                await self.compare(sup)

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
    trio.run(run.run, clock=VirtualClock())
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


# Many sessions at once, then many turns of each, in pieces: a million turns in all.
@pytest.mark.soak
@pytest.mark.parametrize(
    ("sessions", "turns", "seed"),
    [(10_000, 10, 0), *((1_000, 100, seed) for seed in range(1, 10))],
)
def test_sessions_of_a_long_run_settle_with_their_caps_kept(
    sessions: int, turns: int, seed: int, record_property: Callable[[str, object], None]
) -> None:
    run = checked_run(LongRun(sessions=sessions, turns=turns, seed=seed))

    assert run.counter.restarts + run.counter.crashed > 0.009 * sessions * turns
    record_property("covered", f"{run.counter.turns} turns")
