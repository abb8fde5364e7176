"""The store's health: watch the database file, and react when the health changes.

A write fails if the file was deleted, moved or replaced. An idle supervisor may not write for
hours, so the file is also checked periodically, while it can still be restored. A full disk is a
change of health too; `store/__init__.py` lists the modules that handle it.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager
from typing import Final

from trio_util import periodic, run_and_cancelling

from supervisor.core.errors import StoreDegraded, SupervisorError
from supervisor.core.log_content import error_content
from supervisor.core.steady_time import ClockReading
from supervisor.core.store_finding import StoreFinding
from supervisor.drivers.watchdog import uses_real_clock
from supervisor.store.pending import StoreHealth, StoreState
from supervisor.store.sqlite.store import SqliteStore
from supervisor.store.writer import retry_until_healthy

from .services import Services

CHECK_SECONDS: Final = 2.0
# After a reboot, an expiry is wrong by at most this if the wall clock went back.
NOTE_SECONDS: Final = 60.0
MIN_JUMP_SECONDS: Final = 1.0


async def watch_file(services: Services) -> None:
    """Check the file every `CHECK_SECONDS`, until cancelled.

    Return at once on a virtual clock: changes of a file do not follow virtual time.
    """
    if not uses_real_clock():
        return
    noted = services.clock.reading()
    # aclosing: a cancelled check leaves the generator suspended, which trio warns about.
    async with aclosing(periodic(CHECK_SECONDS)) as ticks:
        async for _, since_last in ticks:
            if since_last is not None:  # the file was opened a moment ago
                await check_file(services)
                noted = await note_clock(services, noted)


async def note_clock(services: Services, noted: ClockReading) -> ClockReading:
    """Note a reading of the clocks if the noted one is old, or the wall clock was set since.

    Return the reading that is noted now.
    """
    now = services.clock.reading()
    elapsed = now.steady - noted.steady
    if elapsed < NOTE_SECONDS and abs(now.wall - noted.wall - elapsed) < MIN_JUMP_SECONDS:
        return noted
    await services.store.note_clock(now)
    return now


async def check_file(services: Services) -> None:
    """Mark the store as degraded if its file is not usable; the writer detects the recovery."""
    if services.health.is_degraded:
        return
    try:
        await services.store.check_file()
    except StoreDegraded as error:
        services.health.degrade(error)


logger = logging.getLogger("supervisor")


@asynccontextmanager
async def check_damage(store: SqliteStore, health: StoreHealth) -> AsyncIterator[None]:
    """Report what was lost before the store was opened; check it in the background if necessary.

    It is necessary after an unclean end. The check ends with the block. Damage that a read or a
    write meets later is a finding too.
    """
    # Not logged: the error is raised where the damage was met.
    store.set_on_damage(lambda finding: _add(health, finding))
    _report(health, store.findings)
    if not store.ended_uncleanly:
        yield
        return
    async with run_and_cancelling(_quick_check, store, health):
        yield


async def _quick_check(store: SqliteStore, health: StoreHealth) -> None:
    try:
        found = await store.quick_check()
    except (OSError, SupervisorError) as error:  # not in time, or the file cannot be opened
        logger.warning("check after an unclean end is not complete: %s", error_content(error))
        return
    _report(health, found)
    if not found:
        logger.info("check after an unclean end found no damage")


def _report(health: StoreHealth, found: tuple[StoreFinding, ...]) -> None:
    for finding in found:
        _add(health, finding)
        logger.error("%s (hint: %s)", finding.detail, finding.hint)


def _add(health: StoreHealth, finding: StoreFinding) -> None:
    """Add the finding, unless there is one of its kind."""
    if all(finding.code != known.code for known in health.findings):
        health.findings += (finding,)


def on_health_change(
    services: Services, order_postponed_stops: Callable[[], Awaitable[None]], state: StoreState
) -> None:
    """Log the change, notify observers, and retry the store or perform the postponed stops."""
    if state.degraded:
        logger.error("%s (hint: %s)", state.problem, state.hint)
        if not services.health.is_recovery_pending:  # recovery retries the store itself
            services.tasks.start_soon(retry_until_healthy, services.writer, services.health)
    else:
        logger.warning("store recovered")
        services.tasks.start_soon(order_postponed_stops)
    services.hooks.notify(
        "health_changed",
        session_id=None,
        badge="unhealthy" if state.degraded else "healthy",
        before="healthy" if state.degraded else "unhealthy",
        detail=state.problem,
    )
