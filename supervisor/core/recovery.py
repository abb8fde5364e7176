"""What becomes of every stored session after the supervisor was killed. Pure: a plan, no deeds.

Rule 1: what a session becomes is decided by the table and nowhere else. The plan asks it, and says
        who is told what, in which order.
Rule 2: that a session ends is written before those who live with it are told, and is finished when
        they are over. So a recovery that is killed half way goes on as it began, however late.
Rule 3: nobody gets up and no turn begins before all have their fate; `Plan.wakes` comes after.
Rule 4: whoever is at rest, with nothing that waits and nothing left over, is told nothing. Whoever
        `rests` beside nobody else need not even be read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Literal, TypeAlias

import attrs

from .events import Event, FamilyChanged, Said, StopRequested, SupervisorRestarted
from .ids import InputId, SessionId, TurnId
from .records import Record, replay
from .session import Cause, Phase, Session
from .table import decide
from .tree.member import has_budget
from .tree.situation import Situation

# To stop, for a cause; that the supervisor was gone; that those who had to go first are gone.
What: TypeAlias = Literal["stop", "restarted", "look"]

_NOTHING_SAID: Final = Said()
_OVER_OR_NEARLY: Final = (Phase.STOPPING, Phase.STOPPED)


@attrs.frozen(kw_only=True)
class Telling:
    """One thing that one session is told, and what its tree is like at that instant.

    `at` is the same for all, so that restarts count as planned, but never before the row was last
    written: a clock may have been set back meanwhile. Only a stop in mid-turn is as of when the
    session was last heard of, since the time in which nobody was there is not the turn's.
    """

    session: SessionId
    what: What
    at: float
    cause: Cause | None = None
    situation: Situation

    def event(self, *, epoch: int, fresh: TurnId, said: Said = _NOTHING_SAID) -> Event:
        """The event, with what only the shell has: the claim's epoch, an id, the open turn's text.

        It is decided with this situation, not with the desk's: nobody has a place to wake up in.
        """
        match self.what:
            case "stop":
                assert self.cause is not None
                return StopRequested(
                    cause=self.cause, at=self.at, fresh=fresh, situation=self.situation
                )
            case "restarted":
                return SupervisorRestarted(
                    epoch=epoch, said=said, at=self.at, fresh=fresh, situation=self.situation
                )
            case "look":
                # No news comes with it, so no input is ever made under that id.
                return FamilyChanged(
                    input=InputId(fresh), at=self.at, fresh=fresh, situation=self.situation
                )


@attrs.frozen(kw_only=True)
class Plan:
    """All that is told, in this order; and what each session is after that.

    What is told can be written, session by session or all at once, before any agent is started.
    """

    tellings: tuple[Telling, ...]
    # Invariant: every session that was read, parents before children; each is stopped, suspended,
    # or on its way to another agent (restarting).
    fates: Mapping[SessionId, Phase]
    # Suspended sessions in which inputs wait, who has waited longest first. They look around
    # (`FamilyChanged`) when all is told, as far as there are places and turns for them.
    wakes: tuple[SessionId, ...]


def plan(rows: Iterable[Session], *, at: float) -> Plan:
    """What every session is told after the supervisor was killed; `at` is the time that it is.

    `rows` come in the order in which they were made: clocks are set back, and ids say nothing.
    Those that rest, with nobody below them, may be left out.
    Expiries come first: whoever's time is over ends for that, whatever it was doing. Who lives with
    a session that ends, ends before it, the youngest first.
    """
    return _Planning(rows, at).finish()


class _Planning:
    """A plan in the making: tells each session, and looks what the table makes of it."""

    def __init__(self, rows: Iterable[Session], at: float) -> None:
        self._at = at
        # Invariant: every session as it is after what it was told so far.
        self._rows = {row.id: row for row in rows}
        self._below: dict[SessionId | None, list[SessionId]] = {}
        self._tellings: list[Telling] = []
        self._fates: dict[SessionId, Phase] = {}
        for row in self._rows.values():
            parent = row.lineage.parent
            known = parent if parent in self._rows else None
            self._below.setdefault(known, []).append(row.id)

    def finish(self) -> Plan:
        """The plan, when everybody has been told all there is."""
        # A stack and not a recursion: trees may be as deep as their limits allow. Who is in it a
        # second time has only to look whether all that had to go first are gone.
        stack = list(reversed(self._below.get(None, [])))
        while stack:
            session_id = stack.pop()
            if session_id in self._fates:
                self._tell(session_id, "look")
            else:
                stack += reversed(self._visit(session_id))
            self._fates[session_id] = self._rows[session_id].phase
        return Plan(
            tellings=tuple(self._tellings),
            fates=self._fates,
            wakes=tuple(self._wakes()),
        )

    def _visit(self, session_id: SessionId) -> list[SessionId]:
        """Tell it all but its very end; gives who comes next, itself again if it has to wait."""
        row = self._rows[session_id]
        cause = self._cause_to_stop(row)
        if cause is not None:
            self._tell(session_id, "stop", cause)
        if cause is not None or not _is_settled(row):
            self._tell(session_id, "restarted")
        below = self._below.get(session_id, [])
        if self._rows[session_id].phase not in _OVER_OR_NEARLY:
            return below
        first = [child for child in reversed(below) if not self._is_detached(child)]
        others = [child for child in below if self._is_detached(child)]
        waits = self._rows[session_id].phase is Phase.STOPPING
        return [*first, *([session_id] if waits else []), *others]

    def _cause_to_stop(self, row: Session) -> Cause | None:
        lineage = row.lineage
        if row.phase is Phase.STOPPED:
            return None
        if lineage.expires_at is not None and lineage.expires_at <= self._at:
            return "ttl_expired"
        if lineage.parent is None or lineage.lifetime == "detached":
            return None
        # A parent of which nothing is left was stopped before it was deleted.
        parent = self._rows.get(lineage.parent)
        return "parent_stopped" if parent is None or parent.phase in _OVER_OR_NEARLY else None

    def _is_detached(self, session_id: SessionId) -> bool:
        return self._rows[session_id].lineage.lifetime == "detached"

    def _is_over(self, session_id: SessionId) -> bool:
        return self._rows[session_id].phase is Phase.STOPPED

    def _tell(self, session_id: SessionId, what: What, cause: Cause | None = None) -> None:
        row = self._rows[session_id]
        dependents = sum(
            not self._is_detached(child) and not self._is_over(child)
            for child in self._below.get(session_id, [])
        )
        ran = None if row.turn is None else max(0.0, row.updated_at - row.turn.started_at)
        in_mid_turn = what == "stop" and row.turn is not None
        telling = Telling(
            session=session_id,
            what=what,
            at=row.updated_at if in_mid_turn else max(self._at, row.updated_at),
            cause=cause,
            situation=Situation(dependents=dependents, no_place=True, ran_seconds=ran),
        )
        event = telling.event(epoch=row.epoch + 1, fresh=TurnId("foreseen"))
        self._rows[session_id] = decide(row, event).session
        self._tellings.append(telling)

    def _wakes(self) -> list[SessionId]:
        sleepers = [
            row for row in self._rows.values() if row.phase is Phase.SUSPENDED and row.inputs
        ]
        return [row.id for row in sorted(sleepers, key=_by_patience)]


def rests(row: Session) -> bool:
    """Whether a start has nothing to do with it, unless somebody stands below it.

    Then neither the plan nor the desk has to know more of it than that it is there.
    """
    return (
        _is_settled(row)
        and not row.inputs
        and row.lineage.parent is None
        and row.lineage.expires_at is None
        and not row.family.open_children
        and not has_budget(row.limits)
    )


def before_its_return(records: Sequence[Record]) -> Session | None:
    """The session when it had stopped for the last time before it came back, if it ever did.

    For parents that have heard neither of that end nor of the return. Raises `ValueError` if the
    records do not tell: one of them is missing, or has not what its kind has.
    """
    try:
        returned = [one.seq for one in records if _is_return(one)]
        stopped = [
            one.seq
            for one in records
            if one.kind == "session_stopped" and one.seq < max(returned, default=0)
        ]
        if not stopped:
            return None
        until = records[: stopped[-1]]
        if [one.seq for one in until] != list(range(1, stopped[-1] + 1)):
            raise ValueError("some of its records are missing")
        return replay(until)
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"one of its records does not fit: {error!r}") from error


def _is_return(record: Record) -> bool:
    """Whether it was started again after a stop, and not only woken."""
    return record.kind == "session_resumed" and not record.body["woken"]


def _is_settled(row: Session) -> bool:
    """Whether it is as it should be after a recovery."""
    if row.zombie is not None or row.agent is not None:
        return False
    return row.phase is Phase.STOPPED or (row.phase is Phase.SUSPENDED and not row.inputs)


def _by_patience(row: Session) -> float:
    return min(waiting.accepted_at for waiting in row.inputs)
