"""The one file of this room that looks inside the supervisor, for what has no public name.

Rule 1: it looks, and changes nothing.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from typing import TYPE_CHECKING, Any

import attrs
import trio

from actors import Ask, Ref
from supervisor.core.errors import StoreDegraded
from supervisor.core.records import Record
from supervisor.core.session import Phase
from supervisor.sessions.surface.supervisor import Supervisor
from supervisor.store.writer.health import StoreState

if TYPE_CHECKING:
    from supervisor.sessions.house.house import House
    from supervisor.sessions.house.taps import Taps


@attrs.frozen
class Ping(Ask[None]):
    """Whoever gets this answers with nothing, after all that it was asked before."""


def house_of(sup: Supervisor) -> House:
    """The house behind the handle."""
    return sup._house  # noqa: SLF001 - see above


def taps_of(sup: Supervisor) -> Taps:
    """Where to be told of what happens."""
    return house_of(sup).taps


def store_state(sup: Supervisor) -> StoreState:
    """How the store is, without counting everything."""
    return house_of(sup).health.state


def has_left(sup: Supervisor) -> bool:
    """Whether all sessions are at rest, or given up, and nothing is answered any more."""
    return house_of(sup).tree.is_closed


# Asking -------------------------------------------------------------------------------------


def _actors(sup: Supervisor) -> dict[str, Ref]:
    house = house_of(sup)
    undertaker = house.tree._undertaker  # noqa: SLF001 - see above
    assert undertaker is not None
    return {"tree": undertaker, "writer": house.writer}


async def ping(sup: Supervisor, *, timeout_seconds: float) -> dict[str, float]:
    """Ask those on whom everybody waits, and say how long each took to answer.

    A writer that says that its store is degraded has answered.
    """
    took: dict[str, float] = {}
    for name, actor in _actors(sup).items():
        began = trio.current_time()
        with contextlib.suppress(StoreDegraded):
            await actor.ask(Ping(), timeout_seconds=timeout_seconds)
        took[name] = trio.current_time() - began
    return took


async def wait_for_answers(sup: Supervisor, *, timeout_seconds: float) -> None:
    """Have the tree, the writer and the store answer; raises if one of them does not in time.

    A store that says that it is degraded has answered.
    """
    house = house_of(sup)
    with trio.fail_after(timeout_seconds):
        await ping(sup, timeout_seconds=timeout_seconds)
        if not house.health.is_degraded:
            await house.store.kept("watchdog", "alive")


# Looking ------------------------------------------------------------------------------------


def agent_of(sup: Supervisor, record: Record) -> str | None:
    """The agent of a record's session, if it is one that we were given."""
    house = house_of(sup)
    if record.kind == "session_created":
        name = record.body.get("agent")
    else:
        seat = house.tree.find_seat(record.session_id)
        name = None if seat is None or seat.session is None else seat.session.agent_name
    return name if isinstance(name, str) and name in house.agents else None


def running_turns(sup: Supervisor) -> int:
    """How many turns run just now."""
    return sum(run.turn is not None for run in house_of(sup).desk.ledger.turns.values())


def in_a_few_words(sup: Supervisor) -> str:
    """What goes on, for whoever looks at the unit."""
    house = house_of(sup)
    trouble = house.health.state.problem
    live = f"{len(house.desk.ledger.live)} sessions live, {running_turns(sup)} turns run"
    return live if trouble is None else f"{live}; {trouble}"


def look(sup: Supervisor, *, sessions: int) -> dict[str, Any]:
    """How things are, of so many sessions: a glance at each that is in memory, and no more."""
    house = house_of(sup)
    ledger = house.desk.ledger
    awake = [seat.session for seat in house.tree.live() if seat.session is not None]
    phases = Counter([session.phase for session in awake])
    up = len(awake) - phases[Phase.STOPPED] - phases[Phase.SUSPENDED]
    phases[Phase.STOPPED] = max(0, sessions - len(ledger.live))
    phases[Phase.SUSPENDED] = max(0, len(ledger.live) - up)
    state = house.health.state_with_load
    return {
        "phases": {str(phase): phases[phase] for phase in Phase},
        "running_turns": running_turns(sup),
        "waiting_inputs": sum([len(session.inputs) for session in awake if session.inputs]),
        "waiting_permissions": len(house.inbox.waiting()),
        "mailboxes": {"writer": _waiting(house.writer), "sessions": _waiting_at_work(house)},
        "agent_processes": house.workshop.slots.borrowed_tokens,
        "zombies": len(house.workshop.zombies),
        "store_degraded": state.degraded,
        "store_read_only": state.read_only,
        "store_waiting": {"on their way": state.waiting, "at the door": state.at_the_door},
        "store_waiting_bytes": state.waiting_bytes,
        "store_wait_seconds": state.wait_seconds,
    }


def _waiting_at_work(house: House) -> int:
    """Messages that wait for sessions with a turn: those of all others are looked at at once."""
    seats = [house.tree.find_seat(one) for one in house.desk.ledger.turns]
    return sum(_waiting(seat.ref) for seat in seats if seat is not None and seat.ref is not None)


def _waiting(actor: Ref) -> int:
    told = actor.statistics()
    return told.waiting + told.waiting_urgent
