"""Ctrl-C while a turn runs: the first interrupts the turn, the second exits.

A third exits at once: guardians end the agent processes.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Awaitable, Callable

import trio

from supervisor.cli.async_runner import exit_signals
from supervisor.cli.failures import INTERRUPTED
from supervisor.cli.output import Screen


async def run_interruptible(
    screen: Screen,
    work: Callable[[], Awaitable[int]],
    *,
    interrupt: Callable[[], Awaitable[bool]],
) -> int:
    """Run the work and return its exit code, or `INTERRUPTED`.

    The first Ctrl-C calls `interrupt`, which returns True if there was a turn to interrupt; if not,
    or on any other signal, the work is cancelled.
    """
    leave = trio.CancelScope()
    code = INTERRUPTED
    async with trio.open_nursery() as nursery:
        if exit_signals():
            await nursery.start(_handle_signals, screen, leave, interrupt)
        with leave:
            code = await work()
        nursery.cancel_scope.cancel(reason="the work is over")
    return INTERRUPTED if leave.cancelled_caught else code


async def _handle_signals(
    screen: Screen,
    leave: trio.CancelScope,
    interrupt: Callable[[], Awaitable[bool]],
    *,
    task_status: trio.TaskStatus[None],
) -> None:
    # The interrupt in progress, if any.
    under_way: list[int] = []

    async def ask() -> None:
        under_way.append(signal.SIGINT)
        try:
            if not await interrupt():
                leave.cancel(reason="there is nothing to interrupt")
        finally:
            under_way.clear()

    with trio.open_signal_receiver(*exit_signals()) as signals:
        task_status.started()
        async with trio.open_nursery() as nursery:
            async for number in signals:
                if leave.cancel_called:
                    _exit_now(screen)
                elif number != signal.SIGINT or under_way:
                    if screen.is_ansi_stderr:
                        screen.note()  # see AgentOutput.start_below_ctrl_c
                    screen.note("Exiting; press Ctrl-C again to exit at once.")
                    leave.cancel(reason="the user asked to exit")
                else:
                    nursery.start_soon(ask)


def _exit_now(screen: Screen) -> None:
    screen.err.flush()
    os._exit(INTERRUPTED)  # agents that still run have been asked to end twice
