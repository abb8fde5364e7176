"""Ctrl-C while an agent is at work: the first interrupts the turn, the second leaves.

A third does not wait for anybody: what agents run is ended by their guardians.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Awaitable, Callable

import trio

from supervisor.cli.ground.failures import INTERRUPTED
from supervisor.cli.ground.running import signals_to_hear
from supervisor.cli.terminal.screen import Screen


async def until_interrupted(
    screen: Screen,
    work: Callable[[], Awaitable[int]],
    *,
    interrupt: Callable[[], Awaitable[bool]],
) -> int:
    """The code of the work, or that it was interrupted.

    `interrupt` is called for the first Ctrl-C, and gives whether there was anything to interrupt;
    if not, or for any other signal, the work is cancelled.
    """
    leave = trio.CancelScope()
    code = INTERRUPTED
    async with trio.open_nursery() as nursery:
        if signals_to_hear():
            await nursery.start(_listen, screen, leave, interrupt)
        with leave:
            code = await work()
        nursery.cancel_scope.cancel(reason="the work is over")
    return INTERRUPTED if leave.cancelled_caught else code


async def _listen(
    screen: Screen,
    leave: trio.CancelScope,
    interrupt: Callable[[], Awaitable[bool]],
    *,
    task_status: trio.TaskStatus[None],
) -> None:
    # The interrupt that is under way, if one is.
    under_way: list[int] = []

    async def ask() -> None:
        under_way.append(signal.SIGINT)
        try:
            if not await interrupt():
                leave.cancel(reason="there is nothing to interrupt")
        finally:
            under_way.clear()

    with trio.open_signal_receiver(*signals_to_hear()) as signals:
        task_status.started()
        async with trio.open_nursery() as nursery:
            async for number in signals:
                if leave.cancel_called:
                    _leave_at_once(screen)
                elif number != signal.SIGINT or under_way:
                    if screen.is_lively_beside:
                        screen.note()  # see Speech.make_way
                    screen.note("Leaving; once more leaves at once.")
                    leave.cancel(reason="a person wants to leave")
                else:
                    nursery.start_soon(ask)


def _leave_at_once(screen: Screen) -> None:
    screen.err.flush()
    os._exit(INTERRUPTED)  # whoever is still asked to end has had two hints
