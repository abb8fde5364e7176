"""What can be done to a session as a whole, and to what it does."""

from __future__ import annotations

from typing import Any, Final, Literal

import trio

from supervisor.api.describing.forms import Form, body, form_of
from supervisor.api.describing.operations import Call, Later, operation
from supervisor.api.wire.reading import Fault, Unreadable
from supervisor.core.errors import (
    AgentStartFailed,
    AgentUnknown,
    BudgetSpent,
    ConfigError,
    Fenced,
    IdempotencyConflict,
    InputRefused,
    InputTooLarge,
    KeyTaken,
    NotRunning,
    PermissionDenied,
    QueueFull,
    RepairRefused,
    SessionNotActive,
    SessionNotFound,
    SpawnRefused,
    StoreDegraded,
)
from supervisor.core.info import Info
from supervisor.core.receipts import InterruptReport, Receipt
from supervisor.sessions.surface.handle import Session
from supervisor.sessions.surface.shapes import Scope, ToolCall, TurnScope
from supervisor.store.repair import RepairReport

# How long a stop is waited for; it goes on after that.
STOP_SECONDS: Final = 60.0

_INPUT = (SessionNotFound, SessionNotActive, InputRefused, InputTooLarge, QueueFull, StoreDegraded)
_STARTING = (
    SessionNotFound,
    SessionNotActive,
    AgentStartFailed,
    BudgetSpent,
    PermissionDenied,
    SpawnRefused,
    StoreDegraded,
)

_SCOPE = Literal["turn", "tool_call", "session", "tree"]
_INTERRUPT = Form(
    (
        *body(
            scope=(_SCOPE, "turn"), turn_id=(str | None, None), call_id=(str | None, None)
        ).fields,
        *form_of(Session.interrupt, without=("scope",)).fields,
    )
)


@operation(
    "POST",
    "/v1/sessions/{id}/interrupt",
    _INTERRUPT,
    raises=(*_INPUT, ConfigError),
)
async def interrupt(call: Call) -> InterruptReport:
    """Interrupt exactly what is named, and answer when it is over or the ladder at its end.

    With `turn_id` it is that turn or none, with `call_id` that tool call or none: if it is over,
    nothing changes and the report says so.
    """
    given = dict(call.given)
    scope = _scope(
        given.pop("scope", "turn"), given.pop("turn_id", None), given.pop("call_id", None)
    )
    return await call.session.interrupt(scope, **given)


def _scope(scope: Any, turn_id: str | None, call_id: str | None) -> Scope:  # noqa: ANN401 - a word
    if turn_id is not None and scope != "turn":
        raise _fault(
            "turn_id", f"means nothing to scope {scope}", "leave it out, or interrupt the turn"
        )
    if call_id is not None and scope != "tool_call":
        raise _fault("call_id", f"means nothing to scope {scope}", "use scope tool_call")
    if scope == "tool_call":
        if call_id is None:
            raise _fault("call_id", "is missing", "say which tool call it is")
        return ToolCall(call_id)
    return scope if turn_id is None else TurnScope(turn_id)


def _fault(name: str, detail: str, hint: str) -> Unreadable:
    return Unreadable((Fault(f"$.{name}", detail, hint),))


@operation(
    "POST",
    "/v1/sessions/{id}/steer",
    form_of(Session.steer),
    status=202,
    raises=(*_INPUT, NotRunning, IdempotencyConflict),
)
async def steer(call: Call) -> Receipt:
    """Guidance for the turn that is running."""
    return await call.session.steer(**call.given)


@operation(
    "POST",
    "/v1/sessions/{id}/spawn",
    form_of(Session.spawn),
    status=201,
    raises=(*_STARTING, AgentUnknown, InputRefused, ConfigError, IdempotencyConflict),
)
async def spawn(call: Call) -> Info:
    """A child of the session, at work on a text; answers when its agent is up."""
    child = await call.session.spawn(**call.given)
    return await child.info()


@operation(
    "POST",
    "/v1/sessions/{id}/stop",
    form_of(Session.stop),
    raises=(SessionNotFound, ConfigError),
)
async def stop(call: Call) -> Info | Later:
    """Stop it, and answer when it has stopped.

    If that takes more than a minute, because a turn may end first, the answer is 202: it goes on.
    """
    with trio.move_on_after(STOP_SECONDS) as patience:
        await call.session.stop(**call.given)
    info = await call.session.info()
    return Later(info) if patience.cancelled_caught else info


@operation("POST", "/v1/sessions/{id}/resume", raises=(*_STARTING, KeyTaken, Fenced))
async def resume(call: Call) -> Info:
    """Start it again: same id, same history, and what was held in its queue runs."""
    await call.session.resume()
    return await call.session.info()


@operation(
    "POST",
    "/v1/sessions/{id}/fork",
    form_of(Session.fork),
    status=201,
    raises=(*_STARTING, InputRefused),
)
async def fork(call: Call) -> Info:
    """A new session with what was said here, up to the end of a turn."""
    forked = await call.session.fork(**call.given)
    return await forked.info()


@operation(
    "POST",
    "/v1/sessions/{id}/clear",
    raises=(SessionNotFound, SessionNotActive, InputRefused, StoreDegraded),
)
async def clear(call: Call) -> Info:
    """Begin a new chapter: an empty conversation, with the old records still there to read."""
    await call.session.clear()
    return await call.session.info()


@operation("POST", "/v1/sessions/{id}/append", form_of(Session.append), status=204, raises=_INPUT)
async def append(call: Call) -> None:
    """Put a message into the history without a turn."""
    await call.session.append(**call.given)


@operation(
    "POST",
    "/v1/sessions/{id}/archive",
    raises=(SessionNotFound, SessionNotActive, InputRefused, StoreDegraded),
)
async def archive(call: Call) -> Info:
    """Make a stopped session read-only, and free its key."""
    await call.session.archive()
    return await call.session.info()


@operation("POST", "/v1/sessions/{id}/unarchive", raises=(SessionNotFound, KeyTaken, StoreDegraded))
async def unarchive(call: Call) -> Info:
    """Undo that."""
    await call.session.unarchive()
    return await call.session.info()


@operation(
    "POST",
    "/v1/sessions/{id}/repair",
    form_of(Session.repair),
    raises=(SessionNotFound, RepairRefused, StoreDegraded),
)
async def repair(call: Call) -> RepairReport:
    """Look whether its records are whole, and without `dry_run` close what was left open."""
    return await call.session.repair(**call.given)
