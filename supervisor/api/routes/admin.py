"""Operations on the whole supervisor: health, statistics, search, cleanup, import and drain."""

from __future__ import annotations

from supervisor.api.operation import TextResponse, operation
from supervisor.api.params import OperationCall, body_params_of, query_params, query_params_of
from supervisor.api.reports import HealthReport, VersionReport
from supervisor.core.agent_list import ListedAgent
from supervisor.core.errors import (
    AgentUnknown,
    ConfigError,
    ImportFailed,
    SessionNotFound,
    SpawnRefused,
    StoreDegraded,
)
from supervisor.core.info import Info, Node
from supervisor.handles.shapes import Page
from supervisor.handles.supervisor import Supervisor
from supervisor.handles.views import Stats
from supervisor.http_server.problems import RequestRefused
from supervisor.sessions.maintenance_reports import CleanupReport, SearchHit


@operation("GET", "/v1/health")
async def health(call: OperationCall) -> HealthReport:  # noqa: ARG001 - the answer needs nothing
    """Return `ok` if the process answers."""
    return HealthReport("ok")


@operation("GET", "/v1/ready", raises=(StoreDegraded,))
async def ready(call: OperationCall) -> HealthReport:
    """Return `ready` if new work is accepted; answer 503 with the cause otherwise.

    Ready means: recovery is done, the server is not draining, and the store can write.
    """
    drain_state, store_state = call.context.drain_state, call.context.store_state
    if not drain_state.is_ready:
        what = "is shutting down" if drain_state.is_draining else "is still starting"
        raise RequestRefused("not_ready", f"the server {what}", hint="retry in a moment")
    state = (await call.sup.stats()).store if store_state is None else store_state()
    if state.degraded:
        raise StoreDegraded(
            state.problem or "the store cannot write", hint=state.hint or "check the disk"
        )
    return HealthReport("ready", state.findings)


@operation("GET", "/v1/version")
async def version(call: OperationCall) -> VersionReport:
    """Return the name and version of the program, and the version of this interface."""
    return VersionReport("understudy", call.context.version, "v1")


@operation("GET", "/v1/stats")
async def stats(call: OperationCall) -> Stats:
    """Return counts of sessions by phase, usage, and the state of the store."""
    return await call.sup.stats()


@operation("GET", "/v1/agents")
async def agents(call: OperationCall) -> Page[ListedAgent]:
    """List built-in, configured and preset agents, and what is missing; no agent is started."""
    return Page(await call.sup.agents(), None)


@operation("GET", "/v1/tree", query_params_of(Supervisor.tree), raises=(SessionNotFound,))
async def tree(call: OperationCall) -> Page[Node]:
    """Return every tree with a live session, or the tree below one session."""
    return Page(await call.sup.tree(**call.arguments), None)


_SEARCH_PARAMS = query_params_of(Supervisor.search, without=("text",))


@operation(
    "GET",
    "/v1/search",
    query_params(
        q=str, **{field.name: (field.kind, field.default) for field in _SEARCH_PARAMS.fields}
    ),
    raises=(ConfigError, SessionNotFound),
)
async def search(call: OperationCall) -> Page[SearchHit]:
    """Search the texts of users and agents for all given words, newest first."""
    given = dict(call.arguments)
    return await call.sup.search(given.pop("q"), **given)


@operation(
    "GET", "/v1/openapi.json", other_media_types={"application/json": "an OpenAPI 3.1 document"}
)
async def openapi(call: OperationCall) -> TextResponse:
    """Return this OpenAPI document."""
    return TextResponse(call.context.document(), "application/json")


METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"

_METRICS = {METRICS_TYPE: "metrics"}


@operation("GET", "/metrics", other_media_types=_METRICS)
async def metrics(call: OperationCall) -> TextResponse:
    """Return metrics for Prometheus; answer 404 if metrics are off."""
    return _metrics(call)


@operation("GET", "/v1/metrics", other_media_types=_METRICS)
async def metrics_here(call: OperationCall) -> TextResponse:
    """Return the same metrics, under `/v1`."""
    return _metrics(call)


def _metrics(call: OperationCall) -> TextResponse:
    if call.context.metrics is None:
        raise RequestRefused(
            "no_such_route", "metrics are off", hint="run the server with `understudy serve`"
        )
    return TextResponse(call.context.metrics(), METRICS_TYPE)


@operation(
    "POST", "/v1/cleanup", body_params_of(Supervisor.cleanup), raises=(ConfigError, StoreDegraded)
)
async def cleanup(call: OperationCall) -> CleanupReport:
    """Delete stopped trees by age, number or total size."""
    return await call.sup.cleanup(**call.arguments)


@operation(
    "POST",
    "/v1/import",
    body_params_of(Supervisor.import_, kinds={"path": str}),
    status=201,
    unix_only=True,
    raises=(AgentUnknown, ConfigError, ImportFailed, SpawnRefused, StoreDegraded),
)
async def import_(call: OperationCall) -> Info:
    """Create a session from a file on the server; only on the unix socket.

    The server reads the file with its own rights, and on the socket the caller is the same user.
    """
    session = await call.sup.import_(**call.arguments)
    return await session.info()


@operation("POST", "/v1/drain", status=204)
async def drain(call: OperationCall) -> None:
    """Refuse new work, let turns finish within a bound, interrupt the rest, suspend sessions.

    New work is refused until the process is restarted.
    """
    call.context.drain_state.drain()
    await call.sup.drain()
