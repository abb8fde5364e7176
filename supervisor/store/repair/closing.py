"""The ends that are missing.

Rule 1: a turn that the row has open is closed by the table, as after a restart of the supervisor:
        it is lost, and the session goes where its restart policy sends it.
Rule 2: what the row no longer knows gets only its end; nothing else becomes of the session.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from supervisor.core.events import Said, SupervisorRestarted
from supervisor.core.facts import Body, Fact
from supervisor.core.ids import TurnId
from supervisor.core.records import Record, numbered
from supervisor.core.said import said_in
from supervisor.core.session import Phase, Session, Usage
from supervisor.core.table import decide
from supervisor.core.tree.situation import Situation

from .ends import LooseEnd, loose_ends

_NO_END: Final = "its end was never written down"
# Nothing begins here: whoever has inputs waiting gets its turn when it is next started.
_SITUATION: Final = Situation(no_place=True)


def closing(
    session: Session,
    records: Sequence[Record],
    at: float,
    *,
    epoch: int | None = None,
    is_astray: bool = False,
) -> tuple[Fact, ...]:
    """What is to be appended so that all that was begun has an end; nothing, the second time.

    The row that goes with it is these facts folded into `session`. `epoch` is that of the claim
    under which they are written; None is the next one. `is_astray`: a start could not give it its
    fate, so it gets it here, with or without an open turn. Those below the session are not looked
    at: if it ends by this, they are ended when they are next started.
    """
    at = max(at, session.updated_at)  # the clock may have been set back meanwhile
    is_to_hear = is_astray or session.turn is not None
    facts = _recover(session, records, at, epoch) if is_to_hear else ()
    last = records[-1].seq if records else 0
    ends = loose_ends([*records, *numbered(session.id, facts, after=last)])
    return (*facts, *_end_all(ends, records, at))


def _recover(
    session: Session, records: Sequence[Record], at: float, epoch: int | None
) -> tuple[Fact, ...]:
    turn = session.turn
    if session.phase is Phase.STOPPING and session.stopping is None:
        return ()  # this is no row that we wrote, and the table has nothing to say to it
    event = SupervisorRestarted(
        epoch=session.epoch + 1 if epoch is None else epoch,
        said=Said() if turn is None else said_in(records, turn.id),
        at=at,
        fresh=TurnId("unused"),
        situation=_SITUATION,
    )
    return decide(session, event).facts


def _end_all(ends: Iterable[LooseEnd], records: Sequence[Record], at: float) -> Iterator[Fact]:
    """An end for each, turn by turn, the turn's own last."""
    turns: dict[TurnId | None, list[LooseEnd]] = {}
    for end in ends:
        turns.setdefault(end.turn, []).append(end)
    for turn, left in turns.items():
        for thing in ("request", "call", "turn"):
            for end in left:
                if end.thing == thing:
                    yield _end(end, turn, records, at)


def _end(end: LooseEnd, turn: TurnId | None, records: Sequence[Record], at: float) -> Fact:
    match end.thing:
        case "request":
            answer = {"request_id": end.id, "decision": "cancelled", "by": "turn"}
            return Fact("permission_answered", at, answer, turn)
        case "call":
            name = end.beginning.body["name"]
            ended = {"call_id": end.id, "name": name, "outcome": "interrupted", "result": None}
            return Fact("tool_ended", at, ended, turn)
        case "turn":
            return _turn_ended(TurnId(end.id), end.beginning.at, records, at)


def _turn_ended(turn: TurnId, began_at: float, records: Iterable[Record], at: float) -> Fact:
    """The end of a turn of which only its records are left: it ran until it was last heard of."""
    of_turn = [record for record in records if record.turn_id == turn]
    said = said_in(of_turn, turn)
    reports = (_usage(record.body) for record in of_turn if record.kind == "usage")
    spent = functools.reduce(Usage.__add__, reports, Usage())
    body = {
        "turn_id": turn,
        "outcome": "lost",
        "stop_reason": None,
        "text": said.text,
        "messages": said.messages,
        "error": _NO_END,
        "zombie": False,
        "ladder_step": None,
        "seconds": max((record.at - began_at for record in of_turn), default=0.0),
        "usage": {
            "input_tokens": spent.input_tokens,
            "output_tokens": spent.output_tokens,
            "cost": spent.cost,
        },
    }
    return Fact("turn_ended", at, body, turn)


def _usage(body: Body) -> Usage:
    return Usage(body["input_tokens"], body["output_tokens"], body["cost"])
