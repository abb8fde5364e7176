"""Recovery at start-up, before the first request: bring every stored session to a valid state.

Rule 1: `core.recovery` decides: it plans the event for each session. This module writes the steps
        that follow.
Rule 2: steps are written in the order of the plan, and no agent starts before all are written.
        So the next recovery continues one that was killed half way.
Rule 3: if a step cannot be written, sessions can be read as recovery has decided, none starts, and
        recovery is retried until it is written, before anything else is.
"""

from __future__ import annotations

import contextlib
import logging
import math
from collections.abc import Collection, Iterable, Mapping
from typing import Final

import attrs
import trio

from actors import ActorStopped
from supervisor.core.errors import SessionNotFound, StoreDegraded
from supervisor.core.facts import number_facts
from supervisor.core.ids import SessionId, TurnId
from supervisor.core.log_content import error_content
from supervisor.core.recovery import RecoveryPlan, RecoveryStep, plan
from supervisor.core.state import Phase, SessionState
from supervisor.core.table import decide
from supervisor.core.text import TurnOutput
from supervisor.drivers.identity import ProcessIdentity
from supervisor.drivers.process.orphans import kill_orphans
from supervisor.drivers.python import PythonAgent
from supervisor.store.pending import PendingWrite
from supervisor.store.port import StartupRows, Write
from supervisor.store.writer import FIRST_RETRY_SECONDS, MAX_RETRY_SECONDS
from supervisor.store.writer_messages import ClaimAll, CommitAll, ForgetProcess, Retry

from .admission import Admission
from .keys import KeyIndex
from .registry import SessionRegistry
from .router import SessionRouter
from .services import Services
from .tree_restore import find_unacknowledged, restore_sessions, restore_tree

logger = logging.getLogger("supervisor")

# Writes per commit.
_CHUNK_WRITES: Final = 1_000


@attrs.define
class _RecoveringSession:
    """The state of a session after the steps so far, with the epoch and seq for its next write."""

    row: SessionState
    epoch: int
    last_seq: int


class Recovery:
    """The recovery of one supervisor: once before the first request, or again until it is written.

    `begin` returns in any case. If the store could not be written, requests can read what recovery
    has decided; everything else is refused, and `finish` tries again until it has succeeded.
    """

    def __init__(
        self,
        services: Services,
        registry: SessionRegistry,
        router: SessionRouter,
        admission: Admission,
        keys: KeyIndex,
    ) -> None:
        self._services = services
        self._registry = registry
        self._router = router
        self._admission = admission
        self._keys = keys
        # The plan, once it is written.
        self._written: RecoveryPlan | None = None

    async def begin(self) -> None:
        """Recover every stored session and restore tree, keys and timers, if possible.

        No session is started before all have their position in the tree.
        """
        health = self._services.health
        health.is_recovery_pending = not health.is_read_only
        stored = await self._services.store.startup_rows()
        try:
            await self._recover(stored)
        except StoreDegraded as error:
            if not health.is_read_only:
                logger.error("recovery could not write, and is retried: %s", error)  # noqa: TRY400 - the traceback adds nothing
            self._show_unwritten(stored)

    async def finish(self) -> None:
        """Recover now if `begin` could not, then start the sessions that have work to do."""
        pause = FIRST_RETRY_SECONDS
        while self._services.health.is_recovery_pending:
            await trio.sleep(pause)
            pause = min(2.0 * pause, MAX_RETRY_SECONDS)
            with contextlib.suppress(StoreDegraded, ActorStopped):
                # What an earlier attempt has left is written first.
                if await self._services.writer.ask(Retry(), timeout_seconds=math.inf):
                    await self._recover(await self._services.store.startup_rows())
        if self._written is not None:
            await start_sessions(self._services, self._registry, self._written)

    async def _recover(self, stored: StartupRows) -> None:
        """Plan, write the plan, and restore what is in memory; raise StoreDegraded."""
        services = self._services
        resting, others = stored
        sessions = {
            one.row.id: _RecoveringSession(one.row, one.epoch, one.last_seq) for one in others
        }
        # In the plan, so that they come before the restart of a session.
        stops = self._router.postponed_stops
        found = self._plan(stored, stops)
        await _end_orphans(services)
        writes = await _apply_plan(services, sessions, found.steps)
        await services.store.note_recovered()
        rows = [sessions[session_id].row for session_id in found.outcomes]
        unheard = await find_unacknowledged(services, rows)
        self._keys.restore(rows, resting)
        restore_sessions(
            services, self._admission, self._router, rows, resting=resting, unheard=unheard
        )
        _log_plan(found, [one.row for one in others], resting=len(resting))
        self._router.forget_postponed_stops(stops & found.outcomes.keys())
        self._written = found
        services.store.show_recovered({})
        self._publish(writes)
        services.health.end_recovery()

    def _publish(self, writes: Iterable[Write]) -> None:
        """Publish the written records to present watchers and waits."""
        for write in writes:
            slot = self._registry.find_slot(write.session_id)
            if slot is not None:
                slot.subscribers.publish(write.records)
                assert write.row is not None
                slot.adopt(write.row)
                slot.clear()
        self._services.publisher.wake_feeds()

    def _show_unwritten(self, stored: StartupRows) -> None:
        """Let requests read the sessions as recovery will write them."""
        found = self._plan(stored)
        # Another supervisor may hold a file that was opened to read only.
        is_shown = self._services.store.show_recovered(found.rows)
        rows = list(found.rows.values()) if is_shown else [one.row for one in stored.loaded]
        self._keys.restore(rows, stored.suspended)
        restore_tree(self._admission, rows, {}, resting=stored.suspended, is_offline=True)

    def _plan(
        self, stored: StartupRows, stops: Collection[SessionId] = frozenset()
    ) -> RecoveryPlan:
        clock = self._services.clock
        return plan(
            [one.row for one in stored.loaded],
            at=clock.now(),
            steady_at=clock.steady(),
            stops=stops,
            last_seqs={one.row.id: one.last_seq for one in stored.loaded},
        )


