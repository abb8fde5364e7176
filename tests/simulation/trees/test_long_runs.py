"""Many sessions in trees for many turns, in virtual time: all settle, and no cap is exceeded."""

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
from supervisor.core.session import Session as Row
from supervisor.drivers.python import AgentDied

from .forgetful import Judge, judged_by

# One root, nine children, ten children of each: a hundred.
CHILDREN = (9, 10, 0)
TREE = 100
RUNNING_TURNS = 1_000
RULE = Restart(policy="on_crash", max_restarts=3, within_seconds=60.0, backoff_seconds=0.5)


@attrs.define(eq=False)
class LongRun:
    """So many sessions, so many turns each, one agent in a hundred turns dies."""

    sessions: int
    turns: int
    judge: Judge = attrs.Factory(Judge)
    # Who has children yet to come, and how many.
    missing: dict[str, int] = attrs.Factory(dict)
    # Set when nobody is missing: a spawn needs a turn that is free, and those who have all their
    # children would take each of them, a thousand at a time.
    is_complete: trio.Event = attrs.Factory(trio.Event)
    settled: int = 0
    given_up: int = 0
    refused: int = 0

    async def run(self) -> None:
        random.seed("long run")
        settings = Settings(
            limits=Limits(max_depth=2, max_children=10, max_descendants=99, max_spawns=99),
            max_sessions=self.sessions,
            max_running_turns=RUNNING_TURNS,
            restart=RULE,
            suspend_after_seconds=3600.0,
        )
        agent = PythonAgent("worker", self.work)
        with judged_by(self.judge):
            async with supervisor.open(agents=[agent], settings=settings) as sup:
                async with trio.open_nursery() as drivers:
                    self.judge.created = partial(self.begin, drivers, sup)
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
        """Turn after turn, and resumed when its agent has died too often."""
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
        """Its agent died too often, or that of somebody above it, who has to be back first."""
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
        """A little work; while there is room for it, children; now and then a death."""
        try:
            while self.missing[turn.session_id]:
                await turn.spawn("worker", "go")
        except SpawnRefused as refusal:
            # Whoever kept a turn to wait for another one's might wait for ever.
            known = refusal.limit in ("max_running_turns", "parent")
            self.judge.check(known, repr(refusal))
            self.refused += 1
        await trio.sleep(random.random())
        if random.random() < 0.01:
            raise AgentDied("one in a hundred")

    async def compare(self, sup: supervisor.Supervisor) -> None:
        """What the desk keeps is what the rows say."""
        ledger, judge = sup._house.desk.ledger, self.judge
        assert (len(ledger.live), len(ledger.turns)) == (judge.live, judge.running)
        for session_id, up in judge.up.items():
            member = ledger.find(session_id)
            assert member is not None
            assert member.up == up
        for root in [page for page in ledger._members.values() if page.parent is None]:
            assert root.descendants == judge.below[root.id]
            assert root.spawns == TREE - 1
            assert root.spent.turns == sum(
                row.turns for row in judge.rows.values() if root.id in (row.id, row.lineage.root)
            )
        await trio.lowlevel.checkpoint()


def judged(run: LongRun) -> LongRun:
    trio.run(run.run, clock=VirtualClock())
    judge = run.judge
    assert judge.broken == []
    assert run.settled == run.sessions
    assert judge.most_live <= run.sessions == len(judge.rows)
    assert judge.most_running <= RUNNING_TURNS
    assert judge.turns >= run.sessions * run.turns
    return run


def test_a_few_trees_settle_with_their_caps_kept() -> None:
    run = judged(LongRun(sessions=TREE, turns=5))

    assert run.judge.restarts > 0


@pytest.mark.soak
def test_ten_thousand_sessions_settle_with_their_caps_kept(
    record_property: Callable[[str, object], None],
) -> None:
    run = judged(LongRun(sessions=10_000, turns=100))

    assert run.judge.restarts + run.judge.crashed > 9_000
    record_property(
        "turns, restarts, given up", (run.judge.turns, run.judge.restarts, run.given_up)
    )
