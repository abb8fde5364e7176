"""An input on its way in: made of what the caller gave, shown to hooks, and sent."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import attrs
import orjson

from supervisor.core import events as ev
from supervisor.core.ids import InputId, SessionId
from supervisor.core.receipts import Receipt
from supervisor.core.session import Source, WhenBusy
from supervisor.drivers.plain import plain
from supervisor.sessions.shell.repeats import Idempotency, fingerprint

from .checks import checked_attachments, exact, known_word, positive_seconds, some_text

if TYPE_CHECKING:
    from supervisor.sessions.house.house import House

IfStopped: TypeAlias = Literal["resume", "reject"]


def make_input(
    house: House,
    text: str,
    *,
    attachments: Sequence[Mapping[str, Any]],
    when_busy: WhenBusy,
    ttl_seconds: float | None,
    if_stopped: IfStopped,
    source: Source,
) -> ev.InputSubmitted:
    """The news of an input; raises what cannot be meant. Whether its text can, the session says."""
    house.tree.refuse_if_leaving()
    when_busy = known_word("when_busy", when_busy, WhenBusy)
    if_stopped = known_word("if_stopped", if_stopped, IfStopped)
    attached = checked_attachments(attachments)
    stamp = house.stamp()
    return ev.InputSubmitted(
        input=InputId(house.ids.new("in")),
        text=exact(text),
        when_busy=when_busy,
        source=source,
        expires_at=_expiry(stamp["at"], ttl_seconds),
        attachments=attached,
        attachment_bytes=len(orjson.dumps(attached)) if attached else 0,
        if_stopped=if_stopped,
        **stamp,
    )


def make_steering(
    house: House, text: str, *, ttl_seconds: float | None, source: Source
) -> ev.SteeringSubmitted:
    """The news of guidance for the turn that runs."""
    house.tree.refuse_if_leaving()
    stamp = house.stamp()
    return ev.SteeringSubmitted(
        input=InputId(house.ids.new("in")),
        text=exact(text),
        source=source,
        expires_at=_expiry(stamp["at"], ttl_seconds),
        **stamp,
    )


def _expiry(at: float, ttl_seconds: float | None) -> float | None:
    return None if ttl_seconds is None else at + positive_seconds(ttl_seconds)


async def send(
    house: House,
    session_id: SessionId,
    event: ev.InputSubmitted | ev.SteeringSubmitted,
    key: str | None,
) -> Receipt:
    """Have hooks and then the session decide on it; raises what they refuse."""
    idempotency = None if key is None else idempotency_of(key, _said_in(event))
    ask: Callable[..., Awaitable[object]] = house.lines.ask
    if house.gates.asks_before_input():
        # What was accepted before is answered from the record, whatever hooks say today.
        known = key is not None and await house.store.kept(session_id, key) is not None
        if not known:
            event = await _asked(house, session_id, event)
            if isinstance(event, ev.InputSubmitted) and event.if_stopped == "resume":
                ask = house.lines.ask_back
    receipt = await ask(session_id, event, idempotency=idempotency)
    assert isinstance(receipt, Receipt)
    return receipt


def _said_in(event: ev.InputSubmitted | ev.SteeringSubmitted) -> list[object]:
    """What makes it this request and no other."""
    said: list[object] = [type(event).__name__, plain(event.text)]
    if isinstance(event, ev.InputSubmitted):
        said += [event.when_busy, event.queued, event.if_stopped, list(event.attachments)]
    return said


async def _asked(
    house: House, session_id: SessionId, event: ev.InputSubmitted | ev.SteeringSubmitted
) -> ev.InputSubmitted | ev.SteeringSubmitted:
    """The input as hooks would have it; raises what they refuse."""
    await house.tree.row(session_id)  # what is not there is not asked about
    expires_at = await house.gates.submitting(session_id, event)
    return attrs.evolve(event, expires_at=expires_at)


async def show_to_hooks(
    house: House,
    session_id: SessionId,
    input_id: InputId,
    text: str,
    *,
    when_busy: WhenBusy,
    source: Source,
) -> float | None:
    """Have hooks see a text that comes in by another way than `send`; raises `InputRefused`.

    Gives when it is to expire, which a hook may say.
    """
    if not house.gates.asks_before_input():
        return None
    event = ev.InputSubmitted(
        input=input_id, text=exact(text), when_busy=when_busy, source=source, **house.stamp()
    )
    return await house.gates.submitting(session_id, event)


def idempotency_of(key: str | None, request: object) -> Idempotency | None:
    """What tells a repeated request from another one, if the caller has given it a key."""
    if key is None:
        return None
    some_text("idempotency_key", key)
    return Idempotency(key, fingerprint(request))
