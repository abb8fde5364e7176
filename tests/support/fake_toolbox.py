"""Tools without sessions, for tests of the protocol."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs
import trio

from supervisor.mcp_server.caller import Caller
from supervisor.mcp_server.tool import ToolAnswer, ToolDescription

INSTRUCTIONS = "Repeat what you are told."


def described(name: str, **properties: object) -> ToolDescription:
    """A tool that returns its arguments in `echo`."""
    return ToolDescription(
        name=name,
        title=name.replace("_", " ").capitalize(),
        description=f"Run {name}",
        input_schema={
            "type": "object",
            "properties": properties,
            "additionalProperties": False,
        },
        output_schema={
            "type": "object",
            "properties": {"echo": {"$ref": "#/$defs/Echo"}},
            "required": ["echo"],
            "additionalProperties": False,
            "$defs": {"Echo": {"type": "object"}},
        },
        annotations={"readOnlyHint": True},
    )


@attrs.define
class FakeToolbox:
    """`echo` answers, `refuse` refuses, `wait` waits until `news`, `break` has a bug."""

    calls: list[tuple[str, Mapping[str, Any], Caller]] = attrs.field(factory=list)
    news: trio.Event = attrs.field(factory=trio.Event)
    waiting: trio.Event = attrs.field(factory=trio.Event)
    cancelled: trio.Event = attrs.field(factory=trio.Event)

    def tools_for(self, caller: Caller) -> tuple[ToolDescription, ...]:
        names = ["echo", "refuse", "wait", "break"] if caller.scope == "all" else ["echo"]
        return tuple(described(name, text={"type": "string"}) for name in names)

    def instructions_for(self, caller: Caller) -> str:
        return INSTRUCTIONS

    async def call(self, name: str, arguments: Mapping[str, Any], caller: Caller) -> ToolAnswer:
        await trio.lowlevel.checkpoint()
        if name not in {one.name for one in self.tools_for(caller)}:
            raise KeyError(name)
        self.calls.append((name, arguments, caller))
        match name:
            case "refuse":
                return ToolAnswer(
                    structured={
                        "code": "spawn_refused",
                        "detail": "no child is left",
                        "hint": "stop one",
                        "retry": "later",
                    },
                    text="no child is left; stop one",
                    is_error=True,
                )
            case "wait":
                await self._wait()
            case "break":
                raise KeyError("a bug")
        text = str(arguments.get("text", "nothing"))
        return ToolAnswer(structured={"echo": dict(arguments)}, text=f"echo: {text}")

    async def _wait(self) -> None:
        self.waiting.set()
        try:
            await self.news.wait()
        except trio.Cancelled:
            self.cancelled.set()
            raise
