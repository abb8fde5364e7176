"""Operations that create, find, change and delete sessions."""

from __future__ import annotations

from supervisor.api.operation import operation
from supervisor.api.params import (
    BODY_CONSTRAINTS,
    RESOLVE_CONSTRAINTS,
    OperationCall,
    body_params_of,
    query_params_of,
)
from supervisor.core.errors import (
    AgentStartFailed,
    AgentUnknown,
    AmbiguousId,
    ConfigError,
    IdempotencyConflict,
    InputRefused,
    InvalidKey,
    InvalidOverride,
    KeyTaken,
    NameTaken,
    PermissionDenied,
    SessionNotActive,
    SessionNotFound,
    SpawnRefused,
    StoreDegraded,
)
from supervisor.core.info import Info
from supervisor.core.limits import Limits
from supervisor.core.match import Match
from supervisor.decode import Partial
from supervisor.handles.session import Session
from supervisor.handles.shapes import Page
from supervisor.handles.supervisor import Supervisor

_CREATE_ERRORS = (
    AgentUnknown,
    AgentStartFailed,
    ConfigError,
    InvalidKey,
    KeyTaken,
    NameTaken,
    PermissionDenied,
    SpawnRefused,
    StoreDegraded,
)


@operation(
    "POST",
    "/v1/sessions",
    body_params_of(Supervisor.create),
    status=201,
    raises=(*_CREATE_ERRORS, IdempotencyConflict),
)
async def create(call: OperationCall) -> Info:
    """Create a session; answer when its agent has started and the session is idle.

    The session is created even if the client disconnects. With an idempotency key the request can
    be repeated safely. A command in `mcp_servers` runs as the user of the daemon, so where there
    are roles, only an owner may send one.
    """
    session = await call.sup.create(**call.arguments)
    return await session.info()


@operation("GET", "/v1/sessions", query_params_of(Supervisor.list), raises=(ConfigError,))
async def list_(call: OperationCall) -> Page[Info]:
    """List the sessions that match all filters, in the order of creation."""
    return await call.sup.list(**call.arguments)


@operation(
    "GET",
    "/v1/resolve",
    query_params_of(Supervisor.resolve, constraints=RESOLVE_CONSTRAINTS),
    raises=(AmbiguousId, ConfigError, SessionNotFound),
)
async def resolve(call: OperationCall) -> Page[Match]:
    """Find the id that a short form of an id, a name, a key or a path of names stands for."""
    return await call.sup.resolve(**call.arguments)


@operation(
    "POST",
    "/v1/keys/get_or_create",
    body_params_of(Supervisor.get_or_create),
    raises=_CREATE_ERRORS,
)
async def get_or_create(call: OperationCall) -> Info:
    """Return the holder of a key, in any phase; create it if there is none."""
    session = await call.sup.get_or_create(**call.arguments)
    return await session.info()


@operation(
    "POST", "/v1/keys/new", body_params_of(Supervisor.new), status=201, raises=_CREATE_ERRORS
)
async def new(call: OperationCall) -> Info:
    """Archive the holder of a key, and create a new holder."""
    session = await call.sup.new(**call.arguments)
    return await session.info()


@operation(
    "POST",
    "/v1/keys/reset",
    body_params_of(Supervisor.reset),
    raises=(InvalidKey, SessionNotFound, SessionNotActive, InputRefused, StoreDegraded),
)
async def reset(call: OperationCall) -> Info:
    """Start a new chapter in the holder of a key."""
    session = await call.sup.reset(**call.arguments)
    return await session.info()


@operation("GET", "/v1/sessions/{id}", raises=(SessionNotFound,))
async def get(call: OperationCall) -> Info:
    """Return the details of one session."""
    return await call.session.info()


# Some of the limits are a mapping: the decoder checks them, the check for whole limits cannot.
_CHANGE_PARAMS = body_params_of(
    Session.set,
    kinds={"limits": Partial[Limits] | None},
    constraints={name: one for name, one in BODY_CONSTRAINTS.items() if name != "limits"},
)


@operation(
    "PATCH",
    "/v1/sessions/{id}",
    _CHANGE_PARAMS,
    raises=(
        SessionNotFound,
        ConfigError,
        InvalidOverride,
        NameTaken,
        SessionNotActive,
        StoreDegraded,
    ),
)
async def change(call: OperationCall) -> Info:
    """Change the given fields of a session and keep all others.

    Limits and options that are not named also keep their value. For `mcp_servers` the same holds
    as in the creation of a session.
    """
    given = dict(call.arguments)
    if not given.get("limits"):
        given.pop("limits", None)
    await call.session.set(**given)
    return await call.session.info()


@operation("DELETE", "/v1/sessions/{id}", status=204, raises=(SessionNotFound, StoreDegraded))
async def delete(call: OperationCall) -> None:
    """Stop a session and delete all its records."""
    await call.sup.delete(call.path_ids["id"])


@operation(
    "GET",
    "/v1/sessions/{id}/children",
    query_params_of(Supervisor.list, only=("phase", "badge", "limit", "cursor")),
    raises=(SessionNotFound, ConfigError),
)
async def children(call: OperationCall) -> Page[Info]:
    """List the children of a session in the order of creation, stopped ones included."""
    await call.sup.get(call.path_ids["id"])
    return await call.sup.list(parent=call.path_ids["id"], **call.arguments)
