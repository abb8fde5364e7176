"""Tell: a burst of 1,000 messages to one actor, until the last one is handled.

Included: putting 1,000 messages into the box, waking the receiver, and a handler that counts. Not
included: starting and stopping, and making the message (everyone sends the same object again and
again). The boxes of the trio rows hold 1,024, so no sender has to wait; pykka's has no bound.

The row with a figure to reach compares with `await send`, which is how trio's documentation sends
and which passes a checkpoint for every message; `tell` passes none. The row against `send_nowait`
leaves that advantage out. What remains there is that the receiver of a channel passes a checkpoint
for every message, while a mailbox is drained in batches.
"""

import threading
import time
from collections.abc import Awaitable, Callable

import trio
from attrs import frozen

import actors
from tests.bench._row import Row, at_least, unless_installed

BURST = 1_000
BURSTS = 20
CAPACITY = 1_024
PATIENCE_SECONDS = 60.0


@frozen
class Poke:
    pass


POKE = Poke()


class Counter(actors.Actor):
    """Sets ``full`` when it has handled one burst."""

    def __init__(self) -> None:
        self.handled = 0
        self.full = trio.Event()

    async def receive(self, _message: object) -> None:
        self.handled += 1
        if self.handled == BURST:
            self.full.set()

    def expect_a_burst(self) -> trio.Event:
        self.handled = 0
        self.full = trio.Event()
        return self.full


async def per_second(burst: Callable[[], Awaitable[None]]) -> float:
    await burst()  # warm-up, not counted
    begun = time.perf_counter()
    for _ in range(BURSTS):
        await burst()
    return BURSTS * BURST / (time.perf_counter() - begun)


def ours() -> float:
    async def main() -> float:
        counter = Counter()
        async with actors.open_actors() as system:
            ref = await system.start(lambda: counter, name="counter", capacity=CAPACITY)

            async def burst() -> None:
                full = counter.expect_a_burst()
                for _ in range(BURST):
                    ref.tell(POKE)
                await full.wait()

            rate = await per_second(burst)
            await ref.stop()
        return rate

    return trio.run(main)


def channel_with_send() -> float:
    async def main() -> float:
        counter = Counter()
        send_channel, receive_channel = trio.open_memory_channel[Poke](CAPACITY)

        async def burst() -> None:
            full = counter.expect_a_burst()
            for _ in range(BURST):
                await send_channel.send(POKE)
            await full.wait()

        async with trio.open_nursery() as nursery, send_channel:
            nursery.start_soon(count_all, counter, receive_channel)
            return await per_second(burst)

    return trio.run(main)


def channel_with_send_nowait() -> float:
    async def main() -> float:
        counter = Counter()
        send_channel, receive_channel = trio.open_memory_channel[Poke](CAPACITY)

        async def burst() -> None:
            full = counter.expect_a_burst()
            for _ in range(BURST):
                send_channel.send_nowait(POKE)
            await full.wait()

        async with trio.open_nursery() as nursery, send_channel:
            nursery.start_soon(count_all, counter, receive_channel)
            return await per_second(burst)

    return trio.run(main)


async def count_all(counter: Counter, channel: trio.MemoryReceiveChannel[Poke]) -> None:
    async for message in channel:
        await counter.receive(message)


def pykka_tell() -> float:
    import pykka  # here, since the other rows are measured without it

    class PykkaCounter(pykka.ThreadingActor):
        handled = 0
        full = threading.Event()

        def on_receive(self, _message: object) -> None:
            self.handled += 1
            if self.handled == BURST:
                self.handled = 0
                self.full.set()

    ref = PykkaCounter.start()

    def burst() -> None:
        PykkaCounter.full.clear()
        for _ in range(BURST):
            ref.tell(POKE)
        if not PykkaCounter.full.wait(PATIENCE_SECONDS):
            raise TimeoutError("pykka did not handle its burst")

    try:
        burst()  # warm-up, not counted
        begun = time.perf_counter()
        for _ in range(BURSTS):
            burst()
        return BURSTS * BURST / (time.perf_counter() - begun)
    finally:
        ref.stop()


ROWS = (
    Row(
        name="tell",
        against="pykka tell",
        ours=ours,
        peer=pykka_tell,
        unit="messages/s",
        reach=at_least(5),
        obstacle=unless_installed("pykka"),
    ),
    Row(
        name="tell",
        against="trio channel, await send",
        ours=ours,
        peer=channel_with_send,
        unit="messages/s",
        reach=at_least(10),
    ),
    Row(
        name="tell",
        against="trio channel, send_nowait",
        ours=ours,
        peer=channel_with_send_nowait,
        unit="messages/s",
    ),
)
