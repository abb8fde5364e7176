"""Sessions: made, found, changed and deleted."""

from __future__ import annotations

from supervisor.api.describing.forms import form_of, query_of
from supervisor.api.describing.operations import Call, operation
from supervisor.api.describing.rules import IN_BODIES
from supervisor.api.wire.kinds import Partial
from supervisor.core.errors import (
    AgentStartFailed,
    AgentUnknown,
    ConfigError,
    IdempotencyConflict,
    InputRefused,
    InvalidKey,
    KeyTaken,
    PermissionDenied,
    SessionNotActive,
    SessionNotFound,
    SpawnRefused,
    StoreDegraded,
)
from supervisor.core.info import Info
from supervisor.core.limits import Limits
from supervisor.sessions.surface.handle import Session
from supervisor.sessions.surface.shapes import Page
from supervisor.sessions.surface.supervisor import Supervisor

_MAKING = (
    AgentUnknown,
    AgentStartFailed,
    ConfigError,
    InvalidKey,
    KeyTaken,
    PermissionDenied,
    SpawnRefused,
    StoreDegraded,
)


@operation(
    "POST",
    "/v1/sessions",
    form_of(Supervisor.create),
    status=201,
    raises=(*_MAKING, IdempotencyConflict),
)
async def create(call: Call) -> Info:
    """Make a session; answers when its agent is up and it is idle.

    Giving up the wait does not undo it; with an idempotency key it can be asked for again safely.
    """
    session = await call.sup.create(**call.given)
    return await session.info()


@operation("GET", "/v1/sessions", query_of(Supervisor.list), raises=(ConfigError,))
async def list_(call: Call) -> Page[Info]:
    """Sessions in the order of their making, those that fit all that is given."""
    return await call.sup.list(**call.given)


@operation("POST", "/v1/keys/get_or_create", form_of(Supervisor.get_or_create), raises=_MAKING)
async def get_or_create(call: Call) -> Info:
    """The session that bears a key, in any phase; made if there is none."""
    session = await call.sup.get_or_create(**call.given)
    return await session.info()


@operation("POST", "/v1/keys/new", form_of(Supervisor.new), status=201, raises=_MAKING)
async def new(call: Call) -> Info:
    """Archive the session that bears a key, and begin another one that does."""
    session = await call.sup.new(**call.given)
    return await session.info()


@operation(
    "POST",
    "/v1/keys/reset",
    form_of(Supervisor.reset),
    raises=(InvalidKey, SessionNotFound, SessionNotActive, InputRefused, StoreDegraded),
)
async def reset(call: Call) -> Info:
    """Begin a new chapter in the session that bears a key."""
    session = await call.sup.reset(**call.given)
    return await session.info()


@operation("GET", "/v1/sessions/{id}", raises=(SessionNotFound,))
async def get(call: Call) -> Info:
    """One picture of all that is known of a session."""
    return await call.session.info()


# Only some of the limits: they are checked as they are read, and are no whole to be checked again.
_CHANGE = form_of(
    Session.set,
    kinds={"limits": Partial[Limits] | None},
    rules={name: rule for name, rule in IN_BODIES.items() if name != "limits"},
)


@operation(
    "PATCH",
    "/v1/sessions/{id}",
    _CHANGE,
    raises=(SessionNotFound, ConfigError, SessionNotActive, StoreDegraded),
)
async def change(call: Call) -> Info:
    """Change what is given, and leave the rest; of the limits too."""
    given = dict(call.given)
    if not given.get("limits"):
        given.pop("limits", None)
    await call.session.set(**given)
    return await call.session.info()


@operation("DELETE", "/v1/sessions/{id}", status=204, raises=(SessionNotFound, StoreDegraded))
async def delete(call: Call) -> None:
    """Stop a session, and leave nothing of it."""
    await call.sup.delete(call.ids["id"])


@operation(
    "GET",
    "/v1/sessions/{id}/children",
    query_of(Supervisor.list, only=("phase", "badge", "limit", "cursor")),
    raises=(SessionNotFound, ConfigError),
)
async def children(call: Call) -> Page[Info]:
    """Those that it has spawned, in the order of their making, the stopped ones included."""
    await call.sup.get(call.ids["id"])
    return await call.sup.list(parent=call.ids["id"], **call.given)
