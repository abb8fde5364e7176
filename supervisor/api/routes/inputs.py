"""Inputs: sent, looked after, changed and taken back."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

import trio

from supervisor.api.answering.requests import Gone
from supervisor.api.describing.forms import body, form_of, query
from supervisor.api.describing.operations import Call, NotThere, operation
from supervisor.api.doors import leaving
from supervisor.api.wire.reading import Fault, Unreadable
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
from supervisor.sessions.surface.handle import Session
from supervisor.sessions.surface.shapes import Input, InputState, Page

_TAKING = (
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
    form_of(Session.send),
    status=202,
    raises=(*_TAKING, IdempotencyConflict),
)
async def send(call: Call) -> Receipt:
    """Give a session an input; the receipt says that it is durable, and where it is now.

    With an idempotency key, in the body or as a header, it can be sent again safely.
    """
    return await call.session.send(**call.given)


@operation("GET", "/v1/sessions/{id}/inputs", raises=(SessionNotFound,))
async def inputs(call: Call) -> Page[Input]:
    """What is accepted and not settled, in the order in which it will run."""
    return Page(tuple(await call.session.inputs()), None)


@operation(
    "GET",
    "/v1/sessions/{id}/inputs/{input}",
    query(wait=(float, 0.0)),
    raises=(SessionNotFound, InputRefused, ConfigError),
)
async def input_(call: Call) -> InputState:
    """What has become of an input; with `wait`, answers when it is over, or after so many seconds.

    Hanging up changes nothing but that nobody waits.
    """
    session, input_id = call.session, call.ids["input"]
    state = await _state(call)
    wait_seconds = call.given.get("wait", 0.0)
    if not wait_seconds or state.result is not None or state.code is not None:
        return state

    async def wait_until_over() -> InputState:
        with trio.move_on_after(wait_seconds), suppress(SupervisorError):
            await session.result(input_id)
        return await _state(call)

    return await _unless_gone(call, wait_until_over)


async def _state(call: Call) -> InputState:
    """How the input is that the path names; one that never was is not there."""
    try:
        return await call.session.input(call.ids["input"])
    except InputRefused as refusal:
        raise NotThere(refusal) from None


async def _unless_gone(call: Call, work: Callable[[], Awaitable[InputState]]) -> InputState:
    """What the work gives; nothing is waited for once nobody waits for it, or the doors close."""
    found: list[InputState] = []
    refusal: list[Exception] = []

    async def watch_out() -> None:
        await call.wait_gone()
        nursery.cancel_scope.cancel()

    with call.context.doors.until_closed() as closing:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(watch_out)
            try:
                found.append(await work())
            except Exception as error:  # noqa: BLE001 - raised below, where no nursery wraps it
                refusal.append(error)
            nursery.cancel_scope.cancel()
    if closing.cancelled_caught:
        raise leaving()
    if refusal:
        raise refusal[0]
    if not found:
        raise Gone
    return found[0]


@operation(
    "PATCH",
    "/v1/sessions/{id}/inputs/{input}",
    body(text=(str | None, None), position=(int | None, None)),
    raises=(SessionNotFound, InputRefused, InputTooLarge, StoreDegraded),
)
async def change_input(call: Call) -> InputState:
    """Give an input that waits another text, or another place in the queue."""
    given = {name: value for name, value in call.given.items() if value is not None}
    if len(given) != 1:
        raise Unreadable((Fault("$", "must have text or position", "give one of them"),))
    session, input_id = call.session, call.ids["input"]
    async with _missing_said(call):
        if "text" in given:
            await session.edit_input(input_id, given["text"])
        else:
            await session.move_input(input_id, given["position"])
    return await _state(call)


@operation(
    "POST",
    "/v1/sessions/{id}/inputs/{input}/promote",
    status=202,
    raises=(SessionNotFound, InputRefused, NotRunning, StoreDegraded),
)
async def promote_input(call: Call) -> Receipt:
    """Make guidance for the running turn of what waits in the queue."""
    async with _missing_said(call):
        return await call.session.promote_input(call.ids["input"])


@operation(
    "DELETE",
    "/v1/sessions/{id}/inputs/{input}",
    status=204,
    raises=(SessionNotFound, InputRefused, StoreDegraded),
)
async def cancel_input(call: Call) -> None:
    """Cancel an input that still waits."""
    async with _missing_said(call):
        await call.session.cancel_input(call.ids["input"])


@asynccontextmanager
async def _missing_said(call: Call) -> AsyncIterator[None]:
    """Tell an input that is over, which is a conflict, from one that never was."""
    try:
        yield
    except (InputRefused, NotRunning) as refusal:
        try:
            await _state(call)
        except NotThere as missing:
            # In the words of the embedding API, as far as they are about the input.
            raise (NotThere(refusal) if isinstance(refusal, InputRefused) else missing) from None
        raise
