"""The recovery plan for all stored sessions after the supervisor has exited. Pure.

Rule 1: the table alone decides the new state of a session. The plan calls it, and orders the
        events of all sessions.
Rule 2: the end of a session is written before its dependents get their stop, and is finished
        when they have stopped. So a recovery that is killed half way continues as it began.
Rule 3: no session wakes and no turn starts before all sessions have their outcome;
        `RecoveryPlan.to_wake` comes after.
Rule 4: a suspended or stopped session with no inputs and nothing left over gets no event. If it
        also has no relatives (`needs_no_recovery`), its row need not even be read.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Final, Literal, TypeAlias, TypedDict

import attrs

from .agent_events import SupervisorRestarted, TreeChanged
from .endings import Cause
from .events import Event, StopRequested
from .fold import replay
from .ids import InputId, SessionId, TurnId
from .records import Record
from .state import Phase, SessionState
from .table import decide
from .text import TurnOutput
from .tree.admission import TreeView

# Stop for a cause; the supervisor was gone; all dependents have stopped.
StepKind: TypeAlias = Literal["stop", "restarted", "recheck"]

_NO_OUTPUT: Final = TurnOutput()
_ENDED_OR_ENDING: Final = (Phase.STOPPING, Phase.STOPPED)


class _CommonFields(TypedDict):
    at: float
    steady_at: float
    fresh: TurnId
    tree_view: TreeView


@attrs.frozen(kw_only=True)
class RecoveryStep:
    """One event for one session, and the tree view that its rule sees.

    `steady_at` is the same for all steps, so that restarts count as planned. So is `at`, except for
    a stop within a turn, which has the time of the session's last write, since the time without a
    supervisor is not the turn's.
    """

    session: SessionId
    kind: StepKind
    at: float
    steady_at: float
    cause: Cause | None = None
    tree_view: TreeView

    def event(self, *, epoch: int, fresh: TurnId, output: TurnOutput = _NO_OUTPUT) -> Event:
        """Return the event; epoch, id and the open turn's text come from the caller.

        It has the tree view of the plan, in which no session has a free slot, not that of
        `Admission`.
        """
        common: _CommonFields = {
            "at": self.at,
            "steady_at": self.steady_at,
            "fresh": fresh,
            "tree_view": self.tree_view,
        }
        match self.kind:
            case "stop":
                assert self.cause is not None
                return StopRequested(cause=self.cause, **common)
            case "restarted":
                return SupervisorRestarted(epoch=epoch, output=output, **common)
            case "recheck":
                # It carries no news, so no input is ever created with that id.
                return TreeChanged(input=InputId(fresh), **common)


@attrs.frozen(kw_only=True)
class RecoveryPlan:
    """All events in order, and the phase of each session afterwards.

    The events can be written, session by session or all at once, before any agent is started.
    """

    steps: tuple[RecoveryStep, ...]
    # Invariant: every session that was read, parents before children; each is stopped,
    # suspended, or about to start another agent (restarting).
    outcomes: Mapping[SessionId, Phase]
    # Invariant: the same sessions, each as it is after its events.
    rows: Mapping[SessionId, SessionState]
    # Suspended sessions with waiting inputs, the longest waiting first. They are re-evaluated
    # (`TreeChanged`) after all steps, as far as there are slots for them.
    to_wake: tuple[SessionId, ...]


def plan(
    rows: Iterable[SessionState],
    *,
    at: float,
    steady_at: float | None = None,
    stops: Collection[SessionId] = (),
    last_seqs: Mapping[SessionId, int] = MappingProxyType({}),
) -> RecoveryPlan:
    """Return the recovery plan; `at` is the current wall time and `steady_at` the steady time.

    `rows` come in the order of creation: clocks may be set back, and ids have no order. Rows
    that need no recovery, without descendants, may be left out. Expiry comes first: a session
    past its expiry ends for that reason, whatever it was doing. Dependents of a session that
    ends stop before it, the youngest first. `stops` are sessions that users have stopped since the
    supervisor was started again. `last_seqs` are the numbers of their last records, which the rows
    of the plan name.
    """
    steady_at = at if steady_at is None else steady_at
    return _PlanBuilder(rows, at, steady_at, stops, last_seqs).finish()


class _PlanBuilder:
    """A plan under construction: passes each session's events to the table."""

    def __init__(
        self,
        rows: Iterable[SessionState],
        at: float,
        steady_at: float,
        stops: Collection[SessionId],
        last_seqs: Mapping[SessionId, int],
    ) -> None:
        self._last_seqs = dict(last_seqs)
        self._at = at
        self._steady_at = steady_at
        self._stops = stops
        # Invariant: every session as it is after its events so far.
        self._rows = {row.id: row for row in rows}
        self._children: dict[SessionId | None, list[SessionId]] = {}
        self._steps: list[RecoveryStep] = []
        self._outcomes: dict[SessionId, Phase] = {}
        for row in self._rows.values():
            parent = row.lineage.parent
            known = parent if parent in self._rows else None
            self._children.setdefault(known, []).append(row.id)

    def finish(self) -> RecoveryPlan:
        """Return the plan after all sessions have been visited."""
        # A stack and not a recursion: trees may be as deep as their limits allow. A session
        # that is on it a second time only checks if all its dependents have stopped.
        stack = list(reversed(self._children.get(None, [])))
        while stack:
            session_id = stack.pop()
            if session_id in self._outcomes:
                self._add_step(session_id, "recheck")
            else:
                stack += reversed(self._visit(session_id))
            self._outcomes[session_id] = self._rows[session_id].phase
        return RecoveryPlan(
            steps=tuple(self._steps),
            outcomes=self._outcomes,
            rows={session_id: self._rows[session_id] for session_id in self._outcomes},
            to_wake=tuple(self._to_wake()),
        )

    def _visit(self, session_id: SessionId) -> list[SessionId]:
        """Add all events of a session except its final stop; return the ids to visit next.

        These include the session itself again if it waits for dependents.
        """
        row = self._rows[session_id]
        cause = self._cause_to_stop(row)
        if cause is not None:
            self._add_step(session_id, "stop", cause)
        if cause is not None or not _is_settled(row):
            self._add_step(session_id, "restarted")
        children = self._children.get(session_id, [])
        if self._rows[session_id].phase not in _ENDED_OR_ENDING:
            return children
        dependents = [child for child in reversed(children) if not self._is_detached(child)]
        others = [child for child in children if self._is_detached(child)]
        waits = self._rows[session_id].phase is Phase.STOPPING
        return [*dependents, *([session_id] if waits else []), *others]

    def _cause_to_stop(self, row: SessionState) -> Cause | None:
        lineage = row.lineage
        if row.phase is Phase.STOPPED:
            return None
        if lineage.expires_at is not None and lineage.expires_at <= self._steady_at:
            return "ttl_expired"
        if row.id in self._stops:
            return "user"
        if lineage.parent is None or lineage.lifetime == "detached":
            return None
        # A parent that no longer exists was stopped before it was deleted.
        parent = self._rows.get(lineage.parent)
        return "parent_stopped" if parent is None or parent.phase in _ENDED_OR_ENDING else None

    def _is_detached(self, session_id: SessionId) -> bool:
        return self._rows[session_id].lineage.lifetime == "detached"

    def _has_stopped(self, session_id: SessionId) -> bool:
        return self._rows[session_id].phase is Phase.STOPPED

    def _add_step(self, session_id: SessionId, kind: StepKind, cause: Cause | None = None) -> None:
        row = self._rows[session_id]
        dependents = sum(
            not self._is_detached(child) and not self._has_stopped(child)
            for child in self._children.get(session_id, [])
        )
        ran = None if row.turn is None else max(0.0, row.updated_at - row.turn.started_at)
        in_mid_turn = kind == "stop" and row.turn is not None
        step = RecoveryStep(
            session=session_id,
            kind=kind,
            at=row.updated_at if in_mid_turn else self._at,
            steady_at=self._steady_at,
            cause=cause,
            tree_view=TreeView(dependents=dependents, child_slots_full=True, ran_seconds=ran),
        )
        event = step.event(epoch=row.epoch + 1, fresh=TurnId("foreseen"))
        last_seq = self._last_seqs.get(session_id, 0)
        decided = decide(row, event, last_seq)
        self._rows[session_id] = decided.state
        self._last_seqs[session_id] = last_seq + len(decided.facts)
        self._steps.append(step)

    def _to_wake(self) -> list[SessionId]:
        sleepers = [
            row for row in self._rows.values() if row.phase is Phase.SUSPENDED and row.inputs
        ]
        return [row.id for row in sorted(sleepers, key=_oldest_input_at)]


