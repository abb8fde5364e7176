"""What all sessions share: the store and its writer, time and names, agents, and the index."""

from __future__ import annotations

import functools
import logging
import math
import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import trio

from actors import Group, Ref
from supervisor.config import Settings
from supervisor.core.ids import SessionId, TurnId
from supervisor.core.records import Record
from supervisor.core.session import Terms
from supervisor.drivers.confined import FREE, Confined, Free
from supervisor.drivers.port import AgentKind, Child, Stamp, Turn, Workshop
from supervisor.drivers.watchdog import time_is_real
from supervisor.sessions.desk.desk import Desk
from supervisor.sessions.desk.room import make_room
from supervisor.sessions.desk.spawning import Spawning
from supervisor.sessions.desk.starts import Starts
from supervisor.sessions.hooks import Hooks
from supervisor.sessions.hooks.gates import Gates
from supervisor.sessions.hooks.told import tell_of_record
from supervisor.sessions.ids import Ids
from supervisor.sessions.inbox import KINDS_OF_REQUESTS, Inbox
from supervisor.sessions.lines import Lines
from supervisor.sessions.register import Register
from supervisor.sessions.scribe import Scribe
from supervisor.sessions.shell.feed import Everything
from supervisor.sessions.time.clock import Clock
from supervisor.sessions.time.pulse import Pulse
from supervisor.sessions.time.timers import Timers
from supervisor.sessions.tree import Tree
from supervisor.store.port import Store
from supervisor.store.writer import keep_trying
from supervisor.store.writer.health import Health, StoreState

from .taps import Taps
from .works import Works

logger = logging.getLogger("supervisor")


class House:
    """Made once by `open()`, and passed to everyone who works in it."""

    def __init__(
        self,
        *,
        settings: Settings,
        agents: Mapping[str, AgentKind],
        store: Store,
        writer: Ref,
        health: Health,
        system: Group,
        workshop: Workshop,
        make_handle: Callable[..., Any],
        make_child: Callable[[Any, Turn], Child],
    ) -> None:
        self.settings = settings
        self.agents = agents
        self.store = store
        self.writer = writer
        self.health = health
        self.taps = Taps()
        health.on_change = self._health_changed
        health.on_commit = self.taps.committed
        self.system = system
        # Whether nobody is at home: then no session is set in motion, whatever is written.
        self.is_still = False
        self.workshop = workshop
        self._make_handle = make_handle
        self._make_child = make_child
        self.clock = Clock()
        # Not from `random` itself, which a program may seed: its next run had the same names.
        # Where time is virtual, a run is to be the same again.
        self.ids = Ids(random.SystemRandom() if time_is_real() else None)
        self.timers = Timers()
        self.inbox = Inbox()
        self.scribe = Scribe(writer)
        self.readers: list[Everything] = []
        self.pulse = Pulse()
        self.hooks = Hooks(workshop)
        self.gates = Gates(self)
        self.desk = Desk(self)
        self.tree = Tree(self)
        self.lines = Lines(self)
        self.works = Works(workshop)
        self.register = Register(self)
        self.spawning = Spawning(self)
        self.starts = Starts(settings.start_concurrency)
        workshop.make_room = functools.partial(make_room, self)
        # Threads for what takes long and is no store's: reading files, telling stories.
        self.long_work = trio.CapacityLimiter(2)
        # One object for all sessions that leave the settings as they are.
        self._usual_terms = _terms(settings)

    def confinement(self, agent: str) -> Confined | Free:
        """What sessions of that agent get if nobody asks for anything else."""
        kind = self.agents.get(agent) if isinstance(agent, str) else None
        return kind if isinstance(kind, Confined) else FREE

    def terms_of(self, settings: Settings) -> Terms:
        """What a session made under these settings goes by."""
        return self._usual_terms if settings is self.settings else _terms(settings)

    def handle(
        self,
        session_id: SessionId,
        *,
        caller: SessionId | None = None,
        turn: TurnId | None = None,
    ) -> Any:  # noqa: ANN401
        """What users hold of a session: a `surface.handle.Session`.

        `caller` and `turn` say whose agent uses it, and in which turn, if one does.
        """
        return self._make_handle(self, session_id, caller=caller, turn=turn)

    def child(self, session_id: SessionId, above: SessionId, turn: Turn) -> Child:
        """What an agent holds of a session below its own, as long as its turn lasts."""
        return self._make_child(self.handle(session_id, caller=above), turn)

    def stamp(self) -> Stamp:
        """What every event brings: when, and an id that nobody has used."""
        return {"at": self.clock.now(), "fresh": TurnId(self.ids.new("turn"))}

    def is_published(self, record: Record) -> bool:
        """Whether everybody may know of a record that is in the store."""
        seat = self.tree.find_seat(record.session_id)
        return seat is None or seat.log is None or record.seq <= seat.log.published

    def published(self, records: Sequence[Record]) -> None:
        """These records of some session are durable."""
        if self.taps.of_records:
            self.taps.published(records)
        has_observers = self.hooks.has_observers
        for record in records:
            if record.kind in KINDS_OF_REQUESTS:
                self.inbox.take(record)
            if has_observers:
                tell_of_record(self, record)
        if self.readers:
            self.rouse_readers()

    def _health_changed(self, state: StoreState) -> None:
        if state.degraded:
            logger.error("%s (hint: %s)", state.problem, state.hint)
            self.workshop.start_soon(keep_trying, self.writer, self.health)
        else:
            logger.warning("the store is well again")
            self.workshop.start_soon(self.lines.order_postponed_stops)
        self.hooks.notify(
            "health_changed",
            session_id=None,
            badge="unhealthy" if state.degraded else "well",
            before="well" if state.degraded else "unhealthy",
            detail=state.problem,
        )

    def rouse_readers(self) -> None:
        """There may be something new for who reads everything."""
        for reader in self.readers:
            reader.rouse()


def _or_never(seconds: float) -> float | None:
    # JSON has no infinity, and what is stored must come back as it was.
    return None if seconds == math.inf else seconds


def _terms(settings: Settings) -> Terms:
    return Terms(
        queue_cap=settings.queue_cap,
        max_text_bytes=settings.max_text_bytes,
        steer_fallback=settings.steer_fallback,
        ladder=settings.ladder,
        restart=settings.restart,
        permission_timeout_seconds=settings.permission_timeout_seconds,
        suspend_after_seconds=_or_never(settings.suspend_after_seconds),
        max_turn_bytes=settings.max_turn_bytes,
        quiet_after_seconds=settings.quiet_after_seconds,
        stalled_after_seconds=settings.stalled_after_seconds,
        tool_stalled_after_seconds=settings.tool_stalled_after_seconds,
        on_stall=settings.on_stall,
        turn_deadline_seconds=settings.turn_deadline_seconds,
        answers_for_children=settings.answers_for_children,
    )
