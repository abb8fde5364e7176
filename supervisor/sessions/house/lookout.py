"""The lookout: whether the store is still where it was, also while nobody writes.

Whoever writes is told that the file was deleted, moved or replaced. In a house at rest nobody may
write for hours, and people should hear of it while somebody can still put the file back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import trio

from supervisor.core.errors import StoreDegraded
from supervisor.drivers.watchdog import time_is_real

if TYPE_CHECKING:
    from .house import House

LOOK_SECONDS: Final = 2.0


async def look_out(house: House) -> None:
    """Look every few seconds; runs until cancelled.

    Only where time is real: what happens to a file takes no virtual time.
    """
    while time_is_real():
        await trio.sleep(LOOK_SECONDS)
        await look(house)


async def look(house: House) -> None:
    """Say so if the store cannot be used; that it can again is found out by the writer."""
    if house.health.is_degraded:
        return
    try:
        await house.store.look()
    except StoreDegraded as trouble:
        house.health.degrade(trouble)
