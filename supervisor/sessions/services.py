"""Leaf services that all sessions of one supervisor share.

Rule 1: nothing in here refers to a session, an actor or a part that is built from it.
Rule 2: the record is frozen. Values that change are behind a cell or in a service's own state.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import Final, Literal, TypeAlias

import attrs
import trio
from trio_util import AsyncValue

from actors import Ref
from supervisor.config import Settings
from supervisor.core.errors import SessionNotActive
from supervisor.core.ids import SessionId, TurnId
from supervisor.core.records import Record
from supervisor.core.state import Cause
from supervisor.drivers.port import AgentKind, DriverRuntime, Stamp
from supervisor.drivers.watchdog import uses_real_clock
from supervisor.store.pending import StoreHealth
from supervisor.store.port import Store

from .clock import ActiveClock, Clock
from .detached import DetachedTasks
from .feed import GlobalFeeds
from .flusher import OutputFlusher
from .hooks import Hooks
from .id_source import Ids
from .inbox import Inbox
from .instruments import Instruments
from .publisher import Publisher
from .refusals import supervisor_closed
from .removals import Removals
from .settings_cell import AgentsCell, SettingsCell
from .start_limiter import StartLimiter
from .timers import Timers

# Draining: no new work. Closed: every call raises.
RunState: TypeAlias = Literal["open", "draining", "closed"]
# Order a stop for a cause, with a detail, without waiting for it.
StopSession: TypeAlias = Callable[[SessionId, Cause, str | None], None]

_PAGE_RECORDS: Final = 500
_HELPER_THREADS: Final = 2


@attrs.frozen(eq=False)
class Services:
    """Record of leaf services, made once by `make_services`."""

    settings: SettingsCell
    agents: AgentsCell
    store: Store  # reads
    writer: Ref  # writes: the persistence actor
    health: StoreHealth
    clock: Clock
    active_clock: ActiveClock
    ids: Ids
    timers: Timers
    tasks: DriverRuntime  # nursery, process slots, zombies
    detached_tasks: DetachedTasks
    start_limiter: StartLimiter
    flusher: OutputFlusher
    hooks: Hooks
    inbox: Inbox
    feeds: GlobalFeeds
    instruments: Instruments
    removals: Removals
    publisher: Publisher
    run_state: AsyncValue[RunState]
    # Threads for long work outside the store: reading files, exports, repairs.
    thread_limiter: trio.CapacityLimiter
    # Offline, restored sessions are not started, and no timer is set for them.
    is_offline: bool

    def stamp(self) -> Stamp:
        """Return the fields that every event has: the time, and an unused id."""
        return {"at": self.clock.now(), "fresh": TurnId(self.ids.new("turn"))}

    @property
    def is_shutting_down(self) -> bool:
        """Whether the supervisor starts nothing new."""
        state: RunState = self.run_state.value
        return state != "open"

    @property
    def is_closed(self) -> bool:
        """Whether the supervisor is closed."""
        state: RunState = self.run_state.value
        return state == "closed"

    def refuse_if_closed(self) -> None:
        """Raise SessionNotActive if the supervisor is closed."""
        if self.is_closed:
            raise supervisor_closed()

    def refuse_if_shutting_down(self) -> None:
        """Raise if no new work may start: after `drain`, or while the store is degraded."""
        if self.is_shutting_down:
            raise SessionNotActive(
                "the supervisor is shutting down", hint="open it again; accepted inputs are stored"
            )
        self.health.refuse_if_degraded()

    async def all_records(self, session_id: SessionId) -> list[Record]:
        """Return all records of a session, read in pages so that other reads are not delayed."""
        found: list[Record] = []
        while True:
            last = found[-1].seq if found else 0
            page = await self.store.records(session_id, after=last, limit=_PAGE_RECORDS)
            found += page
            if len(page) < _PAGE_RECORDS:
                return found


def make_services(
    *,
    settings: Settings,
    agents: Mapping[str, AgentKind],
    store: Store,
    writer: Ref,
    health: StoreHealth,
    tasks: DriverRuntime,
    is_offline: bool = False,
) -> Services:
    """Make the services of one supervisor over a store and its writer."""
    instruments, inbox, hooks = Instruments(), Inbox(), Hooks(tasks)
    feeds, removals = GlobalFeeds(), Removals()
    health.set_on_commit(instruments.committed)
    return Services(
        settings=SettingsCell(settings),
        agents=AgentsCell(agents),
        store=store,
        writer=writer,
        health=health,
        clock=Clock(),
        active_clock=ActiveClock(),
        # Not from `random` itself, which a program may seed: its next run would use the same ids.
        # Where time is virtual, a run must be repeatable.
        ids=Ids(random.SystemRandom() if uses_real_clock() else None),
        timers=Timers(),
        tasks=tasks,
        detached_tasks=DetachedTasks(tasks),
        start_limiter=StartLimiter(settings.start_concurrency),
        flusher=OutputFlusher(writer),
        hooks=hooks,
        inbox=inbox,
        feeds=feeds,
        instruments=instruments,
        removals=removals,
        publisher=Publisher(
            instruments=instruments, inbox=inbox, hooks=hooks, feeds=feeds, removals=removals
        ),
        run_state=AsyncValue("open"),
        thread_limiter=trio.CapacityLimiter(_HELPER_THREADS),
        is_offline=is_offline,
    )