def needs_no_recovery(row: SessionState) -> bool:
    """Return True if recovery has nothing to do for a session without descendants.

    For such a session the plan and admission need only its existence, not its row.
    """
    return (
        _is_settled(row)
        and not row.inputs
        and row.lineage.parent is None
        and row.lineage.expires_at is None
        and not row.family.open_children
        and not (row.limits is not None and row.limits.has_budget)
    )


def state_before_last_resume(records: Sequence[Record]) -> SessionState | None:
    """Return the session at its last stop before its last resume; None if it never resumed.

    A parent that has recorded neither that stop nor the resume is notified of both. Raise
    `ValueError` if a record is missing or lacks a field of its kind.
    """
    try:
        returned = [one.seq for one in records if _is_resume(one)]
        stopped = [
            one.seq
            for one in records
            if one.kind == "session_stopped" and one.seq < max(returned, default=0)
        ]
        if not stopped:
            return None
        until = records[: stopped[-1]]
        if [one.seq for one in until] != list(range(1, stopped[-1] + 1)):
            raise ValueError("records are missing")
        return replay(until)
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"a record does not fit its kind: {error!r}") from error


def _is_resume(record: Record) -> bool:
    """Return True for a start after a stop, not a wake-up."""
    return record.kind == "session_resumed" and not record.body["woken"]


def _is_settled(row: SessionState) -> bool:
    """Return True if recovery would not change the session."""
    if row.zombie is not None or row.agent is not None:
        return False
    return row.phase is Phase.STOPPED or (row.phase is Phase.SUSPENDED and not row.inputs)


def _oldest_input_at(row: SessionState) -> float:
    return min(waiting.accepted_at for waiting in row.inputs)
