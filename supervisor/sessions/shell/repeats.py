"""Requests that come twice: the same key, or the same input, has one effect and one answer."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import TYPE_CHECKING

import attrs

from supervisor.core.errors import IdempotencyConflict
from supervisor.core.ids import InputId, SessionId, TurnId
from supervisor.core.receipts import Receipt
from supervisor.core.records import Record
from supervisor.core.session import Session
from supervisor.store.codec import encode
from supervisor.store.port import Kept

if TYPE_CHECKING:
    from .actor import Idempotency


def fingerprint(request: object) -> str:
    """Tells one request from another."""
    return hashlib.sha256(encode(request)).hexdigest()


def key_conflict(key: str) -> IdempotencyConflict:
    """The same key came with another body."""
    return IdempotencyConflict(
        f"idempotency key {key!r} was used with another body",
        hint="choose a new key for a new request",
    )


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


def receipt_from(kept: Kept) -> Receipt:
    """The receipt that was kept."""
    answer = dict(kept.answer)
    answer["cancelled"] = tuple(answer["cancelled"])
    return Receipt(**answer)


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
