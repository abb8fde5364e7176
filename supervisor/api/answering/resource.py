"""One path: its operations by method, asked with a request that was read, answered by bytes.

Rule 1: whatever is raised in here becomes a problem. Only a defect of ours is a 500, and only of
        that the log gets to see more than a line.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

import attrs
from starlette.types import Receive, Scope, Send

from supervisor.api.describing.operations import (
    Call,
    Context,
    Later,
    NotThere,
    Operation,
    Stream,
    Text,
)
from supervisor.api.wire import encode, encode_page
from supervisor.api.wire.problems import (
    LEAVING_RETRY_SECONDS,
    RequestRefused,
    problem_of,
    problem_of_faults,
)
from supervisor.api.wire.reading import Unreadable
from supervisor.core.errors import SessionNotActive, SupervisorError
from supervisor.sessions.surface.shapes import Page

from .requests import Gone, Incoming, header, read_body, read_query, with_key
from .responses import PAGE_POLICY, Response, problem_response

logger = logging.getLogger("supervisor.api")

# Ids of every sort are ours, and look like this. What does not is not there.
_ID: Final = re.compile(r"[a-z0-9_]{3,64}")
# The headers that operations may look at.
_HEADERS: Final = (b"last-event-id",)
_NOT_FOUND: Final = 404
_UNAVAILABLE: Final = 503


class Resource:
    """What can be asked at one path."""

    def __init__(self, context: Context, operations: Iterable[Operation]) -> None:
        self._context = context
        self._operations: Mapping[str, Operation] = {one.method: one for one in operations}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, whatever it is."""
        incoming = Incoming(receive)
        try:
            operation = self._operation(scope)
            call = await self._read(operation, scope, incoming)
            answer = await operation.handle(call)
            if isinstance(answer, Stream):
                await answer(scope, incoming, send)
                return
            response = await _response(operation, answer)
        except Gone:
            return
        except (SupervisorError, NotThere, Unreadable) as error:
            response = self._refusal(error)
            await incoming.discard()
        await response.send(scope, send)

    def _operation(self, scope: Scope) -> Operation:
        for value in scope["path_params"].values():
            if _ID.fullmatch(value) is None:
                raise no_such_route()
        method = scope["method"]
        found = self._operations.get("GET" if method == "HEAD" else method)
        if found is None or (found.streams and method == "HEAD"):
            raise RequestRefused(
                "method_not_allowed",
                "that cannot be done here",
                hint=f"use {' or '.join(self._operations)}",
            )
        return found

    async def _read(self, operation: Operation, scope: Scope, incoming: Incoming) -> Call:
        if operation.has_body:
            body = await read_body(scope, incoming)
            read_query(operation, scope)  # there is nothing to be asked by it
            given = operation.form.read(with_key(operation, scope, body))
        else:
            given = read_query(operation, scope)
        return Call(
            context=self._context,
            ids=scope["path_params"],
            given=given,
            headers={
                name.decode(): value
                for name in _HEADERS
                if (value := header(scope, name)) is not None
            },
            wait_gone=incoming.wait_gone,
        )

    def _refusal(self, error: SupervisorError | NotThere | Unreadable) -> Response:
        if isinstance(error, Unreadable):
            return problem_response(problem_of_faults(error))
        if isinstance(error, NotThere):
            return problem_response(problem_of(error.error, status=_NOT_FOUND))
        # What is refused because we leave is not the session's fault, and will pass.
        is_leaving = self._context.doors.is_draining and type(error) is SessionNotActive
        problem = problem_of(error)
        if is_leaving:
            problem = attrs.evolve(
                problem, status=_UNAVAILABLE, retry_after_seconds=LEAVING_RETRY_SECONDS
            )
        if problem.code != "method_not_allowed":
            return problem_response(problem)
        return problem_response(problem, [(b"allow", ", ".join(self._operations).encode())])


def no_such_route() -> RequestRefused:
    """There is nothing at that path."""
    return RequestRefused(
        "no_such_route", "there is nothing here", hint="GET /v1/openapi.json has all that there is"
    )


async def _response(operation: Operation, answer: Any) -> Response:  # noqa: ANN401 - see Answer
    status = operation.status
    if isinstance(answer, Later):
        answer, status = answer.value, answer.status
    if answer is None:
        return Response(204)
    if isinstance(answer, Text):
        policy = (PAGE_POLICY,) if answer.media_type.startswith("text/html") else ()
        return Response(status, answer.content, answer.media_type, policy)
    if isinstance(answer, Page):
        return Response(status, await encode_page(answer.items, answer.next))
    return Response(status, encode(answer))
