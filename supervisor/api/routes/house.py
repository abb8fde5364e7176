"""The house as a whole: whether it is well, what is in it, and what was said in it."""

from __future__ import annotations

from supervisor.api.describing.forms import query, query_of
from supervisor.api.describing.operations import Call, Text, operation
from supervisor.api.wire.answers import Health, Version
from supervisor.api.wire.problems import RequestRefused
from supervisor.core.errors import ConfigError, SessionNotFound, StoreDegraded
from supervisor.core.info import Node
from supervisor.sessions.library.searching import SearchHit
from supervisor.sessions.surface.overview import Stats
from supervisor.sessions.surface.shapes import Page
from supervisor.sessions.surface.supervisor import Supervisor


@operation("GET", "/v1/health")
async def health(call: Call) -> Health:  # noqa: ARG001 - that it answers is the answer
    """Whether the process answers at all."""
    return Health("ok")


@operation("GET", "/v1/ready", raises=(StoreDegraded,))
async def ready(call: Call) -> Health:
    """Whether it takes work: recovery is done, it does not leave, and the store can write.

    A 503 says what it waits for.
    """
    doors, store_state = call.context.doors, call.context.store_state
    if not doors.is_ready:
        what = "is about to leave" if doors.is_draining else "is not up yet"
        raise RequestRefused("not_ready", f"the server {what}", hint="ask again in a moment")
    state = (await call.sup.stats()).store if store_state is None else store_state()
    if state.degraded:
        raise StoreDegraded(
            state.problem or "the store cannot write", hint=state.hint or "look at the disk"
        )
    return Health("ready")


@operation("GET", "/v1/version")
async def version(call: Call) -> Version:
    """Which program answers, and by which version of this interface."""
    return Version("understudy", call.context.version, "v1")


@operation("GET", "/v1/stats")
async def stats(call: Call) -> Stats:
    """How many sessions there are, in which phase, and what they come to."""
    return await call.sup.stats()


@operation("GET", "/v1/tree", query_of(Supervisor.tree), raises=(SessionNotFound,))
async def tree(call: Call) -> Page[Node]:
    """Every tree in which somebody lives, or the one below a session."""
    return Page(await call.sup.tree(**call.given), None)


_SEARCH = query_of(Supervisor.search, without=("text",))


@operation(
    "GET",
    "/v1/search",
    query(q=str, **{field.name: (field.kind, field.default) for field in _SEARCH.fields}),
    raises=(ConfigError, SessionNotFound),
)
async def search(call: Call) -> Page[SearchHit]:
    """What people and agents have said that has all these words, the last said first."""
    given = dict(call.given)
    return await call.sup.search(given.pop("q"), **given)


@operation("GET", "/v1/openapi.json", also_answers={"application/json": "an OpenAPI 3.1 document"})
async def openapi(call: Call) -> Text:
    """All that can be asked, and how: this document."""
    return Text(call.context.document(), "application/json")


METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_METRICS = {METRICS_TYPE: "metrics"}


@operation("GET", "/metrics", also_answers=_METRICS)
async def metrics(call: Call) -> Text:
    """What Prometheus reads; 404 where no metrics are kept."""
    return _metrics(call)


@operation("GET", "/v1/metrics", also_answers=_METRICS)
async def metrics_here(call: Call) -> Text:
    """The same, beside everything else."""
    return _metrics(call)


def _metrics(call: Call) -> Text:
    if call.context.metrics is None:
        raise RequestRefused(
            "no_such_route", "no metrics are kept here", hint="run it as `understudy serve`"
        )
    return Text(call.context.metrics(), METRICS_TYPE)
