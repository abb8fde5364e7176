"""Operations that control one session: interrupt, steer, spawn, stop, resume, fork, repair."""

from __future__ import annotations

from typing import Any, Final, Literal

import trio

from supervisor.api.operation import DeferredResponse, operation
from supervisor.api.params import OperationCall, Params, body_params, body_params_of
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
    NameTaken,
    NotRunning,
    PermissionDenied,
    QueueFull,
    RecordNotFound,
    RepairRefused,
    SessionNotActive,
    SessionNotFound,
    SpawnRefused,
    StoreDegraded,
)
from supervisor.core.info import Info
from supervisor.core.receipts import InterruptReport, Receipt
from supervisor.core.scopes import Scope, ToolCall, TurnScope
from supervisor.decode import DecodeError, InvalidField
from supervisor.handles.session import Session
from supervisor.store.repair import RepairReport

# A stop that takes longer continues, and the answer is 202.
STOP_SECONDS: Final = 60.0

_INPUT_ERRORS = (
    SessionNotFound,
    SessionNotActive,
    InputRefused,
    InputTooLarge,
    QueueFull,
    StoreDegraded,
)
_START_ERRORS = (
    SessionNotFound,
    SessionNotActive,
    AgentStartFailed,
    BudgetSpent,
    PermissionDenied,
    SpawnRefused,
    StoreDegraded,
)

_SCOPE = Literal["turn", "tool_call", "session", "tree"]
_INTERRUPT_PARAMS = Params(
    (
        *body_params(
            scope=(_SCOPE, "turn"), turn_id=(str | None, None), call_id=(str | None, None)
        ).fields,
        *body_params_of(Session.interrupt, without=("scope",)).fields,
    )
)


@operation(
    "POST",
    "/v1/sessions/{id}/interrupt",
    _INTERRUPT_PARAMS,
    raises=(*_INPUT_ERRORS, ConfigError),
)
async def interrupt(call: OperationCall) -> InterruptReport:
    """Interrupt a turn, a tool call, a session or a tree; answer when the interrupt is over.

    It is over when the work has ended, or when the last step of the ladder had no effect. `turn_id`
    and `call_id` name one turn or tool call: if it has ended before, nothing changes and the report
    says so.
    """
    given = dict(call.arguments)
    scope = _scope(
        given.pop("scope", "turn"), given.pop("turn_id", None), given.pop("call_id", None)
    )
    return await call.session.interrupt(scope, **given)


def _scope(scope: Any, turn_id: str | None, call_id: str | None) -> Scope:  # noqa: ANN401 - a word
    if turn_id is not None and scope != "turn":
        raise _invalid_field(
            "turn_id", f"does not apply to scope {scope}", "leave it out, or use scope turn"
        )
    if call_id is not None and scope != "tool_call":
        raise _invalid_field("call_id", f"does not apply to scope {scope}", "use scope tool_call")
    if scope == "tool_call":
        if call_id is None:
            raise _invalid_field(
                "call_id", "required field missing", "give the id of the tool call"
            )
        return ToolCall(call_id)
    return scope if turn_id is None else TurnScope(turn_id)


def _invalid_field(name: str, detail: str, hint: str) -> DecodeError:
    return DecodeError((InvalidField(f"$.{name}", detail, hint),))


@operation(
    "POST",
    "/v1/sessions/{id}/steer",
    body_params_of(Session.steer),
    status=202,
    raises=(*_INPUT_ERRORS, NotRunning, IdempotencyConflict),
)
async def steer(call: OperationCall) -> Receipt:
    """Send steering text to the running turn."""
    return await call.session.steer(**call.arguments)


@operation(
    "POST",
    "/v1/sessions/{id}/spawn",
    body_params_of(Session.spawn),
    status=201,
    raises=(
        *_START_ERRORS,
        AgentUnknown,
        InputRefused,
        ConfigError,
        IdempotencyConflict,
        NameTaken,
    ),
)
async def spawn(call: OperationCall) -> Info:
    """Spawn a child that works on a text; answer when its agent has started."""
    child = await call.session.spawn(**call.arguments)
    return await child.info()


@operation(
    "POST",
    "/v1/sessions/{id}/stop",
    body_params_of(Session.stop),
    raises=(SessionNotFound, ConfigError),
)
async def stop(call: OperationCall) -> Info | DeferredResponse:
    """Stop a session, and answer when it has stopped.

    If a turn may finish first and that takes more than a minute, the answer is 202 and the stop
    continues.
    """
    with trio.move_on_after(STOP_SECONDS) as patience:
        await call.session.stop(**call.arguments)
    info = await call.session.info()
    return DeferredResponse(info) if patience.cancelled_caught else info


@operation("POST", "/v1/sessions/{id}/resume", raises=(*_START_ERRORS, KeyTaken, NameTaken, Fenced))
async def resume(call: OperationCall) -> Info:
    """Resume a stopped session with its id, its history and its queued inputs."""
    await call.session.resume()
    return await call.session.info()


@operation(
    "POST",
    "/v1/sessions/{id}/fork",
    body_params_of(Session.fork),
    status=201,
    raises=(*_START_ERRORS, InputRefused),
)
async def fork(call: OperationCall) -> Info:
    """Create a session with a copy of the history up to the end of a turn."""
    forked = await call.session.fork(**call.arguments)
    return await forked.info()


@operation(
    "POST",
    "/v1/sessions/{id}/clear",
    raises=(SessionNotFound, SessionNotActive, InputRefused, StoreDegraded),
)
async def clear(call: OperationCall) -> Info:
    """Start a new chapter: an empty conversation; the old records stay readable."""
    await call.session.clear()
    return await call.session.info()


@operation(
    "POST",
    "/v1/sessions/{id}/append",
    body_params_of(Session.append),
    status=204,
    raises=_INPUT_ERRORS,
)
async def append(call: OperationCall) -> None:
    """Append a message to the history without starting a turn."""
    await call.session.append(**call.arguments)


@operation(
    "POST",
    "/v1/sessions/{id}/seen",
    body_params_of(Session.seen),
    status=204,
    raises=(SessionNotFound, RecordNotFound, StoreDegraded),
)
async def seen(call: OperationCall) -> None:
    """Record that a person has seen the records up to a number."""
    await call.session.seen(**call.arguments)


@operation(
    "POST",
    "/v1/sessions/{id}/archive",
    raises=(SessionNotFound, SessionNotActive, InputRefused, StoreDegraded),
)
async def archive(call: OperationCall) -> Info:
    """Make a stopped session read-only, and free its key."""
    await call.session.archive()
    return await call.session.info()


@operation(
    "POST",
    "/v1/sessions/{id}/unarchive",
    raises=(SessionNotFound, KeyTaken, NameTaken, StoreDegraded),
)
async def unarchive(call: OperationCall) -> Info:
    """Undo the archiving of a session."""
    await call.session.unarchive()
    return await call.session.info()


@operation(
    "POST",
    "/v1/sessions/{id}/repair",
    body_params_of(Session.repair),
    raises=(SessionNotFound, RepairRefused, StoreDegraded),
)
async def repair(call: OperationCall) -> RepairReport:
    """Check the records of a session; without `dry_run`, append records that close open turns."""
    return await call.session.repair(**call.arguments)
