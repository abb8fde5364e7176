"""Idempotency: a repeated request, by key or by input id, has one effect and one reply."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Final

import attrs

from actors import Ask
from supervisor.core import events as ev
from supervisor.core.creation import SessionSpec, SpawnRequest
from supervisor.core.errors import IdempotencyConflict, NotStorable, short_repr
from supervisor.core.ids import InputId, SessionId, TurnId
from supervisor.core.receipts import InterruptReport, Receipt
from supervisor.core.records import Record
from supervisor.core.state import SessionState
from supervisor.core.step import Accepted, Refused, Reply
from supervisor.store.codec import decode_plain, encode, encode_plain
from supervisor.store.port import Store, StoredReply, Write

from .refusals import refuse_failed_start
from .services import Services


def spawn_scope(parent_id: SessionId) -> str:
    """Return the scope of stored replies to a parent's spawns; it is never a session id."""
    return f"{parent_id}/spawn"


# The scope of stored replies to `create`; it is never a session id.
CREATE_SCOPE: Final = "create"


def with_stored_reply(write: Write, scope: str, idempotency: Idempotency | None) -> Write:
    """Return the write that creates a session, with the stored reply for repeated requests."""
    if idempotency is None:
        return write
    answer = {"session_id": write.session_id}
    kept = StoredReply(scope, idempotency.key, idempotency.fingerprint, answer)
    return write.changed(stored_reply=kept)


async def find_stored_reply(store: Store, scope: str, idempotency: Idempotency) -> SessionId | None:
    """Return the session that an earlier identical request created; None without one.

    Raise AgentStartFailed if its agent did not start, as the first request did, and the error of
    `key_conflict` if another request used the idempotency key.
    """
    kept = await store.stored_reply(scope, idempotency.key)
    made = None if kept is None else _session_of_reply(kept)
    stored = None if made is None else await store.read(made)
    if kept is None or stored is None:
        return None
    if kept.fingerprint != idempotency.fingerprint:
        raise key_conflict(idempotency.key)
    refuse_failed_start(stored.row)
    return made


async def find_stored_spawn(
    services: Services, parent_id: SessionId, request: SpawnRequest, idempotency: Idempotency
) -> SessionId | None:
    """Return the child that an earlier identical spawn created; raise as `find_stored_reply`."""
    store, scope = services.store, spawn_scope(parent_id)
    try:
        return await find_stored_reply(store, scope, idempotency)
    except IdempotencyConflict:
        # Release 0.1.0 stored a fingerprint that includes the turn whose agent spawned the child.
        kept = await store.stored_reply(scope, idempotency.key)
        records = await services.all_records(parent_id)
        turns = {record.turn_id for record in records if record.kind == "child_started"}
        older = {_spawn_fingerprint(request, turn) for turn in turns}
        if kept is None or kept.fingerprint not in older:
            raise
    same = attrs.evolve(idempotency, fingerprint=kept.fingerprint)
    return await find_stored_reply(store, scope, same)


def _session_of_reply(kept: StoredReply) -> SessionId:
    """Return the session that the stored reply names; raise NotStorable if it is damaged."""
    session_id = kept.answer.get("session_id")
    if not isinstance(session_id, str):
        raise _damaged_reply(kept.key)
    return SessionId(session_id)


@attrs.frozen
class Idempotency:
    """The idempotency key of a request, and the fingerprint of its body."""

    key: str
    fingerprint: str


# Not frozen, although nothing changes it: a frozen instance of five fields takes 1.0 us to make,
# this one 0.4, and there is one for each request.
@attrs.define(eq=False)
class SessionRequest(Ask[Reply]):
    """A caller's request to a session.

    `is_retry`: an earlier incarnation may have handled it and ended without a reply.
    `joint_write`: a write for the same commit. `removes`: a session deleted by that commit.
    """

    event: ev.Event
    idempotency: Idempotency | None = None
    is_retry: bool = False
    joint_write: Write | None = None
    removes: SessionId | None = None


# Field names are part of a stored fingerprint, so renamed fields of a spawn request keep the names
# of release 0.1.0 here. Otherwise a request repeated after an upgrade would be refused.
_FINGERPRINT_NAMES: Final = {"spec": "plan", "explicit_terms": "chosen"}


def fingerprint(request: object) -> str:
    """Return a hash that is the same for the same request and differs for any other.

    The same spawn by a user or from any turn of the parent is the same request.
    """
    if isinstance(request, SpawnRequest):
        return _spawn_fingerprint(request, turn=None)
    if isinstance(request, SessionSpec):
        request = _with_early_defaults(request)
    return hashlib.sha256(encode(request)).hexdigest()


