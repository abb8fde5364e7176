"""Recovery at start-up, before the first request: bring every stored session to a valid state.

Rule 1: `core.recovery` decides: it plans the event for each session. This module writes the steps
        that follow.
Rule 2: steps are written in the order of the plan, and no agent starts before all are written.
        So the next recovery continues one that was killed half way.
Rule 3: if a step cannot be written, sessions can be read and none starts.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import attrs
import trio

from supervisor.core.errors import SessionNotFound, StoreDegraded, SupervisorError
from supervisor.core.ids import SessionId, TurnId
from supervisor.core.records import Record, body_problem, number_facts
from supervisor.core.recovery import RecoveryPlan, RecoveryStep, plan, state_before_last_resume
from supervisor.core.state import Phase, SessionState
from supervisor.core.table import decide
from supervisor.core.text import TurnOutput
from supervisor.core.tree.node import has_budget
from supervisor.drivers.identity import ProcessIdentity
from supervisor.drivers.process.orphans import kill_orphans
from supervisor.drivers.python import PythonAgent
from supervisor.store.port import SuspendedRow, Write
from supervisor.store.writer_messages import ClaimAll, CommitAll, ForgetProcess

from .admission import Admission
from .child_notifications import Acknowledged
from .keys import KeyIndex
from .registry import SessionRegistry
from .router import SessionRouter
from .services import Services

logger = logging.getLogger("supervisor")

# Writes per commit.
_CHUNK_WRITES: Final = 1_000

_NO_SESSIONS: Final[Mapping[SessionId, SessionState]] = {}


@attrs.define
class _RecoveringSession:
    """The state of a session after the steps so far, with the epoch and seq for its next write."""

    row: SessionState
    epoch: int
    last_seq: int


@attrs.frozen
class Unacknowledged:
    """For each child: the notifications that its parent has recorded, and its unrecorded end."""

    acknowledged: Mapping[SessionId, Acknowledged]
    ends: Mapping[SessionId, SessionState]


async def recover(
    services: Services, admission: Admission, router: SessionRouter, keys: KeyIndex
) -> RecoveryPlan:
    """Recover every stored session and restore tree, keys and timers; return the plan.

    No session is started before all have their position in the tree; see `start_sessions`. If the
    store cannot be written, the supervisor becomes read-only, and readers get the planned rows.
    """
    resting, stored = await services.store.startup_rows()
    sessions = {one.row.id: _RecoveringSession(one.row, one.epoch, one.last_seq) for one in stored}
    clock = services.clock
    found = plan([one.row for one in sessions.values()], at=clock.now(), steady_at=clock.steady())
    try:
        await _end_orphans(services)
        await _apply_plan(services, sessions, found.steps)
    except StoreDegraded as error:
        logger.error("recovery could not write, opening read-only: %s", error)  # noqa: TRY400 - the traceback adds nothing
        services.health.set_read_only(error)
        found = attrs.evolve(found, to_wake=())
        if services.store.show_recovered(found.rows):
            for session_id, row in found.rows.items():
                sessions[session_id].row = row
    rows = [sessions[session_id].row for session_id in found.outcomes]
    unheard = await find_unacknowledged(services, rows)
    keys.restore(rows, resting)
    restore_sessions(services, admission, router, rows, resting=resting, unheard=unheard)
    _log_plan(found, [one.row for one in stored], resting=len(resting))
    return found


async def find_unacknowledged(services: Services, rows: Iterable[SessionState]) -> Unacknowledged:
    """Return, for each child, the notifications that its parent has recorded and has not."""
    rows = list(rows)
    parents = {row.id: row.lineage.parent for row in rows}
    news = await services.store.records_of_kinds(("child_started", "child_ended"))
    acknowledged = _acknowledged_by_parents(
        record for record in news if _is_from_parent(record, parents)
    )
    return Unacknowledged(acknowledged, await _unacknowledged_ends(services, rows, acknowledged))


def restore_sessions(
    services: Services,
    admission: Admission,
    router: SessionRouter,
    rows: Sequence[SessionState],
    *,
    resting: Sequence[SuspendedRow],
    unheard: Unacknowledged,
) -> None:
    """Restore recovered sessions in the tree, and their input timers; parents before children."""
    is_offline = services.is_offline or services.health.is_read_only
    restore_tree(
        admission,
        rows,
        unheard.acknowledged,
        ends=unheard.ends,
        resting=resting,
        is_offline=is_offline,
    )
    if not is_offline:
        for row in rows:
            if row.is_inactive and row.inputs:
                router.input_expiry.schedule(row)


def restore_tree(
    admission: Admission,
    rows: Sequence[SessionState],
    acknowledged: Mapping[SessionId, Acknowledged],
    *,
    ends: Mapping[SessionId, SessionState] = _NO_SESSIONS,
    resting: Iterable[SuspendedRow] = (),
    is_offline: bool,
) -> None:
    """Rebuild the tree after a restart of the supervisor; parents come before children.

    `resting` rows are only counted. Parents are notified of what they have not acknowledged,
    also of stops in `ends` from which the child was resumed. Offline, nothing is woken.
    """
    # Every ancestor of a row, also if sessions in between were deleted.
    above = {one for row in rows for one in row.lineage.above or ()}
    now = trio.current_time()
    tree = admission.tree
    tree.apply_suspended(one.id for one in resting if not one.is_stopped)
    for row in rows:
        if row.lineage.above:
            tree.add_deleted_ancestors(row.lineage.above)
        if row.lineage.above or row.id in above or has_budget(row.limits):
            tree.add(row)
        tree.apply(row, now)
    if is_offline:
        return
    for row in rows:
        member = tree.find(row.id)
        if member is None and row.is_inactive:
            continue  # it does not affect other sessions and does not wait for a slot
        if member is not None:
            known = acknowledged.get(row.id, Acknowledged())
            member.is_end_reported, member.is_result_reported = known.stopped, known.task_done
            parent = member.parent
            is_in_tree = parent and tree.find(parent.id) is parent
            if parent is not None and is_in_tree and row.returns > known.returns:
                if row.id in ends:
                    admission.notifications.notify_parent(parent, member, ends[row.id])
                admission.notifications.notify_of_resume(parent, member, row)
        admission.apply(row)


async def start_sessions(
    services: Services, registry: SessionRegistry, found: RecoveryPlan
) -> None:
    """Start the sessions that restart or have work to do, `start_concurrency` at a time."""
    if services.health.is_read_only:
        return
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
                    logger.warning("session %s could not be started yet: %s", session_id, error)
                    registry.retry_start(session_id)

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
) -> None:
    """Claim the sessions of the plan, decide their steps, and write them."""
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
            # A degraded store holds the write for an unknown time.
            services.health.refuse_if_degraded()
            if isinstance(answer, Exception):
                raise answer


def _apply_step(
    services: Services, session: _RecoveringSession, recovery_step: RecoveryStep, output: TurnOutput
) -> Write | None:
    fresh = TurnId(services.ids.new("turn"))
    event = recovery_step.event(epoch=session.epoch, fresh=fresh, output=output)
    step = decide(session.row, event)
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


def _is_from_parent(record: Record, parents: Mapping[SessionId, SessionId | None]) -> bool:
    """Return True if the parent wrote the record.

    An imported copy of a parent has the same records.
    """
    wrong = body_problem(record.kind, record.body)
    if wrong is not None:  # the damage of one record must not prevent the start
        logger.error("record %s of session %s is %s", record.seq, record.session_id, wrong)
        return False
    return parents.get(SessionId(record.body["child"])) == record.session_id


def _acknowledged_by_parents(records: Iterable[Record]) -> dict[SessionId, Acknowledged]:
    """Return, for each child, the notifications that its parent has recorded."""
    acknowledged: dict[SessionId, Acknowledged] = {}
    for record in records:
        child = SessionId(record.body["child"])
        known = acknowledged.get(child, Acknowledged())
        if record.kind == "child_started":
            again = record.body["resumed"]
            acknowledged[child] = Acknowledged(
                task_done=known.task_done and again, returns=known.returns + again
            )
        else:
            over = record.body["reason"] is not None
            done = known.task_done or record.body["outcome"] is not None
            acknowledged[child] = Acknowledged(over, done, known.returns)
    return acknowledged


async def _unacknowledged_ends(
    services: Services, rows: Iterable[SessionState], acknowledged: Mapping[SessionId, Acknowledged]
) -> dict[SessionId, SessionState]:
    """Return, for each child, its state at an end of which the parent has no record.

    That includes a child that was resumed since: without its end, the parent would be notified of
    the resume of a child that never stopped.
    """
    ends: dict[SessionId, SessionState] = {}
    for row in rows:
        known = acknowledged.get(row.id, Acknowledged())
        if row.lineage.parent is None or known.stopped or row.returns <= known.returns:
            continue
        try:
            end = state_before_last_resume(await services.store.records(row.id))
        except (SupervisorError, ValueError) as error:
            logger.warning(
                "end of session %s is unreadable, parent not notified: %s", row.id, error
            )
            continue
        if end is not None:
            ends[row.id] = end
    return ends


def _log_plan(found: RecoveryPlan, rows: list[SessionState], *, resting: int) -> None:
    lost = sum(row.turn is not None for row in rows)
    if found.steps:
        logger.info(
            "%d sessions stored, %d recovered, %d turns lost, %d to start",
            len(rows) + resting,
            len({recovery_step.session for recovery_step in found.steps}),
            lost,
            len(found.to_wake) + sum(one is Phase.RESTARTING for one in found.outcomes.values()),
        )
