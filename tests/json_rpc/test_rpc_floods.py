"""Floods of an agent: long unfinished lines, and messages without output."""

from __future__ import annotations

from contextlib import AsyncExitStack

import trio

from actors.testing import settle
from supervisor.json_rpc.line_budget import FREE_BYTES, STUCK_SECONDS, LineBudget
from supervisor.json_rpc.request_budget import RequestBudget
from supervisor.json_rpc.rpc_connection import MESSAGES_PER_CHECKPOINT
from supervisor.json_rpc.rpc_handlers import RpcHandlers
from supervisor.json_rpc.rpc_messages import RpcNotification, RpcRequest
from tests.support.rpc_peer import FarEnd, connected

MAX_BYTES = 2 * FREE_BYTES
AGENTS = 16
CHUNK = b"x" * (FREE_BYTES // 4)
CHUNKS = 12


class Numbers:
    """Handler of a notification; keeps the numbers of the notifications."""

    def __init__(self) -> None:
        self.seen: list[int] = []
        self.handlers = RpcHandlers(notifications={"n": self.handle})

    async def handle(self, params: dict[str, int]) -> None:
        self.seen.append(params["number"])


def message(number: int) -> RpcNotification:
    return RpcNotification("n", {"number": number})


async def write_line(agent: FarEnd, number: int) -> None:
    """Send a long message in chunks."""
    await agent.says(b'{"jsonrpc": "2.0", "method": "n", "params": {"number": %d, "x": "' % number)
    for _ in range(CHUNKS):
        await agent.says(CHUNK)
        await settle()
    await agent.says(b'"}}\n')


async def test_long_lines_of_sixteen_agents_are_bounded_together_and_all_arrive() -> None:
    budget, numbers, most = LineBudget(MAX_BYTES), Numbers(), 0
    async with AsyncExitStack() as stack:
        agents = [
            (await stack.enter_async_context(connected(numbers.handlers, line_budget=budget)))[1]
            for _ in range(AGENTS)
        ]
        async with trio.open_nursery() as nursery:
            for number, agent in enumerate(agents):
                nursery.start_soon(write_line, agent, number)
            while len(numbers.seen) < AGENTS:
                await trio.sleep(0.001)
                most = max(most, budget.bytes)
    line = len(CHUNK) * CHUNKS
    assert sorted(numbers.seen) == list(range(AGENTS))
    assert most <= MAX_BYTES + line + AGENTS * (FREE_BYTES + len(CHUNK))
    assert most < AGENTS * line
    assert budget.bytes == 0


async def test_a_line_dropped_for_others_is_one_fault_and_later_messages_arrive() -> None:
    budget, numbers = LineBudget(MAX_BYTES), Numbers()
    async with (
        connected(numbers.handlers, line_budget=budget) as (connection, stuck),
        connected(numbers.handlers, line_budget=budget) as (_, other),
    ):
        for _ in range(CHUNKS):
            await stuck.says(CHUNK)
            await settle()
        await write_line(other, 1)
        await trio.sleep(3 * STUCK_SECONDS)
        assert numbers.seen == [1]
        await stuck.says(b"rest\n", message(2))
        await settle()
        assert numbers.seen == [1, 2]
        assert connection.statistics().too_long == 1


async def test_a_closed_connection_holds_no_line() -> None:
    budget = LineBudget(MAX_BYTES)
    async with connected(line_budget=budget) as (_, agent):
        await agent.says(CHUNK)
        await settle()
        assert budget.bytes == len(CHUNK)

    assert budget.bytes == 0


async def test_a_closed_connection_holds_no_request() -> None:
    budget = RequestBudget()

    async def never(_: object) -> None:
        await trio.sleep_forever()

    async with connected(RpcHandlers(requests={"ask": never}), request_budget=budget) as (_, agent):
        await agent.says(RpcRequest(1, "ask", "x" * 1_000))
        await settle()
        assert budget.bytes > 1_000

    assert budget.bytes == 0


async def test_messages_are_paced_however_they_were_cut_into_chunks() -> None:
    counts: list[int] = []

    async def pace(messages: int) -> None:
        counts.append(messages)
        await trio.lowlevel.checkpoint()

    numbers = Numbers()
    async with connected(numbers.handlers, pace=pace) as (_, agent):
        for number in range(2 * MESSAGES_PER_CHECKPOINT + 1):
            await agent.says(message(number))
            await settle()

    assert len(numbers.seen) == 2 * MESSAGES_PER_CHECKPOINT + 1
    assert counts == 2 * [MESSAGES_PER_CHECKPOINT]