def _spawn_fingerprint(request: SpawnRequest, turn: TurnId | None) -> str:
    spec = _with_early_defaults(request.spec)
    fields = decode_plain(encode(attrs.evolve(request, spec=spec, turn=turn)))
    renamed = {_FINGERPRINT_NAMES.get(name, name): value for name, value in fields.items()}
    return hashlib.sha256(encode_plain(renamed).encode()).hexdigest()


# The default up to 0.3.0. Now a request waits, and a default is a part of the fingerprint too.
_EARLY_PERMISSION_TIMEOUT_SECONDS: Final = 300.0


def _with_early_defaults(spec: SessionSpec) -> SessionSpec:
    """Return the spec with the defaults that early versions stored the fingerprint of."""
    if spec.terms.permission_timeout_seconds is not None:
        return spec
    early = attrs.evolve(spec.terms, permission_timeout_seconds=_EARLY_PERMISSION_TIMEOUT_SECONDS)
    return attrs.evolve(spec, terms=early)


def key_conflict(key: str) -> IdempotencyConflict:
    """Return the error for an idempotency key repeated with another body."""
    return IdempotencyConflict(
        f"idempotency key {key!r} was used with another body",
        hint="use a new key for a new request",
    )


async def find_known_reply(
    services: Services, session: SessionState, request: SessionRequest
) -> Reply | None:
    """Return the reply to a repeated request, or None for a new one; raise errors of the store."""
    if request.idempotency is not None:
        known = await _read_stored_reply(services.store, session.id, request.idempotency)
        if known is not None:
            return known
    if request.is_retry:
        return await _find_earlier_reply(services, session, request.event)
    return None


async def _find_earlier_reply(
    services: Services, session: SessionState, event: ev.Event
) -> Reply | None:
    """Return the reply to a request that an earlier incarnation carried out, or None."""
    records = await services.all_records(session.id)
    if any(record.body.get("request") == event.fresh for record in records):
        match event:
            case ev.InputSubmitted() | ev.SteeringSubmitted() | ev.InputPromoted():
                return Accepted(receipt_from_records(session, records, event.input))
            case _:
                return Accepted()
    if isinstance(event, ev.InterruptRequested) and event.replace_with is None:
        return Accepted()  # the running turn was lost with the earlier incarnation
    if isinstance(event, ev.MemberInterruptRequested):
        return Accepted(InterruptReport("tree"))  # as above, and the interrupt did not end it
    return None


def reply_to_store(
    session_id: SessionId, idempotency: Idempotency | None, reply: Reply | None
) -> StoredReply | None:
    """Return the stored form of the reply, for a repeated request; None if it is not a receipt."""
    if idempotency is None or not isinstance(reply, Accepted):
        return None
    receipt = reply.value
    if not isinstance(receipt, Receipt):
        return None
    return StoredReply(
        session_id,
        idempotency.key,
        idempotency.fingerprint,
        attrs.asdict(receipt) | {"cancelled": list(receipt.cancelled)},
    )


async def _read_stored_reply(
    store: Store, session_id: SessionId, idempotency: Idempotency
) -> Accepted | Refused | None:
    """Return the reply stored under the key, or None.

    A damaged reply is returned as a refusal, so that it does not end the session's actor.
    """
    try:
        kept = await store.stored_reply(session_id, idempotency.key)
        if kept is None:
            return None
        if kept.fingerprint != idempotency.fingerprint:
            return Refused(key_conflict(idempotency.key))
        return Accepted(_decode_receipt(kept))
    except NotStorable as damage:
        return Refused(damage)


def _decode_receipt(kept: StoredReply) -> Receipt:
    """Return the stored receipt; raise NotStorable if it is damaged."""
    answer = dict(kept.answer)
    try:
        answer["cancelled"] = tuple(answer["cancelled"])
        return Receipt(**answer)
    except (KeyError, TypeError) as error:
        raise _damaged_reply(kept.key) from error


def _damaged_reply(key: str) -> NotStorable:
    """Return the error for a stored reply that another program has damaged."""
    return NotStorable(
        f"the stored reply for idempotency key {short_repr(key)} is damaged",
        hint="check whether the request was carried out; if not, send it with another key",
    )


def receipt_from_records(
    session: SessionState, records: Iterable[Record], input_id: InputId
) -> Receipt | None:
    """Return the receipt of an input accepted by an earlier incarnation; None if it was not."""
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
