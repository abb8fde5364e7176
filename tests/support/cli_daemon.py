"""A supervisor in this process, in place of the daemon that commands look for."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TypeAlias

import pytest

import supervisor
from supervisor.cli import async_runner, target

Prepare: TypeAlias = Callable[[supervisor.Supervisor], Awaitable[object]]
Daemon: TypeAlias = Callable[[Prepare], None]

# A real process, because a Python agent can always be steered.
SLOW = supervisor.command("slow", ["sleep", "60"])


def use_supervisor(patch: pytest.MonkeyPatch, prepare: Prepare) -> None:
    """Have each command find a new supervisor in which `prepare` was done before."""

    @asynccontextmanager
    async def connected(*_: object, **__: object) -> AsyncIterator[supervisor.Supervisor]:
        settings = supervisor.Settings(
            exit_seconds=0.0, queue_cap=2, ladder=supervisor.Ladder(ask_seconds=0.01)
        )
        async with supervisor.open(settings=settings, agents=[SLOW]) as sup:
            await prepare(sup)
            yield sup

    patch.setattr(target, "_connected", connected)
    patch.setattr(async_runner, "run_blocking", async_runner.run_async)  # it needs trio
