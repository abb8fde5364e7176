"""Start, and start + stop by the ten thousand.

`start` includes making the actor, running `on_start` and answering the starter, one after the
other. Stopping is not timed.

- against `nursery.start`: a task that opens its own channel, reports it with `started` and waits;
- against `start_soon`: the same task and channel without any report, timed until all of them wait.
  The caller does not learn whether its task started, so less is done: hence a figure below 1;
- against pykka: a thread with a queue.

Start + stop is timed from the first start to the last actor's end, and compares the time per child
among 10,000 with the time per child among 1,000 (ten times over): 1.0 is linear. It is measured
twice, by stopping the whole system and by `ref.stop()` one by one, oldest first. The garbage
collector runs in these rows, since what it costs grows with the children.
"""

import time
from collections.abc import Awaitable, Callable

import trio
import trio.testing

import actors
from tests.bench._row import Row, at_least, at_most, unless_installed

STARTS = 1_000
# Threads are dear: a thousand of them at once are refused on many machines.
THREAD_STARTS = 200
FEW_CHILDREN = 1_000
MANY_CHILDREN = 10_000
CAPACITY = 1_024


class Idle(actors.Actor):
    async def receive(self, message: object) -> None:
        pass


def ours(count: int) -> float:
    async def main() -> float:
        async with actors.open_actors() as system:
            kept = [await system.start(Idle, name="warm-up")]
            begun = time.perf_counter()
            kept += [await system.start(Idle, name=f"idle-{number}") for number in range(count)]
            return count / (time.perf_counter() - begun)

    return trio.run(main)


async def wait_for_messages(
    *, task_status: trio.TaskStatus[trio.MemorySendChannel[object]]
) -> None:
    send_channel, receive_channel = trio.open_memory_channel[object](CAPACITY)
    task_status.started(send_channel)
    async for _ in receive_channel:
        pass


def nursery_start() -> float:
    async def main() -> float:
        async with trio.open_nursery() as nursery:
            kept = [await nursery.start(wait_for_messages)]
            begun = time.perf_counter()
            kept += [await nursery.start(wait_for_messages) for _ in range(STARTS)]
            rate = STARTS / (time.perf_counter() - begun)
            nursery.cancel_scope.cancel()
        return rate

    return trio.run(main)


async def wait_on(receive_channel: trio.MemoryReceiveChannel[object]) -> None:
    async for _ in receive_channel:
        pass


def start_soon() -> float:
    async def main() -> float:
        async with trio.open_nursery() as nursery:
            channels = []
            begun = time.perf_counter()
            for _ in range(STARTS):
                send_channel, receive_channel = trio.open_memory_channel[object](CAPACITY)
                channels.append(send_channel)
                nursery.start_soon(wait_on, receive_channel)
            await trio.testing.wait_all_tasks_blocked()
            rate = STARTS / (time.perf_counter() - begun)
            nursery.cancel_scope.cancel()
        return rate

    return trio.run(main)


def pykka_start() -> float:
    import pykka  # here, since the other rows are measured without it

    class PykkaIdle(pykka.ThreadingActor):
        def on_receive(self, message: object) -> None:
            pass

    refs = [PykkaIdle.start()]
    try:
        begun = time.perf_counter()
        refs += [PykkaIdle.start() for _ in range(THREAD_STARTS)]
        return THREAD_STARTS / (time.perf_counter() - begun)
    finally:
        for ref in refs:
            ref.stop()


async def start_and_leave(count: int) -> None:
    async with actors.open_actors() as system:
        for number in range(count):
            await system.start(Idle, name=f"idle-{number}")


async def start_and_stop_one_by_one(count: int) -> None:
    async with actors.open_actors() as system:
        refs = [await system.start(Idle, name=f"idle-{number}") for number in range(count)]
        for ref in refs:
            await ref.stop()


def microseconds_per_child(life: Callable[[int], Awaitable[None]], count: int) -> float:
    """Measure the same number of children in every sample, in systems of ``count``."""

    async def main() -> float:
        begun = time.perf_counter()
        for _ in range(MANY_CHILDREN // count):
            await life(count)
        return (time.perf_counter() - begun) / MANY_CHILDREN * 1e6

    return trio.run(main)


def linear(name: str, life: Callable[[int], Awaitable[None]]) -> Row:
    return Row(
        name=name,
        against="itself among 1,000",
        ours=lambda: microseconds_per_child(life, MANY_CHILDREN),
        peer=lambda: microseconds_per_child(life, FEW_CHILDREN),
        unit="us/child",
        reach=at_most(1.5),
        collector="running",
    )


ROWS = (
    Row(
        name="start",
        against="nursery.start, with channel",
        ours=lambda: ours(STARTS),
        peer=nursery_start,
        unit="starts/s",
        reach=at_least(1),
    ),
    Row(
        name="start",
        against="start_soon, with channel",
        ours=lambda: ours(STARTS),
        peer=start_soon,
        unit="starts/s",
        reach=at_least(0.25),
    ),
    Row(
        name="start",
        against="pykka start",
        ours=lambda: ours(THREAD_STARTS),
        peer=pykka_start,
        unit="starts/s",
        reach=at_least(4),
        obstacle=unless_installed("pykka"),
    ),
    linear("start 10,000 + end of system", start_and_leave),
    linear("start 10,000 + stop each", start_and_stop_one_by_one),
)
