"""What a supervisor does before anybody is let in: give every stored session its fate.

Rule 1: nothing is decided here. `core.recovery` says who is told what; this writes it down.
Rule 2: what is told is written in the order of the plan, and no agent starts before all of it is.
        So a recovery that is killed half way is gone on with by the next.
Rule 3: if it cannot be written, everything can be read and nothing starts.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

import attrs
import trio

from supervisor.core.errors import SessionNotFound, StoreDegraded, SupervisorError
from supervisor.core.events import Said
from supervisor.core.ids import SessionId, TurnId
from supervisor.core.records import Record, numbered
from supervisor.core.recovery import Plan, Telling, before_its_return, plan
from supervisor.core.said import said_in
from supervisor.core.session import Phase, Session
from supervisor.core.table import decide
from supervisor.drivers.identity import ProcessIdentity
from supervisor.drivers.process.leftovers.sweep import kill_left_behind
from supervisor.drivers.python import PythonAgent
from supervisor.sessions.desk.bell import Heard
from supervisor.store.port import Resting, Write
from supervisor.store.shapes import misfit
from supervisor.store.writer import ClaimAll, CommitAll, ForgetProcess

if TYPE_CHECKING:
    from .house import House

logger = logging.getLogger("supervisor")

# So many writes go to the store together.
_CHUNK: Final = 1_000


@attrs.define
class _Told:
    """A session as it is after what it was told so far, and what its next write needs."""

    row: Session
    epoch: int
    last_seq: int


@attrs.frozen
class Unheard:
    """By child, what its parent has heard of it; and as it ended, if that was not heard of."""

    heard: Mapping[SessionId, Heard]
    ends: Mapping[SessionId, Session]


async def recover(house: House) -> Plan:
    """Give every stored session its fate, and have the house know of all of them.

    Whoever has something to do is woken when everybody else has a place; see `wake`.
    """
    resting, stored = await house.store.at_start()
    sessions = {one.row.id: _Told(one.row, one.epoch, one.last_seq) for one in stored}
    found = plan([one.row for one in sessions.values()], at=house.clock.now())
    try:
        await _end_leftovers(house)
        await _tell(house, sessions, found.tellings)
    except StoreDegraded as trouble:
        logger.error("what the last supervisor left is only read: %s", trouble)  # noqa: TRY400
        house.health.give_up(trouble)
        found = attrs.evolve(found, wakes=())
    rows = [sessions[session_id].row for session_id in found.fates]
    know(house, rows, resting, await find_unheard(house, rows))
    _say_what_was_found(found, [one.row for one in stored], resting=len(resting))
    return found


async def find_unheard(house: House, rows: Iterable[Session]) -> Unheard:
    """What the parents of these have heard of them so far, and what not."""
    rows = list(rows)
    parents = {row.id: row.lineage.parent for row in rows}
    news = await house.store.records_of(("child_started", "child_ended"))
    heard = _what_parents_heard(record for record in news if _is_of_its_parent(record, parents))
    return Unheard(heard, await _ends_not_heard_of(house, rows, heard))


def know(
    house: House, rows: Sequence[Session], resting: Sequence[Resting], unheard: Unheard
) -> None:
    """Have the house know sessions that have their fate; parents come before children."""
    house.register.restore(rows, resting)
    is_still = house.is_still or house.health.is_given_up
    house.desk.restore(rows, unheard.heard, ends=unheard.ends, resting=resting, is_still=is_still)
    if not is_still:
        for row in rows:
            if row.is_at_rest and row.inputs:
                house.lines.wake_for_expiry(row)


async def wake(house: House, found: Plan) -> None:
    """Have those go on who were at something, `start_concurrency` at a time."""
    if house.health.is_given_up:
        return
    restarting = [one for one, phase in found.fates.items() if phase is Phase.RESTARTING]
    turnstile = trio.CapacityLimiter(house.settings.start_concurrency)

    async def wake_one(session_id: SessionId) -> None:
        async with turnstile:
            try:
                await house.tree.reach(session_id)
            except SessionNotFound:
                return  # deleted meanwhile
            except Exception as error:  # noqa: BLE001 - the store's trouble, which passes
                if not house.tree.is_leaving:
                    logger.warning("session %s is not back yet: %s", session_id, error)
                    house.tree.revive(session_id)

    async with trio.open_nursery() as nursery:
        for session_id in (*restarting, *found.wakes):
            if session_id in found.wakes:
                house.desk.bell.mark(session_id)  # so that it looks around when it is up
            nursery.start_soon(wake_one, session_id)


async def _end_leftovers(house: House) -> None:
    """Kill the processes that a supervisor which was killed has left behind."""
    noted = {
        ProcessIdentity(one.pid, one.start_time, one.boot_id): one
        for one in await house.store.processes()
    }
    if not noted and all(isinstance(kind, PythonAgent) for kind in house.agents.values()):
        return  # nobody here has ever had a process
    for leftover in await kill_left_behind(list(noted)):
        process = noted.get(leftover.identity)
        whose = "what an agent had started" if process is None else f"session {process.session_id}"
        logger.warning("process %s of %s: %s", leftover.identity.pid, whose, leftover.fate)
        if process is not None and leftover.fate != "unkillable":
            await house.writer.ask(ForgetProcess(process), timeout_seconds=math.inf)


async def _tell(
    house: House, sessions: Mapping[SessionId, _Told], tellings: Iterable[Telling]
) -> None:
    """Decide what the plan says that they are told, and write it."""
    tellings = list(tellings)
    told = list(dict.fromkeys(telling.session for telling in tellings))
    claimed = await house.writer.ask(ClaimAll(tuple(told)), timeout_seconds=math.inf)
    for session_id, stored in zip(told, claimed, strict=True):
        assert stored is not None  # nobody else is here who could have deleted it
        sessions[session_id].epoch = stored.epoch
    writes: list[Write] = []
    for telling in tellings:
        session = sessions[telling.session]
        write = _told(house, session, telling, await _said_in_open_turn(house, session, telling))
        if write is not None:
            writes.append(write)
    for start in range(0, len(writes), _CHUNK):
        chunk = tuple(writes[start : start + _CHUNK])
        for answer in await house.writer.ask(CommitAll(chunk), timeout_seconds=math.inf):
            house.health.refuse_if_degraded()  # then it is held, and who knows until when
            if isinstance(answer, Exception):
                raise answer


def _told(house: House, session: _Told, telling: Telling, said: Said) -> Write | None:
    fresh = TurnId(house.ids.new("turn"))
    event = telling.event(epoch=session.epoch, fresh=fresh, said=said)
    step = decide(session.row, event)
    if not step.facts:
        return None
    records = numbered(telling.session, step.facts, after=session.last_seq)
    session.row = step.session
    session.last_seq += len(records)
    return Write(telling.session, session.epoch, records, step.session)


async def _said_in_open_turn(house: House, session: _Told, telling: Telling) -> Said:
    turn = session.row.turn
    if turn is None or telling.what != "restarted":
        return Said()
    return said_in(await house.store.records(telling.session, turn=turn.id), turn.id)


def _is_of_its_parent(record: Record, parents: Mapping[SessionId, SessionId | None]) -> bool:
    """Whether it is a parent's own; a session that was imported tells of the children of others."""
    wrong = misfit(record.kind, record.body)
    if wrong is not None:  # its own trouble, and nobody is kept out by it
        logger.error("record %s of session %s is %s", record.seq, record.session_id, wrong)
        return False
    return parents.get(SessionId(record.body["child"])) == record.session_id


