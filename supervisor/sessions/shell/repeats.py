"""Requests that come twice: the same key, or the same input, has one effect and one answer."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import TYPE_CHECKING

import attrs

from actors import Ask, Later
from supervisor.core import events as ev
from supervisor.core.errors import IdempotencyConflict, NotStorable, shown
from supervisor.core.ids import InputId, SessionId, TurnId
from supervisor.core.receipts import Receipt
from supervisor.core.records import Record
from supervisor.core.session import Session
from supervisor.core.step import Accepted, Refused, Reply
from supervisor.store.codec import encode
from supervisor.store.port import Kept, Store, Write

if TYPE_CHECKING:
    from .actor import SessionActor
    from .ahead import Ahead


@attrs.frozen
class Idempotency:
    """A request that may be repeated: under which key, and what it said."""

    key: str
    fingerprint: str


@attrs.frozen
class Request(Ask[Reply]):
    """Something a caller wants of the session.

    `again`: it may have been handled before, by an incarnation that ended without an answer.
    `also`: what is to be in the same commit, and `removes` of whom nothing is left after it.
    """

    event: ev.Event
    idempotency: Idempotency | None = None
    again: bool = False
    also: Write | None = None
    removes: SessionId | None = None


def fingerprint(request: object) -> str:
    """Tells one request from another."""
    return hashlib.sha256(encode(request)).hexdigest()


def key_conflict(key: str) -> IdempotencyConflict:
    """The same key came with another body."""
    return IdempotencyConflict(
        f"idempotency key {key!r} was used with another body",
        hint="choose a new key for a new request",
    )


async def known_answer(
    actor: SessionActor, request: Request, *, ahead: Ahead | None
) -> Reply | Later[Reply] | None:
    """The answer to what was asked before, if it was; raises what the store does."""
    idempotency = request.idempotency
    if idempotency is not None and ahead is not None:
        owed = ahead.answer_again(idempotency.key, idempotency.fingerprint)
        if owed is not None:
            return owed
    if idempotency is not None:
        known = await _answer_kept(actor.seat.house.store, actor.seat.id, idempotency)
        if known is not None:
            return known
    if request.again:
        return await _already_done(actor, request.event)
    return None


async def _already_done(actor: SessionActor, event: ev.Event) -> Reply | None:
    """The answer to a request that an earlier incarnation has handled, if it has."""
    records = await actor.seat.house.tree.all_records(actor.seat.id)
    if any(record.body.get("request") == event.fresh for record in records):
        match event:
            case ev.InputSubmitted() | ev.SteeringSubmitted() | ev.InputPromoted():
                return Accepted(find_receipt(actor.session, records, event.input))
            case _:
                return Accepted()
    if isinstance(event, ev.InterruptRequested) and event.replace_with is None:
        return Accepted()  # what ran when it was sent was lost with the one who was asked
    return None


def kept_receipt(session_id: SessionId, idempotency: Idempotency, receipt: object) -> Kept | None:
    """A receipt as it is kept; other answers are not."""
    if not isinstance(receipt, Receipt):
        return None
    return Kept(
        session_id,
        idempotency.key,
        idempotency.fingerprint,
        attrs.asdict(receipt) | {"cancelled": list(receipt.cancelled)},
    )


async def _answer_kept(
    store: Store, session_id: SessionId, idempotency: Idempotency
) -> Accepted | Refused | None:
    """What was answered under the key, if anything was; the session lives on if that is damaged."""
    try:
        kept = await store.kept(session_id, idempotency.key)
        if kept is None:
            return None
        if kept.fingerprint != idempotency.fingerprint:
            return Refused(key_conflict(idempotency.key))
        return Accepted(_receipt_from(kept))
    except NotStorable as damage:
        return Refused(damage)


def _receipt_from(kept: Kept) -> Receipt:
    """The receipt that was kept."""
    answer = dict(kept.answer)
    try:
        answer["cancelled"] = tuple(answer["cancelled"])
        return Receipt(**answer)
    except (KeyError, TypeError) as error:
        raise damaged_answer(kept.key) from error


def damaged_answer(key: str) -> NotStorable:
    """Somebody else has written where answers are kept."""
    return NotStorable(
        f"what was answered to the idempotency key {shown(key)} is no such answer",
        hint="look whether it was done; if not, ask for it with another key",
    )


def find_receipt(session: Session, records: Iterable[Record], input_id: InputId) -> Receipt | None:
    """A receipt for an input that was accepted by an incarnation which could not say so."""
    accepted: Record | None = None
    turn: TurnId | None = None
    for record in records:
        if record.kind == "input_accepted" and record.body["input_id"] == input_id:
            accepted = record
        elif record.kind == "turn_started" and record.body["input_id"] == input_id:
            turn = TurnId(record.body["turn_id"])
    if accepted is None:
        return None
    waiting = session.find_input(input_id)
    return Receipt(
        input_id=input_id,
        session_id=session.id,
        status="started" if waiting is None else "queued",
        position=None if waiting is None else session.position(input_id),
        turn_id=turn,
        previous_turn_id=None,
        generation=accepted.body["generation"],
    )
