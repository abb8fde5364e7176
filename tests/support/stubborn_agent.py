"""An agent that ends when it likes."""

import trio

import supervisor

may_end = trio.Event()


async def agent(_: supervisor.Turn) -> None:
    with trio.CancelScope(shield=True):
        await may_end.wait()
