"""The unfinished lines of all agents together are bounded, and none waits for ever."""

from __future__ import annotations

import attrs
import pytest
import trio

from actors.testing import VirtualClock, settle
from supervisor.json_rpc.line_budget import FREE_BYTES, STUCK_SECONDS, LineBudget, LineShare

MAX_BYTES = 4 * FREE_BYTES
CHUNK = FREE_BYTES // 4
AGENTS = 16


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@attrs.define(eq=False)
class Agent:
    """An agent that writes a line of `length` bytes, and stops after `stops_after`."""

    budget: LineBudget
    length: int
    stops_after: float = float("inf")
    starts_at: float = 0.0
    unfinished: int = 0
    is_dropped: bool = False
    is_done: bool = False
    share: LineShare = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.share = self.budget.share(self.drop)

    def drop(self) -> None:
        self.is_dropped, self.unfinished = True, 0

    async def run(self) -> None:
        await trio.sleep(self.starts_at)
        while self.unfinished < self.length:
            await self.share.wait()
            if self.unfinished >= self.stops_after:
                await trio.sleep_forever()
            await trio.sleep(0.001)
            self.share.begin_messages(CHUNK)
            self.unfinished += CHUNK
            self.share.end_messages(self.unfinished)
        await trio.sleep(0.001)
        self.is_done = True
        self.share.end_messages(0)


async def run_agents(agents: list[Agent], budget: LineBudget) -> int:
    """Run the agents to their ends; return the most bytes in their lines."""
    most = 0
    async with trio.open_nursery() as nursery:
        for agent in agents:
            nursery.start_soon(agent.run)
        with trio.move_on_after(100.0):
            while not all(agent.is_done or agent.is_dropped for agent in agents):
                await trio.sleep(0.0005)
                most = max(most, budget.bytes)
        nursery.cancel_scope.cancel()
    return most


def test_long_lines_of_many_agents_stay_within_the_bound(clock: VirtualClock) -> None:
    budget, length = LineBudget(MAX_BYTES), 3 * MAX_BYTES
    agents = [Agent(budget, length) for _ in range(AGENTS)]

    most = trio.run(run_agents, agents, budget, clock=clock)

    assert all(agent.is_done for agent in agents)
    # The line of one agent, and of each other agent what it may always have.
    assert most <= MAX_BYTES + length + AGENTS * (FREE_BYTES + CHUNK)
    assert most < AGENTS * length / 3
    assert budget.bytes == budget.waiting == 0


def test_an_agent_with_a_short_line_never_waits(clock: VirtualClock) -> None:
    async def main() -> None:
        budget = LineBudget(MAX_BYTES)
        long = budget.share(lambda: None)
        long.end_messages(2 * MAX_BYTES)
        short = budget.share(lambda: None)
        short.end_messages(FREE_BYTES)
        with trio.fail_after(1.0):
            await long.wait()
            await short.wait()

    trio.run(main, clock=clock)


def test_a_line_that_is_stuck_is_dropped_when_another_agent_waits(clock: VirtualClock) -> None:
    budget, length = LineBudget(MAX_BYTES), 2 * MAX_BYTES
    stuck = Agent(budget, length, stops_after=MAX_BYTES + CHUNK)
    other = Agent(budget, length, starts_at=1.0)

    trio.run(run_agents, [stuck, other], budget, clock=clock)

    assert stuck.is_dropped
    assert other.is_done
    assert not other.is_dropped
    assert clock.current_time() >= STUCK_SECONDS


def test_a_stuck_line_is_kept_while_no_agent_waits(clock: VirtualClock) -> None:
    async def main() -> bool:
        budget = LineBudget(MAX_BYTES)
        stuck = Agent(budget, 2 * MAX_BYTES, stops_after=MAX_BYTES + CHUNK)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(stuck.run)
            await trio.sleep(10 * STUCK_SECONDS)
            nursery.cancel_scope.cancel()
        return stuck.is_dropped

    assert not trio.run(main, clock=clock)


def test_a_message_that_is_handled_for_long_is_not_dropped(clock: VirtualClock) -> None:
    async def main() -> list[str]:
        dropped: list[str] = []
        budget = LineBudget(MAX_BYTES)
        slow = budget.share(lambda: dropped.append("slow"))
        slow.end_messages(2 * MAX_BYTES)
        await slow.wait()
        slow.begin_messages(CHUNK)
        other = budget.share(lambda: dropped.append("other"))
        other.end_messages(2 * FREE_BYTES)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(other.wait)
            await trio.sleep(10 * STUCK_SECONDS)
            assert budget.waiting == 1
            slow.end_messages(0)
            await settle()
            assert budget.waiting == 0
        return dropped

    assert trio.run(main, clock=clock) == []


def test_a_higher_bound_wakes_waiting_agents(clock: VirtualClock) -> None:
    async def main() -> None:
        budget = LineBudget(MAX_BYTES)
        shares = [budget.share(lambda: None) for _ in range(2)]
        for share in shares:
            share.end_messages(MAX_BYTES)
        await shares[0].wait()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(shares[1].wait)
            await settle()
            assert budget.waiting == 1
            budget.set_limit(2 * MAX_BYTES)
            with trio.fail_after(STUCK_SECONDS / 2):
                while budget.waiting:
                    await settle()

    trio.run(main, clock=clock)
