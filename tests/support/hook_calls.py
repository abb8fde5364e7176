"""Questions and news as sessions would put them, and callbacks that do one thing."""
# ruff: noqa: ANN401 - the fields of a point have every type

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

import trio

from supervisor.core.ids import SessionId, TurnId
from supervisor.core.limits import Limits
from supervisor.core.permissions import Permissions
from supervisor.drivers.runtime import DriverRuntime
from supervisor.sessions.hooks import BlockingPoint, HookEvent, Hooks, ObservedPoint

SESSION: Final = SessionId("s_1")
TURN: Final = TurnId("turn_1")

DATA: Final[Mapping[BlockingPoint, Mapping[str, Any]]] = {
    "session_create": {
        "agent": "coder",
        "key": None,
        "name": None,
        "title": "hello",
        "tags": (),
        "custom": {},
        "workspace": None,
        "limits": Limits(),
        "permissions": Permissions(mode="approve_reads"),
    },
    "session_resume": {"agent": "coder", "reason": "user_cancelled"},
    "input_submitted": {
        "input_id": "in_1",
        "text": "hello",
        "attachments": (),
        "when_busy": "queue",
        "source": "user",
        "ttl_seconds": None,
    },
    "turn_start": {"input_id": "in_1", "text": "hello", "source": "user"},
    "prompt_assembled": {"input_id": "in_1", "text": "hello", "attachments": ()},
    "tool_before": {"call_id": "call_1", "name": "bash", "input": {"cmd": ["ls"]}},
    "permission": {
        "request_id": "req_1",
        "tool": "bash",
        "question": "may I?",
        "kind": None,
        "input": None,
        "options": ("allow_once", "reject_once"),
    },
    "spawn_before": {
        "agent": "tester",
        "text": "go",
        "name": None,
        "role": "worker",
        "lifetime": "with_parent",
        "on_end": "tell",
        "ttl_seconds": 60.0,
        "permissions": Permissions(tools=["bash", "read"], mode="approve_reads"),
    },
}


async def ask(
    hooks: Hooks, point: BlockingPoint = "prompt_assembled", **data: Any
) -> Mapping[str, Any]:
    return await hooks.ask(point, session_id=SESSION, turn_id=TURN, **{**DATA[point], **data})


def notify(hooks: Hooks, text: str = "", *, point: ObservedPoint = "turn_end") -> None:
    data: dict[str, Any] = {"outcome": "completed"}
    if point == "turn_end":
        data |= {"stop_reason": None, "text": text, "error": None}
    else:
        assert point == "tool_after"
        data |= {"call_id": "call_1", "name": "bash", "result": text}
    hooks.notify(point, session_id=SESSION, turn_id=TURN, **data)


def saying(word: str, said: list[str]) -> Callable[[HookEvent], None]:
    """Return a callback that only records its word."""
    return lambda _: said.append(word)


async def hang(_: HookEvent) -> None:
    await trio.sleep_forever()


def shielded(runtime: DriverRuntime) -> Callable[[HookEvent], Awaitable[None]]:
    """Return a callback that ignores cancellation until the test is over."""

    async def shielded(_: HookEvent) -> None:
        with trio.CancelScope(shield=True):
            await runtime.shutdown_started.wait()

    return shielded
