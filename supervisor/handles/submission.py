"""Submission of inputs: check the arguments, run the blocking hooks, send, wait for the result."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping, Sequence
from typing import Any, Final, Literal, TypeAlias

import orjson

from supervisor.core import events as ev
from supervisor.core.errors import InputRefused, short_repr
from supervisor.core.ids import InputId, SessionId, TurnId
from supervisor.core.receipts import TurnResult
from supervisor.core.records import Record
from supervisor.core.state import Phase, Source, WhenBusy
from supervisor.core.step import ReplyValue
from supervisor.core.text import plain_data
from supervisor.core.validation import (
    check_attachments,
    check_choice,
    check_name,
    check_prompt,
    check_ttl_seconds,
    exact_str,
)
from supervisor.sessions.idempotency import Idempotency, fingerprint
from supervisor.sessions.registry import SessionRegistry
from supervisor.sessions.subscribers import PendingResult, settle_from_records

from .parts import Parts
from .shapes import InputState, input_status

IfStopped: TypeAlias = Literal["resume", "reject"]
_QUEUE: Final = "queue"
_RESUME: Final = "resume"


def make_input(
    parts: Parts,
    text: str,
    *,
    attachments: Sequence[Mapping[str, Any]],
    when_busy: WhenBusy,
    ttl_seconds: float | None,
    if_stopped: IfStopped,
    source: Source,
) -> ev.InputSubmitted:
    """Return the event of an input; raise `ConfigError` or `InputRefused` for an invalid argument.

    The session checks the length of the text.
    """
    services = parts.services
    services.refuse_if_shutting_down()
    # The defaults of `send` and `prompt` are these same objects, and need no check.
    if when_busy is not _QUEUE:
        when_busy = check_choice("when_busy", when_busy, WhenBusy)
    if if_stopped is not _RESUME:
        if_stopped = check_choice("if_stopped", if_stopped, IfStopped)
    attached = check_attachments(attachments) if attachments != () else ()
    at, steady_at = services.clock.now_and_steady()
    return ev.InputSubmitted(
        at=at,
        steady_at=steady_at,
        fresh=TurnId(services.ids.new("turn")),
        input=InputId(services.ids.new("in")),
        text=check_prompt(text),
        when_busy=when_busy,
        source=source,
        expires_at=None if ttl_seconds is None else _expires_at(steady_at, ttl_seconds),
        attachments=attached,
        attachment_bytes=len(orjson.dumps(attached)) if attached else 0,
        if_stopped=if_stopped,
    )


def make_steering(
    parts: Parts, text: str, *, ttl_seconds: float | None, source: Source
) -> ev.SteeringSubmitted:
    """Return the event of steering; raise `InputRefused` if text or `ttl_seconds` is invalid."""
    parts.services.refuse_if_shutting_down()
    stamp = parts.services.stamp()
    return ev.SteeringSubmitted(
        input=InputId(parts.services.ids.new("in")),
        text=check_prompt(text),
        source=source,
        expires_at=None if ttl_seconds is None else _expires_at(stamp["steady_at"], ttl_seconds),
        **stamp,
    )


def _expires_at(steady_at: float, ttl_seconds: float) -> float:
    return steady_at + check_ttl_seconds(ttl_seconds)


def send(
    parts: Parts,
    session_id: SessionId,
    event: ev.InputSubmitted | ev.SteeringSubmitted,
    key: str | None,
    pending: PendingResult | None = None,
) -> Awaitable[ReplyValue]:
    """Run the blocking hooks and send the event; the awaited reply is the receipt.

    With a pending result of the input, the wait may last until that is settled. Raise the error of
    a hook that denies the input, or of the session that refuses it. Not itself a coroutine: each
    one between the caller and its wait is entered again at every wake-up.
    """
    idempotency = None if key is None else make_idempotency(key, _request_fields(event))
    if parts.services.hooks.has_input_hooks:
        return _send_after_hooks(parts, session_id, event, idempotency)
    return parts.router.ask(session_id, event, idempotency=idempotency, pending=pending)


async def _send_after_hooks(
    parts: Parts,
    session_id: SessionId,
    event: ev.InputSubmitted | ev.SteeringSubmitted,
    idempotency: Idempotency | None,
) -> ReplyValue:
    store = parts.services.store
    if (
        idempotency is not None
        and await store.stored_reply(session_id, idempotency.key) is not None
    ):
        # A repeated request gets its stored reply, so hooks do not run again.
        return await parts.router.ask(session_id, event, idempotency=idempotency)
    event = await _apply_hooks(parts, session_id, event)
    if isinstance(event, ev.InputSubmitted) and event.if_stopped == "resume":
        return await parts.router.ask_resuming(session_id, event, idempotency=idempotency)
    return await parts.router.ask(session_id, event, idempotency=idempotency)


def _request_fields(event: ev.InputSubmitted | ev.SteeringSubmitted) -> list[object]:
    """Return the fields that identify the request, for its idempotency fingerprint."""
    fields: list[object] = [type(event).__name__, plain_data(event.text)]
    if isinstance(event, ev.InputSubmitted):
        fields += [event.when_busy, event.queued, event.if_stopped, list(event.attachments)]
    return fields


async def _apply_hooks(
    parts: Parts, session_id: SessionId, event: ev.InputSubmitted | ev.SteeringSubmitted
) -> ev.InputSubmitted | ev.SteeringSubmitted:
    """Return the event with the changes of the blocking hooks; raise if a hook denies it."""
    await parts.registry.row(session_id)  # raises before any hook runs if the session is unknown
    expires_at = await parts.hooks.before_input(session_id, event)
    return event.changed(expires_at=expires_at)


async def run_input_hooks(
    parts: Parts,
    session_id: SessionId,
    input_id: InputId,
    text: str,
    *,
    when_busy: WhenBusy,
    source: Source,
) -> float | None:
    """Run the input hooks for the replacement text of an interrupt, or for an edited input.

    Return the time at which the input expires, which a hook may set. Raise `InputRefused` if a hook
    denies the text.
    """
    if not parts.services.hooks.has_input_hooks:
        return None
    event = ev.InputSubmitted(
        input=input_id,
        text=exact_str(text),
        when_busy=when_busy,
        source=source,
        **parts.services.stamp(),
    )
    return await parts.hooks.before_input(session_id, event)


def make_idempotency(key: str | None, request: object) -> Idempotency | None:
    """Return the key with the fingerprint of the request, or None without a key."""
    if key is None:
        return None
    check_name("idempotency_key", key)
    return Idempotency(key, fingerprint(request))


class ResultWaiter:
    """Context manager that collects the result of an input from its start on.

    During the block the session of `agent`, if there is one, counts as waiting for this session.
    """

    __slots__ = ("_awaiting", "_pending", "_registry", "_slot")

    def __init__(
        self,
        registry: SessionRegistry,
        session_id: SessionId,
        input_id: InputId,
        *,
        agent: SessionId | None = None,
    ) -> None:
        self._registry = registry
        self._slot = registry.slot(session_id)
        self._pending = PendingResult(input_id)
        self._awaiting = None if agent is None else registry.awaiting(agent, session_id)

    def __enter__(self) -> PendingResult:
        self._slot.subscribers.add_result(self._pending)
        if self._awaiting is not None:
            self._awaiting.__enter__()
        return self._pending

    def __exit__(self, _kind: object, _error: object, _traceback: object) -> None:
        if self._awaiting is not None:
            self._awaiting.__exit__(None, None, None)
        self._slot.subscribers.remove_result(self._pending)
        self._registry.drop_unused(self._slot)


async def wait_for_result(parts: Parts, session_id: SessionId, input_id: InputId) -> TurnResult:
    """Wait for the result of an input; see `Session.result`."""
    with ResultWaiter(parts.registry, session_id, input_id) as pending:
        await parts.registry.row(session_id)  # raises if the session is unknown
        slot = parts.registry.slot(session_id)
        published = slot.subscribers.published_seq
        settle_from_records(pending, await _input_records(parts, session_id, input_id))
        if slot.subscribers.published_seq != published and not pending.settled.is_set():
            # Records published during the read may end a turn that `pending` did not know yet.
            settle_from_records(pending, await _input_records(parts, session_id, input_id))
        await _fail_if_held(parts, session_id, pending)
        return await pending.wait()


async def find_input_state(parts: Parts, session_id: SessionId, input_id: InputId) -> InputState:
    """Return the current state of an input; see `Session.input`."""
    row = await parts.registry.row(session_id)
    records = await _input_records(parts, session_id, input_id)
    pending = PendingResult(input_id)
    settle_from_records(pending, records)
    settled = next((one.body["outcome"] for one in records if one.kind == "input_settled"), None)
    waiting = row.find_input(input_id) if settled is None else None
    if waiting is not None and row.phase is Phase.STOPPED:
        pending.fail_if_held(row)
    result, error = pending.outcome
    return InputState(
        id=input_id,
        session_id=session_id,
        status=settled or ("queued" if waiting is None else input_status(waiting)),
        position=None if waiting is None else row.position(input_id),
        turn_id=pending.turn,
        result=result,
        code=None if error is None else error.code,
        detail=None if error is None else error.args[0],
        hint=None if error is None else error.hint,
    )


async def _input_records(parts: Parts, session_id: SessionId, input_id: InputId) -> list[Record]:
    """Return the records about the input; raise `InputRefused` if it was never accepted."""
    records = await parts.services.store.records_of_input(session_id, input_id)
    if not records:
        raise InputRefused(
            f"session {session_id} has accepted no input {short_repr(input_id)}",
            hint="the receipt of send() has the id",
        )
    return records


async def _fail_if_held(parts: Parts, session_id: SessionId, pending: PendingResult) -> None:
    """Fail the result if the session is stopped, because the input runs only after a resume."""
    row = await parts.registry.row(session_id)
    slot = parts.registry.slot(session_id)
    now = row if slot.session is None else slot.session
    if slot.pending_start is None and now.phase is Phase.STOPPED:
        pending.fail_if_held(now)
