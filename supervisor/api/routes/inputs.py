"""Operations on inputs: send, list, wait, change, promote and cancel."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

import trio
from trio_util import move_on_when

from supervisor.api.drain import draining_error
from supervisor.api.operation import NotFound, operation
from supervisor.api.params import OperationCall, body_params, body_params_of, query_params
from supervisor.core.errors import (
    BudgetSpent,
    ConfigError,
    IdempotencyConflict,
    InputRefused,
    InputTooLarge,
    NotRunning,
    PermissionDenied,
    QueueFull,
    SessionNotActive,
    SessionNotFound,
    SpawnRefused,
    StoreDegraded,
    SupervisorError,
)
from supervisor.core.receipts import Receipt
from supervisor.decode import DecodeError, InvalidField
from supervisor.handles.session import Session
from supervisor.handles.shapes import Input, InputState, Page
from supervisor.http_server.body import ClientDisconnected

_INPUT_ERRORS = (
    SessionNotFound,
    SessionNotActive,
    InputRefused,
    InputTooLarge,
    QueueFull,
    BudgetSpent,
    PermissionDenied,
    SpawnRefused,
    StoreDegraded,
)


@operation(
    "POST",
    "/v1/sessions/{id}/inputs",
    body_params_of(Session.send),
    status=202,
    raises=(*_INPUT_ERRORS, IdempotencyConflict),
)
async def send(call: OperationCall) -> Receipt:
    """Send an input to a session; the receipt is returned when the input is durable.

    With an idempotency key, in the body or in the header, the request can be repeated safely.
    """
    return await call.session.send(**call.arguments)


@operation("GET", "/v1/sessions/{id}/inputs", raises=(SessionNotFound,))
async def inputs(call: OperationCall) -> Page[Input]:
    """List the inputs that are accepted and not settled, in the order of delivery."""
    return Page(tuple(await call.session.inputs()), None)


@operation(
    "GET",
    "/v1/sessions/{id}/inputs/{input}",
    query_params(wait=(float, 0.0)),
    raises=(SessionNotFound, InputRefused, ConfigError),
)
async def input_(call: OperationCall) -> InputState:
    """Return the state of an input; wait at most `wait` seconds for its result.

    If the client disconnects, only the wait ends.
    """
    session, input_id = call.session, call.path_ids["input"]
    state = await _input_state(call)
    wait_seconds = call.arguments.get("wait", 0.0)
    if not wait_seconds or state.result is not None or state.code is not None:
        return state

    async def wait_until_over() -> InputState:
        with trio.move_on_after(wait_seconds), suppress(SupervisorError):
            await session.result(input_id)
        return await _input_state(call)

    return await _run_unless_disconnected(call, wait_until_over)


async def _input_state(call: OperationCall) -> InputState:
    """Return the state of the input in the path; raise NotFound if the input is unknown."""
    try:
        return await call.session.input(call.path_ids["input"])
    except InputRefused as refusal:
        raise NotFound(refusal) from None


async def _run_unless_disconnected(
    call: OperationCall, work: Callable[[], Awaitable[InputState]]
) -> InputState:
    """Return the result of the work.

    Stop waiting if the client disconnects or the server drains.
    """
    found: list[InputState] = []
    refusal: list[Exception] = []
    async with (
        call.context.drain_state.move_on_when_closed() as closing,
        move_on_when(call.wait_disconnected),
    ):
        try:
            found.append(await work())
        except Exception as error:  # noqa: BLE001 - raised below, outside the nurseries, which would wrap it
            refusal.append(error)
    if closing.cancelled_caught:
        raise draining_error()
    if refusal:
        raise refusal[0]
    if not found:
        raise ClientDisconnected
    return found[0]


@operation(
    "PATCH",
    "/v1/sessions/{id}/inputs/{input}",
    body_params(text=(str | None, None), position=(int | None, None)),
    raises=(SessionNotFound, InputRefused, InputTooLarge, StoreDegraded),
)
async def change_input(call: OperationCall) -> InputState:
    """Change the text of a queued input, or its position in the queue."""
    given = {name: value for name, value in call.arguments.items() if value is not None}
    if len(given) != 1:
        raise DecodeError(
            (InvalidField("$", "text or position required", "give exactly one of them"),)
        )
    session, input_id = call.session, call.path_ids["input"]
    async with _not_found_if_unknown(call):
        if "text" in given:
            await session.edit_input(input_id, given["text"])
        else:
            await session.move_input(input_id, given["position"])
    return await _input_state(call)


@operation(
    "POST",
    "/v1/sessions/{id}/inputs/{input}/promote",
    status=202,
    raises=(SessionNotFound, InputRefused, NotRunning, StoreDegraded),
)
async def promote_input(call: OperationCall) -> Receipt:
    """Send a queued input to the running turn as steering."""
    async with _not_found_if_unknown(call):
        return await call.session.promote_input(call.path_ids["input"])


@operation(
    "DELETE",
    "/v1/sessions/{id}/inputs/{input}",
    status=204,
    raises=(SessionNotFound, InputRefused, StoreDegraded),
)
async def cancel_input(call: OperationCall) -> None:
    """Cancel a queued input."""
    async with _not_found_if_unknown(call):
        await call.session.cancel_input(call.path_ids["input"])


@asynccontextmanager
async def _not_found_if_unknown(call: OperationCall) -> AsyncIterator[None]:
    """Answer 404 for an unknown input; the refusal for a settled input keeps its status."""
    try:
        yield
    except (InputRefused, NotRunning) as refusal:
        try:
            await _input_state(call)
        except NotFound as missing:
            # Keep the text of the embedding API where it is about the input.
            raise (NotFound(refusal) if isinstance(refusal, InputRefused) else missing) from None
        raise
