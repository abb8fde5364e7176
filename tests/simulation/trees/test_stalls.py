"""A session with progress is never stalled; a silent one is reported once and in time."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable

import attrs
import pytest
import trio

import supervisor
from actors.testing import VirtualClock
from supervisor import PythonAgent, Record, Settings, Turn
from supervisor.core.state import SessionState as Row

from .counting_store import RowCounter, counted_by

HOUR = 3600.0
DAY = 24 * HOUR
LIMIT = 300.0
TOOL_LIMIT = 900.0
JUST_UNDER = 0.99
SOAK_PIECES = 5


def latest(limit: float) -> float:
    """Return the latest time at which a stall is declared."""
    return max(1.1 * limit, limit + 1.0)


@attrs.define(eq=False)
class StallRun:
    """`each` sessions of every kind, each running for `hours` hours."""

    each: int
    hours: float
    seed: int = 0
    counter: RowCounter = attrs.Factory(RowCounter)
    # Sessions silent on purpose: the start of the silence and its limit.
    silent: dict[str, tuple[float, float]] = attrs.Factory(dict)
    declared: dict[str, int] = attrs.Factory(dict)
    expected: int = 0
    hours_watched: float = 0.0

    async def run(self) -> None:
        random.seed(f"vigil {self.seed}")
        self.counter.noted = self.note
        settings = Settings(
            stalled_after_seconds=LIMIT,
            tool_stalled_after_seconds=TOOL_LIMIT,
            permission_timeout_seconds=90 * DAY,
            max_turn_bytes=2**60,
        )
        kinds = [*self.kinds()]
        agents = [PythonAgent(kind.__name__.strip("_"), kind) for kind in kinds]
        with counted_by(self.counter):
            async with (
                supervisor.open(agents=agents, settings=settings) as sup,
                trio.open_nursery() as people,
            ):
                people.start_soon(self.answer, sup)
                async with trio.open_nursery() as watched:
                    for agent in agents:
                        for _ in range(self.each if agent.name != "child" else 0):
                            watched.start_soon(self.watch, sup, agent.name)
                people.cancel_scope.cancel()

    def kinds(self) -> list[Callable[[Turn], Awaitable[None]]]:
        return [
            self._talker,
            self._spender,
            self._caller,
            self._asker,
            self._waiter,
            self._thinker,
            self._child,
            self._staller,
            self._hanger,
        ]

    async def watch(self, sup: supervisor.Supervisor, agent: str) -> None:
        session = await sup.create(agent)
        began = trio.current_time()
        result = await session.prompt("go")
        assert result.outcome == "completed", result
        self.hours_watched += (trio.current_time() - began) / HOUR

    async def answer(self, sup: supervisor.Supervisor) -> None:
        """Answer permission requests after days."""
        while True:
            await trio.sleep(3 * DAY)
            for request in await sup.permissions():
                await sup.answer(request.id, "allow_once")

    # Agents with progress --------------------------------------------------------------------

    def ends_at(self) -> float:
        return trio.current_time() + self.hours * HOUR

    async def _talker(self, turn: Turn) -> None:
        end = self.ends_at()
        while trio.current_time() < end:
            await trio.sleep(random.choice((JUST_UNDER, 0.5, 0.05)) * LIMIT)
            await turn.say(".")

    async def _spender(self, turn: Turn) -> None:
        end = self.ends_at()
        while trio.current_time() < end:
            await trio.sleep(JUST_UNDER * LIMIT)
            turn.usage(output_tokens=1)

    async def _caller(self, turn: Turn) -> None:
        """Use slow tools, with pauses just under the limit."""
        end = self.ends_at()
        while trio.current_time() < end:
            async with turn.tool("slow"):
                await trio.sleep(JUST_UNDER * TOOL_LIMIT)
            await trio.sleep(JUST_UNDER * LIMIT)

    async def _asker(self, turn: Turn) -> None:
        end = self.ends_at()
        while trio.current_time() < end:
            await turn.ask("may I?", tool="bash")
            await trio.sleep(JUST_UNDER * LIMIT)

    async def _waiter(self, turn: Turn) -> None:
        """Wait for a child that works for a day, with pauses just under the limit."""
        end = self.ends_at()
        while trio.current_time() < end:
            child = await turn.spawn("child", "go")
            with trio.move_on_after(30 * DAY):
                await child.prompt("go")
            await trio.sleep(JUST_UNDER * LIMIT)
            await turn.say(".")
            await child.stop()

    async def _child(self, turn: Turn) -> None:
        for _ in range(random.randrange(1, 300)):
            await trio.sleep(JUST_UNDER * LIMIT)
            await turn.say(".")
        if random.random() < 0.5:
            await turn.ask("may I?", tool="bash")

    async def _thinker(self, turn: Turn) -> None:
        end = self.ends_at()
        while trio.current_time() < end:
            await trio.sleep(JUST_UNDER * LIMIT)
            await turn.think("hm")

    # Agents without progress --------------------------------------------------------------------

    async def _staller(self, turn: Turn) -> None:
        """Say something in time, and sometimes be silent for too long."""
        end = self.ends_at()
        while trio.current_time() < end:
            for _ in range(random.randrange(1, 50)):
                await trio.sleep(JUST_UNDER * LIMIT)
                await turn.say(".")
            await self.be_silent(turn, LIMIT)
            await turn.say(".")

    async def _hanger(self, turn: Turn) -> None:
        """Be silent for too long inside a tool call."""
        end = self.ends_at()
        while trio.current_time() < end:
            await trio.sleep(JUST_UNDER * LIMIT)
            await turn.say(".")
            async with turn.tool("slow"):
                await self.be_silent(turn, TOOL_LIMIT)

    async def be_silent(self, turn: Turn, limit: float) -> None:
        began, before = trio.current_time(), self.declared.get(turn.session_id, 0)
        self.silent[turn.session_id] = (began, limit)
        self.expected += 1
        await trio.sleep(limit * random.choice((1.2, 2.0, 20.0)))
        del self.silent[turn.session_id]
        times = self.declared.get(turn.session_id, 0) - before
        self.counter.check(times == 1, f"{turn.session_id} was declared {times} times")

    def note(self, row: Row, record: Record) -> None:
        if record.kind != "stalled":
            return
        self.declared[row.id] = self.declared.get(row.id, 0) + 1
        if row.id not in self.silent:
            self.counter.check(holds=False, message=f"{row.agent_name} {row.id} makes progress")
            return
        began, limit = self.silent[row.id]
        after = trio.current_time() - began
        in_time = limit <= after + 1e-6 and after <= latest(limit)
        self.counter.check(in_time, f"{row.id} was declared after {after:g} of {limit:g}")


def finished_run(run: StallRun) -> StallRun:
    trio.run(run.run, clock=VirtualClock())
    assert run.counter.violations[:5] == []
    assert sum(run.declared.values()) == run.expected
    return run


def test_a_session_with_progress_is_never_stalled() -> None:
    run = finished_run(StallRun(each=1, hours=20.0))

    assert run.hours_watched >= 160.0
    assert run.expected > 0


# In pieces: a hundred thousand hours in all.
@pytest.mark.soak(per_piece=1)
@pytest.mark.parametrize("seed", range(SOAK_PIECES))
def test_no_session_is_stalled_wrongly_in_a_hundred_thousand_hours(
    seed: int, record_property: Callable[[str, object], None]
) -> None:
    run = finished_run(StallRun(each=25 // SOAK_PIECES, hours=500.0, seed=seed))

    assert run.hours_watched >= 100_000.0 / SOAK_PIECES
    record_property("covered", f"{run.hours_watched:.0f} hours of turns")
    record_property("covered", f"{run.expected} stalls")
