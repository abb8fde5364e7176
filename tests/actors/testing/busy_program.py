"""A program that uses much of trio at once, and a digest of its run."""

import hashlib
import random

import trio

from actors.testing import Step, simulate


async def busy_program() -> list[object]:
    """Use nurseries, sleeps, events, channels, locks, cancel scopes, threads and randomness."""
    told: list[object] = []
    send, receive = trio.open_memory_channel[object](1)
    go, limiter, lock = trio.Event(), trio.CapacityLimiter(1), trio.Lock()

    async def produce(name: int, out: trio.MemorySendChannel[object]) -> None:
        async with out:
            await go.wait()
            for item in range(3):
                await trio.sleep(random.random())
                await out.send((name, item))

    async def work(name: int) -> None:
        with trio.move_on_after(0.5) as scope:
            async with lock:
                await trio.to_thread.run_sync(told.append, f"thread {name}", limiter=limiter)
            await trio.to_thread.run_sync(
                told.append, f"abandoned {name}", abandon_on_cancel=True, limiter=limiter
            )
            await trio.sleep(name)
        told.append((name, scope.cancelled_caught, trio.current_time()))

    async with trio.open_nursery() as nursery:
        for name in range(4):
            nursery.start_soon(produce, name, send.clone())
            nursery.start_soon(work, name)
        send.close()
        go.set()
        told.extend([item async for item in receive])
    return told


def story(seeds: range) -> str:
    """Return a digest of the runs under these seeds."""
    digest = hashlib.sha256()
    for seed in seeds:
        trace: list[Step] = []
        told = simulate(busy_program, seed=seed, trace=trace, early_timeouts=True)
        digest.update(repr((told, trace)).encode())
    return digest.hexdigest()
