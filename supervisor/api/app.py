"""The ASGI app: every operation at its path, behind one gate."""

from __future__ import annotations

import functools
import logging
import re
from collections.abc import Callable, Iterable
from importlib.metadata import version as installed_version
from typing import Final

from starlette.routing import Route, Router
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from supervisor.handles.supervisor import Supervisor
from supervisor.store.pending import StoreState

from .drain import DrainState
from .gate import Gate, Gated
from .openapi import openapi_document
from .operation import Operation, OperationContext
from .problems import RequestRefused, problem_of
from .request import RequestBody
from .resource import Resource, no_such_route
from .response import problem_response
from .routes import OPERATIONS

logger = logging.getLogger("supervisor.api")


def make_app(
    sup: Supervisor,
    *,
    gate: Gate,
    drain_state: DrainState,
    metrics: Callable[[], bytes] | None = None,
    store_state: Callable[[], StoreState] | None = None,
    extra_operations: Iterable[Operation] = (),
    version: str | None = None,
) -> ASGIApp:
    """Return an ASGI app over a supervisor, for trio.

    `gate` authenticates requests. `drain_state` says whether new work is accepted; several apps
    share one. `metrics` returns the body of `/metrics`, which is a 404 without it. `store_state`
    returns the state of the store without counting sessions. `extra_operations` are those of the
    process around the app; they are documented and guarded like all others.
    """
    known = version or installed_version("understudy")
    operations = (*OPERATIONS, *extra_operations)
    context = OperationContext(
        sup=sup,
        drain_state=drain_state,
        version=known,
        metrics=metrics,
        store_state=store_state,
        document=functools.cache(functools.partial(openapi_document, operations, version=known)),
    )
    paths: dict[str, list[Operation]] = {}
    for operation in operations:
        paths.setdefault(operation.path, []).append(operation)
    routes = [Route(path, Resource(context, found)) for path, found in paths.items()]
    router = Router(routes, redirect_slashes=False, default=_not_found)
    return Gated(ErrorBoundary(router), gate)


class ErrorBoundary:
    """Outermost handler: an exception here is a bug. It is logged and answered with a bare 500."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Call the app; answer 500 if it raises before the response has started."""
        has_begun = False

        async def note_and_send(message: Message) -> None:
            nonlocal has_begun
            has_begun = True
            await send(message)

        app = self._app if _is_plain_path(scope) else _not_found
        try:
            await app(scope, receive, note_and_send)
        except Exception:
            # Only the path is logged: a query may contain user text.
            logger.exception("request failed: %s %s", scope["method"], scope["path"])
            if not has_begun:
                await problem_response(problem_of(_internal_error())).send(scope, send)


# Every path of ours matches. Escaped, hidden and relative path segments do not.
_PLAIN_PATH: Final = re.compile(rb"(/[A-Za-z0-9_.-]+)+")


def _is_plain_path(scope: Scope) -> bool:
    raw = scope.get("raw_path") or scope["path"].encode(errors="replace")
    return _PLAIN_PATH.fullmatch(raw) is not None


async def _not_found(scope: Scope, receive: Receive, send: Send) -> None:
    await RequestBody(receive).discard()
    await problem_response(problem_of(no_such_route())).send(scope, send)


def _internal_error() -> RequestRefused:
    return RequestRefused(
        "internal_error",
        "internal error in the server",
        hint="this is a bug in understudy, please report it; the server log has the traceback",
    )
