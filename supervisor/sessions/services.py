"""Leaf services that all sessions of one supervisor share.

Rule 1: no service refers to a session, an actor or a component that is built from `Services`.
Rule 2: the record is frozen. Values that change are behind a cell or in a service's own state.
Rule 3: an id is a prefix that tells the kind and random characters. It says nothing about place or
        time, and is never used for order. A seeded source makes the same ids again.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping
from typing import Final, Protocol, TypeAlias

import attrs
import trio

from actors import Ref
from supervisor.config import Settings
from supervisor.core.endings import Cause
from supervisor.core.errors import SessionNotActive
from supervisor.core.ids import SessionId, TurnId
from supervisor.core.limits import Terms
from supervisor.core.records import Record
from supervisor.core.state import OpenTurn
from supervisor.core.text import TurnOutput, TurnOutputReader
from supervisor.drivers.port import AgentKind, Stamp
from supervisor.drivers.runtime import DriverRuntime
from supervisor.drivers.watchdog import uses_real_clock
from supervisor.store.pending import StoreHealth
from supervisor.store.port import Store

from .agents_cell import AgentsCell, AgentSource
from .clock import ActiveClock, Clock
from .feed import GlobalFeeds
from .flusher import OutputFlusher
from .given_servers import GivenServers
from .hooks import Hooks
from .inbox import Inbox
from .instruments import Instruments
from .output_budget import OutputBudget
from .publisher import Publisher
from .refusals import supervisor_closed
from .removals import Removals
from .shutdown_state import ShutdownState
from .tasks import DetachedTasks, StartLimiter
from .timers import Timers

RANDOM_CHARACTERS: Final = 12
_DIGITS: Final = b"0123456789abcdefghijklmnopqrstuvwxyz"
# Each byte as a digit. Bytes of an incomplete last group are dropped: no digit is more likely.
_DIGIT_OF_BYTE: Final = bytes(_DIGITS[byte % len(_DIGITS)] for byte in range(256))
_DROPPED: Final = bytes(range(256 - 256 % len(_DIGITS), 256))
# Random bytes drawn at once: each draw is a call of the operating system.
_BULK_BYTES: Final = 4_096


class Ids:
    """Generator of ids: a prefix, and 12 random characters of [0-9a-z], which are 62 bits.

    Among a billion ids, two are equal with a probability of 1 in 10. The store refuses a session
    with the id of another one, and `Lifecycle.draw_id` draws again; other ids need to differ only
    within their session.
    """

    def __init__(self, chance: random.Random | None = None) -> None:
        # They need not be secret.
        self._random_bytes = random.randbytes if chance is None else chance.randbytes
        self._characters = ""
        self._next = 0

    def new(self, prefix: str) -> str:
        """Return a new id like `turn_4f9k2x81bz0c`."""
        start = self._next
        end = self._next = start + RANDOM_CHARACTERS
        if end > len(self._characters):
            drawn = self._random_bytes(_BULK_BYTES).translate(_DIGIT_OF_BYTE, _DROPPED)
            self._characters = drawn.decode("ascii")
            start, self._next = 0, RANDOM_CHARACTERS
            end = RANDOM_CHARACTERS
        return f"{prefix}_{self._characters[start:end]}"


class SettingsCell:
    """The current settings; calling the cell returns them."""

    __slots__ = ("_default_terms", "_settings")

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        # One object for all sessions that use the settings unchanged.
        self._default_terms = _terms(settings)

    def __call__(self) -> Settings:
        """Return the current settings."""
        return self._settings

    def replace(self, settings: Settings) -> None:
        """Replace the settings; existing sessions keep their terms."""
        self._settings = settings
        self._default_terms = _terms(settings)

    def terms_of(self, settings: Settings) -> Terms:
        """Return the terms of a session created under these settings."""
        return self._default_terms if settings is self._settings else _terms(settings)


def process_agents(agents: Mapping[str, AgentKind]) -> frozenset[str]:
    """Return the names of the agents that run as a process."""
    return frozenset(name for name, kind in agents.items() if kind.runs_process)


def _finite_or_none(seconds: float) -> float | None:
    # JSON has no infinity, and a stored value must decode to itself.
    return None if seconds == math.inf else seconds


def _terms(settings: Settings) -> Terms:
    return Terms(
        queue_cap=settings.queue_cap,
        max_text_bytes=settings.max_text_bytes,
        steer_fallback=settings.steer_fallback,
        ladder=settings.ladder,
        restart=settings.restart,
        permission_timeout_seconds=settings.permission_timeout_seconds,
        suspend_after_seconds=_finite_or_none(settings.suspend_after_seconds),
        max_turn_bytes=settings.max_turn_bytes,
        quiet_after_seconds=settings.quiet_after_seconds,
        stalled_after_seconds=settings.stalled_after_seconds,
        tool_stalled_after_seconds=settings.tool_stalled_after_seconds,
        on_stall=settings.on_stall,
        turn_deadline_seconds=settings.turn_deadline_seconds,
        answers_for_children=settings.answers_for_children,
    )


# Order a stop for a cause, with a detail, without waiting for it.
StopSession: TypeAlias = Callable[[SessionId, Cause, str | None], None]

_PAGE_RECORDS: Final = 500
_HELPER_THREADS: Final = 2


class RunState:
    """The state of the supervisor: open, then draining, then closed. It never goes back.

    Plain attributes, because each request reads both.
    """

    __slots__ = ("is_closed", "is_shutting_down")

    def __init__(self) -> None:
        # Since it drains: new work is refused.
        self.is_shutting_down = False
        # Every call raises. Invariant: a closed supervisor is shutting down too.
        self.is_closed = False

    def drain(self) -> None:
        """Refuse new work from now on."""
        self.is_shutting_down = True

    def close(self) -> None:
        """Refuse every call from now on."""
        self.is_shutting_down = self.is_closed = True


class RunningService(Protocol):
    """A service with a task of its own."""

    async def run(self) -> None:
        """Run until cancelled."""


@attrs.frozen(eq=False)
class Services:
    """Frozen record of leaf services, created once by `make_services`."""

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
    output_budget: OutputBudget
    hooks: Hooks
    inbox: Inbox
    given_servers: GivenServers
    feeds: GlobalFeeds
    instruments: Instruments
    removals: Removals
    publisher: Publisher
    run_state: RunState
    shutdown: ShutdownState
    # Threads for long work outside the store: reading files, exports, repairs.
    thread_limiter: trio.CapacityLimiter
    # Offline, restored sessions are not started, and no timer is set for them.
    is_offline: bool

    @property
    def running(self) -> tuple[RunningService, ...]:
        """The services that have a task of their own, as long as the supervisor."""
        return (self.timers, self.flusher, self.output_budget, self.active_clock, self.hooks)

    def stamp(self) -> Stamp:
        """Return the fields that every event has: the time by both clocks, and an unused id."""
        at, steady_at = self.clock.now_and_steady()
        return {"at": at, "steady_at": steady_at, "fresh": TurnId(self.ids.new("turn"))}

    @property
    def is_shutting_down(self) -> bool:
        """Whether the supervisor refuses new work."""
        return self.run_state.is_shutting_down

    @property
    def is_closed(self) -> bool:
        """Whether the supervisor is closed."""
        return self.run_state.is_closed

    def refuse_if_closed(self) -> None:
        """Raise SessionNotActive if the supervisor is closed."""
        if self.run_state.is_closed:
            raise supervisor_closed()

    def refuse_if_shutting_down(self) -> None:
        """Raise SessionNotActive after `drain`, and StoreDegraded while the store is degraded."""
        if self.run_state.is_shutting_down:
            raise SessionNotActive(
                "the supervisor is shutting down", hint="open it again; accepted inputs are stored"
            )
        if self.health.problem is not None:
            self.health.refuse_if_degraded()

    async def stored_output(self, session_id: SessionId, turn: OpenTurn | None) -> TurnOutput:
        """Return the stored output of a turn that no driver will report; empty without a turn."""
        if turn is None:
            return TurnOutput()
        reader, last = TurnOutputReader(turn.id), 0
        while page := await self.store.records(
            session_id, after=last, limit=_PAGE_RECORDS, turn=turn.id
        ):
            reader.add(page)
            last = page[-1].seq
        return reader.output

    async def all_records(self, session_id: SessionId) -> list[Record]:
        """Return all records of a session, read in pages so that other reads are not delayed."""
        found: list[Record] = []
        await self.visit_records(session_id, found.append)
        return found

    async def visit_records(self, session_id: SessionId, visit: Callable[[Record], object]) -> None:
        """Call `visit` with each record of a session in order; only one page is in memory."""
        last = 0
        while True:
            page = await self.store.records(session_id, after=last, limit=_PAGE_RECORDS)
            for record in page:
                visit(record)
            if len(page) < _PAGE_RECORDS:
                return
            last = page[-1].seq


def make_services(
    *,
    settings: Settings,
    agents: Mapping[str, AgentKind],
    store: Store,
    writer: Ref,
    health: StoreHealth,
    tasks: DriverRuntime,
    is_offline: bool = False,
    agent_source: AgentSource | None = None,
) -> Services:
    """Return the services of one supervisor over a store and its writer."""
    feeds, removals = GlobalFeeds(), Removals()
    clock = Clock(store.last_clock)
    instruments, inbox, hooks = Instruments(), Inbox(clock.wall_time_of), Hooks(tasks)
    health.set_on_commit(instruments.committed)
    health.throttle.loop_time = clock.loop_time
    return Services(
        settings=SettingsCell(settings),
        agents=AgentsCell(agents, agent_source),
        store=store,
        writer=writer,
        health=health,
        clock=clock,
        active_clock=ActiveClock(clock.loop_time),
        # Not from `random` itself, which a program may seed: its next run would use the same ids.
        # Where time is virtual, a run must be repeatable.
        ids=Ids(random.SystemRandom() if uses_real_clock() else None),
        timers=Timers(clock.loop_time),
        tasks=tasks,
        detached_tasks=DetachedTasks(tasks),
        start_limiter=StartLimiter(settings.start_concurrency),
        flusher=OutputFlusher(writer, health.throttle, clock.loop_time),
        output_budget=OutputBudget(settings.max_pending_output_bytes, health.throttle),
        hooks=hooks,
        inbox=inbox,
        given_servers=GivenServers(),
        feeds=feeds,
        instruments=instruments,
        removals=removals,
        publisher=Publisher(
            instruments=instruments, inbox=inbox, hooks=hooks, feeds=feeds, removals=removals
        ),
        run_state=RunState(),
        shutdown=ShutdownState(),
        thread_limiter=trio.CapacityLimiter(_HELPER_THREADS),
        is_offline=is_offline,
    )
