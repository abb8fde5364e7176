"""Short builders of an agent's updates."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import trio

from .driver_context import FakeDriverContext

Update = dict[str, Any]


def text(said: str, **more: object) -> Update:
    content = {"type": "text", "text": said}
    return {"sessionUpdate": "agent_message_chunk", "content": content, **more}


def thought(said: str) -> Update:
    return {**text(said), "sessionUpdate": "agent_thought_chunk"}


def call(call_id: str = "c1", /, **fields: object) -> Update:
    return {"sessionUpdate": "tool_call", "toolCallId": call_id, **fields}


def progress(call_id: str = "c1", /, **fields: object) -> Update:
    return {**call(call_id, **fields), "sessionUpdate": "tool_call_update"}


def spent(**fields: object) -> Update:
    return {"sessionUpdate": "usage_update", **fields}


def block(said: str) -> dict[str, Any]:
    """Return text as content of a tool call."""
    return {"type": "content", "content": {"type": "text", "text": said}}


def terminal(name: str) -> dict[str, Any]:
    return {"type": "terminal", "terminalId": name}


def written(context: FakeDriverContext, kind: str) -> list[Any]:
    """Return the bodies written with this kind."""
    return [body for _, written_kind, body in context.output if written_kind == kind]


class FakeTerminalAccess:
    """A fake of `TerminalAccess`."""

    def __init__(self) -> None:
        self.running: set[str] = set()
        self.cancelled: list[str] = []
        self.on_cancel: Callable[[], None] = lambda: None
        self.output: dict[str, Mapping[str, Any]] = {}

    def is_running(self, terminal_id: str) -> bool:
        return terminal_id in self.running

    async def cancel(self, terminal_id: str) -> None:
        await trio.lowlevel.checkpoint()
        self.running.discard(terminal_id)
        self.cancelled.append(terminal_id)
        self.on_cancel()

    def describe(self, terminal_id: str) -> Mapping[str, Any] | None:
        return self.output.get(terminal_id)
