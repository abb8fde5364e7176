"""Dispatch of the agent's requests and notifications to handlers.

Rule 1: a request is answered exactly once, whatever its handler does.
Rule 2: a handler that crashes is a bug in understudy: its traceback is logged, the agent receives
        an internal error without details, and the connection continues.
"""

from __future__ import annotations

import logging
import traceback
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, TypeAlias

import attrs
import trio

from supervisor.core.errors import short_repr

from .rpc_messages import (
    INTERNAL_ERROR,
    METHOD_NOT_FOUND,
    REQUEST_CANCELLED,
    RpcError,
    RpcId,
    RpcNotification,
    RpcRequest,
    Unsendable,
)
from .rpc_peer import Peer

RequestHandler: TypeAlias = Callable[[Any], Awaitable[object]]
NotificationHandler: TypeAlias = Callable[[Any], Awaitable[None]]

logger = logging.getLogger("supervisor")


@attrs.frozen
class RpcHandlers:
    """Handlers by method; each is called with the params, of any type.

    The value that a handler returns is the answer to its request, and the `RpcError` that it raises
    is the refusal; a request without a handler is refused. A notification without a handler is
    ignored. The handler of a notification delays all later messages, answers included, so it must
    not wait for a call. `on_unknown_answer` is called for an answer that belongs to no open call.
    """

    requests: Mapping[str, RequestHandler] = attrs.field(factory=dict)
    notifications: Mapping[str, NotificationHandler] = attrs.field(factory=dict)
    on_unknown_answer: Callable[[], None] = lambda: None


class RpcDispatcher:
    """Running handlers of one connection."""

    def __init__(self, peer: Peer, reply: Callable[[bytes], None], *, name: str) -> None:
        self._peer = peer
        self._reply = reply
        self._name = name
        # The open requests whose handler runs.
        self._scopes: dict[RpcId, trio.CancelScope] = {}

    async def handle_notification(
        self, notification: RpcNotification, handlers: RpcHandlers
    ) -> None:
        """Run the handler to its end. Not a checkpoint unless the handler has one."""
        handler = handlers.notifications.get(notification.method)
        if handler is not None:
            try:
                await handler(notification.params)
            except* Exception as crash:  # noqa: BLE001 - at the boundary of each handler
                self._log(notification.method, crash)

    async def start_request(
        self, request: RpcRequest, handlers: RpcHandlers, nursery: trio.Nursery
    ) -> None:
        """Run the handler in a task; return when it has reached its first await."""
        handler = handlers.requests.get(request.method)
        if handler is None:
            problem = f"unknown method {short_repr(request.method)}"
            self._reply(self._peer.refuse(request.id, RpcError(METHOD_NOT_FOUND, problem)))
            return
        started = trio.Event()
        nursery.start_soon(self._run_handler, request, handler, started, name=request.method)
        await started.wait()

    def cancel_request(self, request_id: RpcId) -> None:
        """Cancel the handler of a request; do nothing if the handler has returned."""
        if request_id in self._scopes:
            self._scopes[request_id].cancel(reason="the agent cancelled its request")

    async def _run_handler(
        self, request: RpcRequest, handler: RequestHandler, started: trio.Event
    ) -> None:
        scope = self._scopes[request.id] = trio.CancelScope()
        started.set()
        # The answer if the handler is cancelled, and so neither returns nor raises.
        refusal = RpcError(REQUEST_CANCELLED, "the request was cancelled")
        answer: bytes | None = None
        try:
            with scope:
                answer = self._peer.answer(request.id, await handler(request.params))
        except* RpcError as refused:
            refusal = _first_error(refused)
        except* Exception as crash:  # noqa: BLE001 - at the boundary of each handler
            self._log(request.method, crash)
            refusal = RpcError(INTERNAL_ERROR, "internal error")
        finally:
            del self._scopes[request.id]
        self._reply(answer or self._refuse(request.id, refusal))

    def _refuse(self, request_id: RpcId, error: RpcError) -> bytes:
        try:
            return self._peer.refuse(request_id, error)
        except Unsendable:
            return self._peer.refuse(
                request_id, RpcError(INTERNAL_ERROR, "the request was refused")
            )

    def _log(self, method: str, crash: BaseExceptionGroup[Exception]) -> None:
        # Without the error text, which may contain user text or a key.
        logger.error(
            "%s: handler of %s crashed: %s",
            self._name,
            method,
            _error_location(_first_error(crash)),
        )


def _first_error(group: BaseExceptionGroup[Any]) -> Any:  # noqa: ANN401 - the group's own type
    error: Any = group
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def _error_location(error: BaseException) -> str:
    for frame, line in list(traceback.walk_tb(error.__traceback__))[-1:]:
        return f"{type(error).__name__} at {Path(frame.f_code.co_filename).name}:{line}"
    return type(error).__name__
