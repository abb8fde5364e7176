"""Detection of a deleted or replaced database file while the store is idle.

A write fails if the file was deleted, moved or replaced. An idle supervisor may not write for
hours, and users should learn of it while the file can still be restored.
"""

from __future__ import annotations

from contextlib import aclosing
from typing import Final

from trio_util import periodic

from supervisor.core.errors import StoreDegraded
from supervisor.drivers.watchdog import uses_real_clock

from .services import Services

CHECK_SECONDS: Final = 2.0


async def watch_file(services: Services) -> None:
    """Check the file every `CHECK_SECONDS`, until cancelled.

    Return at once on a virtual clock: changes of a file do not follow virtual time.
    """
    if not uses_real_clock():
        return
    # aclosing: a cancelled check leaves the generator suspended, which trio warns about.
    async with aclosing(periodic(CHECK_SECONDS)) as ticks:
        async for _, since_last in ticks:
            if since_last is not None:  # the file was opened a moment ago
                await check_file(services)


async def check_file(services: Services) -> None:
    """Degrade the store if its file is not usable; the writer detects the recovery."""
    if services.health.is_degraded:
        return
    try:
        await services.store.check_file()
    except StoreDegraded as error:
        services.health.degrade(error)