async def start_sessions(
    services: Services, registry: SessionRegistry, found: RecoveryPlan
) -> None:
    """Start the sessions that restart or have work to do, `start_concurrency` at a time."""
    restarting = [one for one, phase in found.outcomes.items() if phase is Phase.RESTARTING]
    limiter = trio.CapacityLimiter(services.settings().start_concurrency)

    async def wake_one(session_id: SessionId) -> None:
        async with limiter:
            try:
                await registry.get_or_start(session_id)
            except SessionNotFound:
                return  # deleted meanwhile
            except Exception as error:  # noqa: BLE001 - the store fails; retried
                if not services.is_shutting_down:
                    logger.warning(
                        "session %s could not be started yet: %s", session_id, error_content(error)
                    )
                    registry.retry_start(session_id)
            else:
                # An actor that was running does not recheck by itself.
                registry.wake_if_marked(session_id)

    async with trio.open_nursery() as nursery:
        for session_id in (*restarting, *found.to_wake):
            if session_id in found.to_wake:
                registry.mark_for_recheck(session_id)
            nursery.start_soon(wake_one, session_id)


async def _end_orphans(services: Services) -> None:
    """Kill the orphans of a supervisor that was killed, and delete their entries in the store."""
    noted = {
        ProcessIdentity(one.pid, one.start_time, one.boot_id): one
        for one in await services.store.processes()
    }
    if not noted and all(isinstance(kind, PythonAgent) for kind in services.agents().values()):
        return  # no agent of this store has had a process
    for leftover in await kill_orphans(list(noted)):
        process = noted.get(leftover.identity)
        owner = "a descendant" if process is None else f"session {process.session_id}"
        logger.warning("orphan %s of %s: %s", leftover.identity.pid, owner, leftover.outcome)
        if process is not None and leftover.outcome != "unkillable":
            await services.writer.ask(ForgetProcess(process), timeout_seconds=math.inf)


async def _apply_plan(
    services: Services,
    sessions: Mapping[SessionId, _RecoveringSession],
    steps: Iterable[RecoveryStep],
) -> list[Write]:
    """Claim the sessions of the plan, decide their steps, and write them; return the writes."""
    steps = list(steps)
    session_ids = list(dict.fromkeys(recovery_step.session for recovery_step in steps))
    claimed = await services.writer.ask(ClaimAll(tuple(session_ids)), timeout_seconds=math.inf)
    for session_id, stored in zip(session_ids, claimed, strict=True):
        assert stored is not None  # no request is served yet that could have deleted it
        sessions[session_id].epoch = stored.epoch
    writes: list[Write] = []
    for recovery_step in steps:
        session = sessions[recovery_step.session]
        write = _apply_step(
            services,
            session,
            recovery_step,
            await _output_of_open_turn(services, session, recovery_step),
        )
        if write is not None:
            writes.append(write)
    for start in range(0, len(writes), _CHUNK_WRITES):
        chunk = tuple(writes[start : start + _CHUNK_WRITES])
        for answer in await services.writer.ask(CommitAll(chunk), timeout_seconds=math.inf):
            if isinstance(answer, PendingWrite):
                # It is written before the next attempt, which continues from there.
                services.health.refuse_if_degraded()
            elif answer is not None:
                raise answer
    return writes


def _apply_step(
    services: Services, session: _RecoveringSession, recovery_step: RecoveryStep, output: TurnOutput
) -> Write | None:
    fresh = TurnId(services.ids.new("turn"))
    event = recovery_step.event(epoch=session.epoch, fresh=fresh, output=output)
    step = decide(session.row, event, session.last_seq)
    if not step.facts:
        return None
    records = number_facts(recovery_step.session, step.facts, after=session.last_seq)
    session.row = step.state
    session.last_seq += len(records)
    return Write(recovery_step.session, session.epoch, records, step.state)


async def _output_of_open_turn(
    services: Services, session: _RecoveringSession, recovery_step: RecoveryStep
) -> TurnOutput:
    turn = session.row.turn
    if turn is None or recovery_step.kind != "restarted":
        return TurnOutput()
    return await services.stored_output(recovery_step.session, turn)


def _log_plan(found: RecoveryPlan, rows: list[SessionState], *, resting: int) -> None:
    lost = sum(row.turn is not None for row in rows)
    if found.steps:
        logger.info(
            "sessions stored: %d, recovered: %d, turns lost: %d, to start: %d",
            len(rows) + resting,
            len({recovery_step.session for recovery_step in found.steps}),
            lost,
            len(found.to_wake) + sum(one is Phase.RESTARTING for one in found.outcomes.values()),
        )
