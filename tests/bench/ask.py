"""Ask: a question with one answer, by one lone asker and by 32 at once.

Included: one request and its answer, with whatever object carries the answer back, and a handler
that returns at once. Ours has its default time-out of 5 seconds, which never runs out but is paid
for; the raw channel of the rows with a figure to reach has no time-out at all, which favours the
peer. The rows "with fail_after" compare like with like.

What pykka takes for one ask depends on where its two threads run: when the machine has a core to
spare, each hand-over of the interpreter's lock crosses cores and an ask takes four times as long as
on one core. So one row shows pykka at its best, with the whole process held on one core.
"""

import os
import threading
import time
from collections.abc import Awaitable, Callable

import trio
from attrs import frozen

import actors
from tests.bench._row import Reach, Row, Sample, at_least, unless_installed

ASKS = 3_200
MANY = 32
CAPACITY = 1_024
TIMEOUT_SECONDS = 5.0
UNIT = "asks/s"


@frozen
class Question(actors.Ask[int]):
    pass


QUESTION = Question()


class Answerer(actors.Actor):
    async def receive(self, _message: object) -> int:
        return 42


async def asks_per_second(ask: Callable[[], Awaitable[object]], *, askers: int) -> float:
    async def ask_share() -> None:
        for _ in range(ASKS // askers):
            await ask()

    for _ in range(ASKS // 10):
        await ask()  # warm-up, not counted
    begun = time.perf_counter()
    if askers == 1:
        await ask_share()
    else:
        async with trio.open_nursery() as nursery:
            for _ in range(askers):
                nursery.start_soon(ask_share)
    return ASKS / (time.perf_counter() - begun)


def ours(askers: int) -> Sample:
    async def main() -> float:
        async with actors.open_actors() as system:
            ref = await system.start(Answerer, name="answerer", capacity=CAPACITY)
            rate = await asks_per_second(
                lambda: ref.ask(QUESTION, timeout_seconds=TIMEOUT_SECONDS), askers=askers
            )
            await ref.stop()
        return rate

    return lambda: trio.run(main)


class Request:
    """What one writes by hand to get an answer through a channel."""

    __slots__ = ("answer", "answered", "question")

    def __init__(self, question: Question) -> None:
        self.question = question
        self.answered = trio.Event()
        self.answer = 0


async def answer_all(channel: trio.MemoryReceiveChannel[Request]) -> None:
    answerer = Answerer()
    async for request in channel:
        request.answer = await answerer.receive(request.question)
        request.answered.set()


def channel_and_event(askers: int) -> Sample:
    async def main() -> float:
        send_channel, receive_channel = trio.open_memory_channel[Request](CAPACITY)

        async def ask() -> None:
            request = Request(QUESTION)
            await send_channel.send(request)
            await request.answered.wait()

        async with trio.open_nursery() as nursery, send_channel:
            nursery.start_soon(answer_all, receive_channel)
            return await asks_per_second(ask, askers=askers)

    return lambda: trio.run(main)


def channel_and_event_with_fail_after(askers: int) -> Sample:
    async def main() -> float:
        send_channel, receive_channel = trio.open_memory_channel[Request](CAPACITY)

        async def ask() -> None:
            request = Request(QUESTION)
            with trio.fail_after(TIMEOUT_SECONDS):
                await send_channel.send(request)
                await request.answered.wait()

        async with trio.open_nursery() as nursery, send_channel:
            nursery.start_soon(answer_all, receive_channel)
            return await asks_per_second(ask, askers=askers)

    return lambda: trio.run(main)


def pykka_ask(askers: int) -> Sample:
    """One thread per asker, as pykka would have it."""

    def sample() -> float:
        import pykka  # here, since the other rows are measured without it

        class PykkaAnswerer(pykka.ThreadingActor):
            def on_receive(self, _message: object) -> int:
                return 42

        ref = PykkaAnswerer.start()

        def ask_share() -> None:
            for _ in range(ASKS // askers):
                ref.ask(QUESTION, timeout=TIMEOUT_SECONDS)

        try:
            for _ in range(ASKS // 10):
                ref.ask(QUESTION, timeout=TIMEOUT_SECONDS)  # warm-up, not counted
            threads = [threading.Thread(target=ask_share) for _ in range(askers - 1)]
            begun = time.perf_counter()
            for thread in threads:
                thread.start()
            ask_share()
            for thread in threads:
                thread.join()
            return ASKS / (time.perf_counter() - begun)
        finally:
            ref.stop()

    return sample


def on_one_core(sample: Sample) -> Sample:
    def held() -> float:
        cores = os.sched_getaffinity(0)
        os.sched_setaffinity(0, {min(cores)})
        try:
            return sample()
        finally:
            os.sched_setaffinity(0, cores)

    return held


def unless_pykka_and_affinity() -> str | None:
    if not hasattr(os, "sched_setaffinity"):
        return "this system cannot hold a process on one core"
    return unless_installed("pykka")()


def row(askers: int, against: str, peer: Sample, *, reach: Reach | None = None) -> Row:
    return Row(
        name=who_asks(askers), against=against, ours=ours(askers), peer=peer, unit=UNIT, reach=reach
    )


def pykka_row(askers: int, against: str) -> Row:
    return Row(
        name=who_asks(askers),
        against=against,
        ours=ours(askers),
        peer=pykka_ask(askers),
        unit=UNIT,
        reach=at_least(2),
        obstacle=unless_installed("pykka"),
    )


def who_asks(askers: int) -> str:
    return "ask, one lone asker" if askers == 1 else f"ask, {askers} at once"


ROWS = (
    row(MANY, "trio channel + Event", channel_and_event(MANY), reach=at_least(1.5)),
    row(1, "trio channel + Event", channel_and_event(1), reach=at_least(1.2)),
    row(MANY, "the same with fail_after", channel_and_event_with_fail_after(MANY)),
    row(1, "the same with fail_after", channel_and_event_with_fail_after(1)),
    pykka_row(MANY, "pykka ask, 32 threads"),
    pykka_row(1, "pykka ask"),
    Row(
        name=who_asks(1),
        against="pykka ask, one core",
        ours=on_one_core(ours(1)),
        peer=on_one_core(pykka_ask(1)),
        unit=UNIT,
        obstacle=unless_pykka_and_affinity,
    ),
)
