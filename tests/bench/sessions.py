"""Sessions: what one costs to keep, to run, to stop, and what a thousand busy ones do to the loop.

- memory: a process of its own makes 10,000 and divides, the in-memory store included; for those
  that are suspended what the store keeps is left out, since a file would keep it elsewhere;
- made and stopped: time per session among 10,000 against time per session among 1,000;
- history: turns of a session with 10,000 records against turns of one with a few;
- busy: 1,000 sessions that each put out ten deltas a second, while a probe measures how late the
  loop is and others are interrupted; against the bound, so that 1.0 is just reached;
- turns: an agent that does nothing, in 100 sessions at once, one prompt after the other in each.
  AutoGen's round trip is one message to an agent that returns one, by 100 senders, nothing stored;
  LangGraph's is a graph of one node that does nothing with its in-memory checkpointer.
"""

import dataclasses
import gc
import statistics
import subprocess
import sys
import time
import tracemalloc
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import trio
import trio.testing

import supervisor
from tests.bench._row import Row, Sample, at_least, at_most, unless_installed
from tests.bench.memory import PROJECT

COUNT = 10_000
WARM_UP = 100
KIB = 1024.0
FEW, MANY = 1_000, 10_000
SESSIONS = 100
TURNS_EACH = 20
BUSY = 1_000
DELTAS_PER_SECOND = 10
BUSY_SECONDS = 5.0
LAG_SECONDS = 0.020
INTERRUPT_SECONDS = 0.050
HISTORY_RECORDS = 10_000
HISTORY_TURNS = 200
NOT_THE_STORE = [
    tracemalloc.Filter(False, "*/store/*"),  # noqa: FBT003 - its own signature
    tracemalloc.Filter(False, tracemalloc.__file__),  # noqa: FBT003
]


@dataclasses.dataclass
class Words:
    """What AutoGen sends: it wants a dataclass."""

    text: str


@supervisor.agent("nothing")
async def nothing(turn: supervisor.Turn) -> None:
    """Do nothing."""


cues = trio.lowlevel.ParkingLot()


@supervisor.agent("talker")
async def talker(turn: supervisor.Turn) -> None:
    """Say a word whenever it is its turn to speak."""
    while True:
        await turn.say("word ")
        await cues.park()


async def conduct() -> None:
    """Let everyone speak ten times a second, one after the other.

    In their place: a thousand tasks that each sleep for themselves keep trio's clock busier than
    all that they say keeps us.
    """
    began, given = trio.current_time(), 0
    while True:
        await trio.sleep(0.001)
        wanted = int((trio.current_time() - began) * BUSY * DELTAS_PER_SECOND)
        cues.unpark(count=wanted - given)
        given = wanted


def opened(**settings: Any) -> Any:  # noqa: ANN401 - an async context manager
    roomy = {"max_sessions": 100_000, **settings}
    return supervisor.open(
        ":memory:", agents=[nothing, talker], settings=supervisor.Settings(**roomy)
    )


# Memory -----------------------------------------------------------------------------------


async def bytes_per_idle_session() -> float:
    async with opened() as sup:
        kept = [await sup.create("nothing") for _ in range(WARM_UP)]
        await trio.testing.wait_all_tasks_blocked()
        gc.collect()
        before = tracemalloc.get_traced_memory()[0]
        kept += [await sup.create("nothing") for _ in range(COUNT)]
        await trio.testing.wait_all_tasks_blocked()
        gc.collect()
        return (tracemalloc.get_traced_memory()[0] - before) / COUNT


async def bytes_per_suspended_session() -> float:
    def look() -> int:
        gc.collect()
        snapshot = tracemalloc.take_snapshot().filter_traces(NOT_THE_STORE)
        return sum(trace.size for trace in snapshot.traces)

    async with opened(suspend_after_seconds=0.0) as sup:
        await make_suspended(sup, WARM_UP)
        before = look()
        await make_suspended(sup, COUNT)
        return (look() - before) / COUNT


