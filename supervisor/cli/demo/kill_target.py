"""A supervisor in its own process, which the demo kills: `kill_target PATH`.

It waits for a byte on standard input. Then it prints its pid and every acknowledged input, one per
line, and continues until it is killed or its parent is gone.
"""

from __future__ import annotations

import json
import os
import sys

import trio

from supervisor.handles.supervisor import Supervisor
from supervisor.runtime import open as open_supervisor

from .scenes import process_agent

WRITERS = 3
WAITING = ("say one", "say two", "say three")


async def main(path: str) -> None:
    """Keep sessions busy until killed."""
    async with trio.open_nursery() as nursery:
        await nursery.start(_end_with_parent)
        async with open_supervisor(path, agents=[process_agent()]) as sup:
            worker = await sup.create("process-agent", name="worker")
            receipt = await worker.send("tool build 60")
            waiting = [(await worker.send(text)).input_id for text in WAITING]
            _print_json(
                worker=worker.id,
                waiting=waiting,
                turn=receipt.turn_id,
                agent_pid=(await worker.info()).pid,
                acknowledged=[receipt.input_id, *waiting],
            )
            async with trio.open_nursery() as writers:
                for number in range(WRITERS):
                    writers.start_soon(_write, sup, f"writer {number + 1}")


async def _write(sup: Supervisor, name: str) -> None:
    session = await sup.create("echo", name=name)
    for number in range(1, 1_000_000):
        receipt = await session.send(f"note {number}")
        _print_json(acknowledged=[receipt.input_id])
        await session.result(receipt.input_id)


async def _end_with_parent(*, task_status: trio.TaskStatus[None]) -> None:
    """Return at the first byte on standard input; exit later, when the parent closes it."""
    async with trio.lowlevel.FdStream(os.dup(sys.stdin.fileno())) as stdin:
        if await stdin.receive_some(1):
            task_status.started()
            while await stdin.receive_some(1024):
                pass
    os._exit(1)


def _print_json(**said: object) -> None:
    print(json.dumps({"pid": os.getpid(), **said}), flush=True)  # noqa: T201 - to our parent


if __name__ == "__main__":
    trio.run(main, sys.argv[1])