def _what_parents_heard(records: Iterable[Record]) -> dict[SessionId, Heard]:
    """By child; what a parent has not heard it will be told."""
    heard: dict[SessionId, Heard] = {}
    for record in records:
        child = SessionId(record.body["child"])
        known = heard.get(child, Heard())
        if record.kind == "child_started":
            again = record.body["resumed"]
            heard[child] = Heard(done=known.done and again, returns=known.returns + again)
        else:
            over = record.body["reason"] is not None
            done = known.done or record.body["outcome"] is not None
            heard[child] = Heard(over, done, known.returns)
    return heard


async def _ends_not_heard_of(
    house: House, rows: Iterable[Session], heard: Mapping[SessionId, Heard]
) -> dict[SessionId, Session]:
    """Children as they ended, of whom their parents know neither that nor that they are back.

    A return alone would be news of somebody who never was away.
    """
    ends: dict[SessionId, Session] = {}
    for row in rows:
        told = heard.get(row.id, Heard())
        if row.lineage.parent is None or told.over or row.returns <= told.returns:
            continue
        try:
            end = before_its_return(await house.store.records(row.id))
        except (SupervisorError, ValueError) as error:
            logger.warning("how session %s ended is not told: %s", row.id, error)
            continue
        if end is not None:
            ends[row.id] = end
    return ends


def _say_what_was_found(found: Plan, rows: list[Session], *, resting: int) -> None:
    lost = sum(row.turn is not None for row in rows)
    if found.tellings:
        logger.info(
            "%d sessions stored, %d put in order, %d turns lost, %d to go on",
            len(rows) + resting,
            len({telling.session for telling in found.tellings}),
            lost,
            len(found.wakes) + sum(one is Phase.RESTARTING for one in found.fates.values()),
        )