async def make_suspended(sup: supervisor.Supervisor, count: int) -> None:
    last = [await sup.create("nothing") for _ in range(count)][-1]
    while (await last.info()).phase != "suspended":  # noqa: ASYNC110 - a benchmark may poll
        await trio.sleep(0.05)
    await trio.testing.wait_all_tasks_blocked(0.1)


def in_a_process(kind: str) -> Sample:
    command = [sys.executable, "-m", "tests.bench.sessions", kind]

    def sample() -> float:
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, cwd=PROJECT)
        return float(done.stdout)

    return sample


# Making and stopping ------------------------------------------------------------------------


def seconds_per_session(count: int, times: int) -> float:
    async def main() -> float:
        begun = time.perf_counter()
        for _ in range(times):
            async with opened() as sup:
                sessions = [await sup.create("nothing") for _ in range(count)]
                for session in sessions:
                    await session.stop()
        return (time.perf_counter() - begun) / count / times

    return trio.run(main)


# Turns --------------------------------------------------------------------------------------


def turns_per_second() -> float:
    async def main() -> float:
        async with opened() as sup:
            sessions = [await sup.create("nothing") for _ in range(SESSIONS)]
            return await per_second(lambda number: sessions[number].prompt("go"))

    return trio.run(main)


async def per_second(go: Callable[[int], Awaitable[object]]) -> float:
    async def one_after_the_other(number: int) -> None:
        for _ in range(TURNS_EACH):
            await go(number)

    await go(0)
    begun = time.perf_counter()
    async with trio.open_nursery() as nursery:
        for number in range(SESSIONS):
            nursery.start_soon(one_after_the_other, number)
    return SESSIONS * TURNS_EACH / (time.perf_counter() - begun)


def seconds_per_turn(records: int) -> float:
    async def main() -> float:
        async with opened() as sup:
            session = await sup.create("nothing")
            for _ in range(records):
                await session.append("user", "something that was said before")
            await session.prompt("go")
            begun = time.perf_counter()
            for _ in range(HISTORY_TURNS):
                await session.prompt("go")
            return (time.perf_counter() - begun) / HISTORY_TURNS

    return trio.run(main)


def autogen_round_trips_per_second() -> float:
    import asyncio

    from autogen_core import (
        AgentId,
        MessageContext,
        RoutedAgent,
        SingleThreadedAgentRuntime,
        message_handler,
    )

    class Nothing(RoutedAgent):
        @message_handler
        async def receive(self, message: Words, context: MessageContext) -> Words:
            return message

    async def main() -> float:
        runtime = SingleThreadedAgentRuntime()
        await Nothing.register(runtime, "nothing", lambda: Nothing("nothing"))
        runtime.start()

        async def sender(number: int, count: int) -> None:
            for _ in range(count):
                await runtime.send_message(Words("go"), AgentId("nothing", str(number)))

        await sender(0, 1)
        begun = time.perf_counter()
        await asyncio.gather(*(sender(number, TURNS_EACH) for number in range(SESSIONS)))
        each = SESSIONS * TURNS_EACH / (time.perf_counter() - begun)
        await runtime.stop()
        return each

    return asyncio.run(main())


def langgraph_runs_per_second() -> float:
    import asyncio
    from typing import TypedDict

    from langgraph.checkpoint.memory import InMemorySaver
    from langgraph.graph import END, START, StateGraph

    class State(TypedDict):
        text: str

    async def node(state: State) -> State:
        return state

    async def main() -> float:
        graph = StateGraph(State)
        graph.add_node("node", node)
        graph.add_edge(START, "node")
        graph.add_edge("node", END)
        compiled = graph.compile(checkpointer=InMemorySaver())

        async def caller(number: int, count: int) -> None:
            for _ in range(count):
                await compiled.ainvoke({"text": "go"}, {"configurable": {"thread_id": str(number)}})

        await caller(0, 1)
        begun = time.perf_counter()
        await asyncio.gather(*(caller(number, TURNS_EACH) for number in range(SESSIONS)))
        return SESSIONS * TURNS_EACH / (time.perf_counter() - begun)

    return asyncio.run(main())


