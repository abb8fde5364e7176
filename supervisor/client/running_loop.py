"""The event loop that the caller runs on: trio or asyncio.

Only the library of that loop is imported. Commands run on trio: anyio, which asyncio needs, would
add to their start.
"""

from __future__ import annotations

import sys

from supervisor.core.errors import ConfigError

from .event_loop import EventLoop


def is_in_event_loop() -> bool:
    """Return whether the caller runs on trio or asyncio; neither is imported for the answer."""
    return _is_in_trio() or _is_in_asyncio()


def running_loop() -> EventLoop:
    """Return the event loop that the caller runs on; raise `ConfigError` if there is none."""
    if _is_in_trio():
        from .trio_loop import TrioLoop  # noqa: PLC0415 - not on asyncio

        return TrioLoop()
    if _is_in_asyncio():
        from .asyncio_loop import AsyncioLoop  # noqa: PLC0415 - not on trio

        return AsyncioLoop()
    raise ConfigError(
        "supervisor.connect() needs trio or asyncio",
        hint="use it in a coroutine that trio.run() or asyncio.run() runs",
    )


def _is_in_trio() -> bool:
    if "trio" not in sys.modules:
        return False
    import trio  # noqa: PLC0415 - imported already

    return trio.lowlevel.in_trio_task()


def _is_in_asyncio() -> bool:
    if "asyncio" not in sys.modules:
        return False
    import asyncio  # noqa: PLC0415 - imported already

    try:
        return asyncio.current_task() is not None
    except RuntimeError:
        return False
