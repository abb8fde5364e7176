"""Submission of inputs: check the arguments, run the blocking hooks, send to the session."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Literal, TypeAlias

import attrs
import orjson

from supervisor.core import events as ev
from supervisor.core.ids import InputId, SessionId
from supervisor.core.receipts import Receipt
from supervisor.core.sanitize import plain_data
from supervisor.core.state import Source, WhenBusy
from supervisor.core.validation import (
    check_attachments,
    check_choice,
    check_prompt,
    check_text,
    check_ttl_seconds,
    exact_str,
)
from supervisor.sessions.idempotency import Idempotency, fingerprint

from .parts import Parts

IfStopped: TypeAlias = Literal["resume", "reject"]


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
    """Return the event of an input; raise `ConfigError` or `InputRefused`.

    The session checks the length of the text.
    """
    parts.services.refuse_if_shutting_down()
    when_busy = check_choice("when_busy", when_busy, WhenBusy)
    if_stopped = check_choice("if_stopped", if_stopped, IfStopped)
    attached = check_attachments(attachments)
    stamp = parts.services.stamp()
    return ev.InputSubmitted(
        input=InputId(parts.services.ids.new("in")),
        text=check_prompt(text),
        when_busy=when_busy,
        source=source,
        expires_at=_expires_at(stamp["at"], ttl_seconds),
        attachments=attached,
        attachment_bytes=len(orjson.dumps(attached)) if attached else 0,
        if_stopped=if_stopped,
        **stamp,
    )


def make_steering(
    parts: Parts, text: str, *, ttl_seconds: float | None, source: Source
) -> ev.SteeringSubmitted:
    """Return the event of steering for the running turn; raise `InputRefused`."""
    parts.services.refuse_if_shutting_down()
    stamp = parts.services.stamp()
    return ev.SteeringSubmitted(
        input=InputId(parts.services.ids.new("in")),
        text=check_prompt(text),
        source=source,
        expires_at=_expires_at(stamp["at"], ttl_seconds),
        **stamp,
    )


def _expires_at(at: float, ttl_seconds: float | None) -> float | None:
    return None if ttl_seconds is None else at + check_ttl_seconds(ttl_seconds)


async def send(
    parts: Parts,
    session_id: SessionId,
    event: ev.InputSubmitted | ev.SteeringSubmitted,
    key: str | None,
) -> Receipt:
    """Run the blocking hooks, send the event and return the receipt; raise a refusal."""
    idempotency = None if key is None else make_idempotency(key, _request_fields(event))
    ask: Callable[..., Awaitable[object]] = parts.router.ask
    if parts.services.hooks.has_input_hooks():
        # A repeated request gets its stored reply, so hooks do not run again.
        known = (
            key is not None and await parts.services.store.stored_reply(session_id, key) is not None
        )
        if not known:
            event = await _apply_hooks(parts, session_id, event)
            if isinstance(event, ev.InputSubmitted) and event.if_stopped == "resume":
                ask = parts.router.ask_resuming
    receipt = await ask(session_id, event, idempotency=idempotency)
    assert isinstance(receipt, Receipt)
    return receipt


def _request_fields(event: ev.InputSubmitted | ev.SteeringSubmitted) -> list[object]:
    """Return the fields that identify the request, for its fingerprint."""
    fields: list[object] = [type(event).__name__, plain_data(event.text)]
    if isinstance(event, ev.InputSubmitted):
        fields += [event.when_busy, event.queued, event.if_stopped, list(event.attachments)]
    return fields


async def _apply_hooks(
    parts: Parts, session_id: SessionId, event: ev.InputSubmitted | ev.SteeringSubmitted
) -> ev.InputSubmitted | ev.SteeringSubmitted:
    """Return the event as the blocking hooks changed it; raise if a hook denies it."""
    await parts.registry.row(session_id)  # raises before any hook runs if the session is unknown
    expires_at = await parts.hooks.before_input(session_id, event)
    return attrs.evolve(event, expires_at=expires_at)


async def run_input_hooks(
    parts: Parts,
    session_id: SessionId,
    input_id: InputId,
    text: str,
    *,
    when_busy: WhenBusy,
    source: Source,
) -> float | None:
    """Run the blocking hooks for a text that does not come through `send`.

    Return the time at which the input expires, which a hook may set. Raise `InputRefused`.
    """
    if not parts.services.hooks.has_input_hooks():
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
    check_text("idempotency_key", key)
    return Idempotency(key, fingerprint(request))