# A busy house -------------------------------------------------------------------------------


def p99(values: list[float]) -> float:
    return statistics.quantiles(values, n=100, method="inclusive")[-1]


@asynccontextmanager
async def a_busy_house() -> AsyncIterator[list[supervisor.Session]]:
    async with opened(exit_seconds=0.0) as sup, trio.open_nursery() as nursery:
        sessions = [await sup.create("talker") for _ in range(BUSY)]
        for session in sessions:
            await session.send("talk")
        nursery.start_soon(conduct)
        await trio.sleep(1.0)
        yield sessions
        nursery.cancel_scope.cancel()


def loop_lag() -> float:
    async def main() -> float:
        async with a_busy_house():
            lags: list[float] = []
            end = trio.current_time() + BUSY_SECONDS
            while (due := trio.current_time() + 0.005) < end:
                await trio.sleep_until(due)
                lags.append(trio.current_time() - due)
            return p99(lags)

    return trio.run(main)


def interrupt_latency() -> float:
    async def main() -> float:
        async with a_busy_house() as sessions:
            took: list[float] = []
            for session in sessions[::5]:
                begun = time.perf_counter()
                report = await session.interrupt("turn")
                took.append(time.perf_counter() - begun)
                assert report.stopped == 1
                await trio.sleep(0.01)
            return p99(took)

    return trio.run(main)


def constant(value: float) -> Sample:
    return lambda: value


ROWS = (
    Row(
        name="idle session, tracemalloc",
        against="10 KiB",
        ours=in_a_process("idle"),
        peer=constant(10 * KIB),
        unit="bytes",
        reach=at_most(1),
    ),
    Row(
        name="suspended session without what is stored, tracemalloc",
        against="half a KiB for an index entry",
        ours=in_a_process("suspended"),
        peer=constant(KIB / 2),
        unit="bytes",
        reach=at_most(1),
    ),
    Row(
        name="make and stop 10,000 sessions, each",
        against="of 1,000",
        ours=lambda: seconds_per_session(MANY, 1),
        peer=lambda: seconds_per_session(FEW, 3),
        unit="s",
        reach=at_most(1.5),
        collector="running",
    ),
    Row(
        name="turn with 10,000 records of history",
        against="with 10",
        ours=lambda: seconds_per_turn(HISTORY_RECORDS),
        peer=lambda: seconds_per_turn(10),
        unit="s",
        reach=at_most(1.2),
    ),
    Row(
        name="loop lag with 1,000 busy sessions, p99",
        against="20 ms",
        ours=loop_lag,
        peer=constant(LAG_SECONDS),
        unit="s",
        reach=at_most(1),
        collector="running",
    ),
    Row(
        name="interrupt answered with 1,000 busy sessions, p99",
        against="50 ms",
        ours=interrupt_latency,
        peer=constant(INTERRUPT_SECONDS),
        unit="s",
        reach=at_most(1),
        collector="running",
    ),
    Row(
        name="turns of an agent that does nothing",
        against="AutoGen core, round trip of a message",
        ours=turns_per_second,
        peer=autogen_round_trips_per_second,
        unit="/s",
        reach=at_least(1.5),
        obstacle=unless_installed("autogen_core"),
    ),
    Row(
        name="turns of an agent that does nothing",
        against="LangGraph, in-memory checkpointer",
        ours=turns_per_second,
        peer=langgraph_runs_per_second,
        unit="/s",
        obstacle=unless_installed("langgraph"),
    ),
)


def main(kind: str) -> None:
    tracemalloc.start()
    count = {"idle": bytes_per_idle_session, "suspended": bytes_per_suspended_session}[kind]
    sys.stdout.write(f"{trio.run(count)}\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
