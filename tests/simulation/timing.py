"""Random pauses and random timeouts, shared by all simulations."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from typing import TypeVarTuple

import trio

Args = TypeVarTuple("Args")


async def random_pause() -> None:
    """Let other tasks run for a random time; sometimes return at once."""
    match random.randrange(4):
        case 0:
            pass
        case 1 | 2:
            await trio.lowlevel.checkpoint()
        case _:
            await trio.sleep(random.choice((0.25, 0.75, 1.5, 3.0)))


async def with_random_timeout(do: Callable[[*Args], Awaitable[object]], *args: *Args) -> None:
    """Call `do` and cancel it after a random time, which may be 0."""
    with trio.move_on_after(random.choice((0.0, 0.5, 1.0, 2.0, 5.0, 50.0))):
        await do(*args)
