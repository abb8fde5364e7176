"""The agent's own messages, given to whoever handles them.

Rule 1: a request is answered once, whatever its handler does.
Rule 2: a handler that crashes is our fault, and ours alone: the log says where, the agent is told
        no more than that, and the connection goes on.
"""

from __future__ import annotations

import logging
import traceback
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, TypeAlias

import attrs
import trio

from supervisor.core.errors import shown

from .messages import (
    INTERNAL_ERROR,
    METHOD_NOT_FOUND,
    REQUEST_CANCELLED,
    Id,
    Notification,
    Request,
    RpcError,
    Unsendable,
)
from .peer import Peer

RequestHandler: TypeAlias = Callable[[Any], Awaitable[object]]
NotificationHandler: TypeAlias = Callable[[Any], Awaitable[None]]

logger = logging.getLogger("supervisor")


@attrs.frozen
class Handlers:
    """What is done about the agent's messages, by method; each gets the params, whatever they are.

    A request is answered with what its handler returns, or refused with the `RpcError` it raises;
    without a handler it is refused. A notification without one is ignored. The handler of
    a notification holds up everything that comes after, answers too: it must not wait for a call.
    """

    requests: Mapping[str, RequestHandler] = attrs.field(factory=dict)
    notifications: Mapping[str, NotificationHandler] = attrs.field(factory=dict)


class Serving:
    """Handlers at work."""

    def __init__(self, peer: Peer, reply: Callable[[bytes], None], *, name: str) -> None:
        self._peer = peer
        self._reply = reply
        self._name = name
        # Those of the peer's open requests whose handler has begun and not ended.
        self._scopes: dict[Id, trio.CancelScope] = {}

    async def heed(self, told: Notification, handlers: Handlers) -> None:
        """Have it handled, to the end. Without a handler, or one that waits, no checkpoint."""
        handler = handlers.notifications.get(told.method)
        if handler is not None:
            try:
                await handler(told.params)
            except* Exception as crash:  # noqa: BLE001 - at the boundary of each handler
                self._log(told.method, crash)

    async def begin(self, request: Request, handlers: Handlers, nursery: trio.Nursery) -> None:
        """Have it handled by a task of its own; answers when that has come to its first await."""
        handler = handlers.requests.get(request.method)
        if handler is None:
            problem = f"there is no method {shown(request.method)} here"
            self._reply(self._peer.refuse(request.id, RpcError(METHOD_NOT_FOUND, problem)))
            return
        begun = trio.Event()
        nursery.start_soon(self._serve, request, handler, begun, name=request.method)
        await begun.wait()

    def cancel(self, request_id: Id) -> None:
        """The agent does not need that answer any more; what is done already is answered."""
        if request_id in self._scopes:
            self._scopes[request_id].cancel(reason="the agent does not need it any more")

    async def _serve(self, request: Request, handler: RequestHandler, begun: trio.Event) -> None:
        scope = self._scopes[request.id] = trio.CancelScope()
        begun.set()
        # What is said if the handler is cancelled, and so neither returns nor raises.
        refusal = RpcError(REQUEST_CANCELLED, "it was cancelled, as you asked")
        answer: bytes | None = None
        try:
            with scope:
                answer = self._peer.answer(request.id, await handler(request.params))
        except* RpcError as refused:
            refusal = _first(refused)
        except* Exception as crash:  # noqa: BLE001 - at the boundary of each handler
            self._log(request.method, crash)
            refusal = RpcError(INTERNAL_ERROR, "it failed, through no fault of yours")
        finally:
            del self._scopes[request.id]
        self._reply(answer or self._refuse(request.id, refusal))

    def _refuse(self, request_id: Id, error: RpcError) -> bytes:
        try:
            return self._peer.refuse(request_id, error)
        except Unsendable:
            return self._peer.refuse(request_id, RpcError(INTERNAL_ERROR, "it was refused"))

    def _log(self, method: str, crash: BaseExceptionGroup[Exception]) -> None:
        # Not what it says: that may well be what the user wrote, or a key.
        logger.error("%s: the handler of %s failed: %s", self._name, method, _where(_first(crash)))


def _first(group: BaseExceptionGroup[Any]) -> Any:  # noqa: ANN401 - what the group is a group of
    error: Any = group
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def _where(error: BaseException) -> str:
    for frame, line in list(traceback.walk_tb(error.__traceback__))[-1:]:
        return f"{type(error).__name__} at {Path(frame.f_code.co_filename).name}:{line}"
    return type(error).__name__
