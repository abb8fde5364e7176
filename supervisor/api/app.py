"""The app: every operation at its path, behind one gate."""

from __future__ import annotations

import functools
import logging
import re
from collections.abc import Callable, Iterable
from importlib.metadata import version as installed_version
from typing import Final

from starlette.routing import Route, Router
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from supervisor.sessions.surface.supervisor import Supervisor
from supervisor.store.writer.health import StoreState

from .answering.requests import Incoming
from .answering.resource import Resource, no_such_route
from .answering.responses import problem_response
from .describing.document import document
from .describing.operations import Context, Operation
from .doors import Doors
from .gate import Gate, Gated
from .routes import OPERATIONS
from .wire.problems import RequestRefused, problem_of

logger = logging.getLogger("supervisor.api")


def make_app(
    sup: Supervisor,
    *,
    gate: Gate,
    doors: Doors,
    metrics: Callable[[], bytes] | None = None,
    store_state: Callable[[], StoreState] | None = None,
    also: Iterable[Operation] = (),
    version: str | None = None,
) -> ASGIApp:
    """An ASGI app over a supervisor, for trio.

    `gate` says who may pass, `doors` whether work is taken; one pair of doors serves several apps.
    `metrics` gives what `/metrics` answers; without it that is a 404. `store_state` says how the
    store is, more quickly than counting everything does. `also` are operations of the process
    around it, which are described and guarded as all others.
    """
    known = version or installed_version("understudy")
    operations = (*OPERATIONS, *also)
    context = Context(
        sup=sup,
        doors=doors,
        version=known,
        metrics=metrics,
        store_state=store_state,
        document=functools.cache(functools.partial(document, operations, version=known)),
    )
    paths: dict[str, list[Operation]] = {}
    for operation in operations:
        paths.setdefault(operation.path, []).append(operation)
    routes = [Route(path, Resource(context, found)) for path, found in paths.items()]
    router = Router(routes, redirect_slashes=False, default=_nothing_here)
    return Gated(Guarded(router), gate)


class Guarded:
    """What is raised in here is a defect of ours: it is logged, and a 500 that says nothing."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Ask the app behind; whatever goes wrong there is answered."""
        has_begun = False

        async def note_and_send(message: Message) -> None:
            nonlocal has_begun
            has_begun = True
            await send(message)

        app = self._app if _is_plain(scope) else _nothing_here
        try:
            await app(scope, receive, note_and_send)
        except Exception:
            # The path has only our words and ids in it; a query may have anything.
            logger.exception("%s %s failed", scope["method"], scope["path"])
            if not has_begun:
                await problem_response(problem_of(_defect())).send(scope, send)


# Every path there is is made of these, so nothing that is escaped, hidden or relative is one.
_PLAIN: Final = re.compile(rb"(/[A-Za-z0-9_.-]+)+")


def _is_plain(scope: Scope) -> bool:
    raw = scope.get("raw_path") or scope["path"].encode(errors="replace")
    return _PLAIN.fullmatch(raw) is not None


async def _nothing_here(scope: Scope, receive: Receive, send: Send) -> None:
    await Incoming(receive).discard()
    await problem_response(problem_of(no_such_route())).send(scope, send)


def _defect() -> RequestRefused:
    return RequestRefused(
        "internal_error",
        "something went wrong in the server",
        hint="its log says what; please report it",
    )
