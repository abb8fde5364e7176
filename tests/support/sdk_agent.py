"""An agent written with the official SDK only: performs the action that its prompt names.

A program: `python -P sdk_agent.py`.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from typing import Any

import acp
from acp.interfaces import Client
from acp.schema import (
    AgentCapabilities,
    InitializeResponse,
    NewSessionResponse,
    PermissionOption,
    PromptResponse,
)


class SdkAgent:
    """An ACP agent with one session."""

    _client: Client

    def __init__(self) -> None:
        self._running: asyncio.Task[Any] | None = None

    def on_connect(self, conn: Client) -> None:
        self._client = conn

    async def initialize(self, protocol_version: int, **_: Any) -> InitializeResponse:  # noqa: ANN401 - the SDK's
        return InitializeResponse(
            protocol_version=protocol_version, agent_capabilities=AgentCapabilities()
        )

    async def new_session(self, cwd: str, **_: Any) -> NewSessionResponse:  # noqa: ANN401 - the SDK's
        return NewSessionResponse(session_id="s1")

    async def cancel(self, session_id: str, **_: Any) -> None:  # noqa: ANN401 - the SDK's
        if self._running is not None:
            self._running.cancel()

    async def prompt(self, session_id: str, prompt: list[Any], **_: Any) -> PromptResponse:  # noqa: ANN401 - the SDK's
        actions: dict[str, Callable[[], Awaitable[None]]] = {
            "greet": self._greet,
            "wait": self._wait,
            "fail": self._fail,
            "die": self._die,
            "use a tool": self._use_a_tool,
            "ask": self._ask,
            "flood": self._flood,
        }
        self._running = asyncio.ensure_future(actions[prompt[-1].text]())
        try:
            await self._running
        except asyncio.CancelledError:
            return PromptResponse(stop_reason="cancelled")
        finally:
            self._running = None
        return PromptResponse(stop_reason="end_turn")

    async def _say(self, text: str) -> None:
        await self._client.session_update("s1", acp.update_agent_message_text(text))

    async def _greet(self) -> None:
        await self._say("hello")

    async def _wait(self) -> None:
        await asyncio.sleep(1000.0)

    async def _fail(self) -> None:
        raise acp.RequestError(-32603, "no luck")

    async def _die(self) -> None:
        os._exit(1)

    async def _use_a_tool(self) -> None:
        started = acp.start_tool_call("c1", "bash", status="in_progress")
        await self._client.session_update("s1", started)
        done = [acp.tool_content(acp.text_block("done"))]
        ended = acp.update_tool_call("c1", status="completed", content=done)
        await self._client.session_update("s1", ended)
        await self._say("after")

    async def _ask(self) -> None:
        call: Any = acp.update_tool_call("c1", title="bash")
        options = [
            PermissionOption(option_id="yes", name="Yes", kind="allow_once"),
            PermissionOption(option_id="always", name="Always", kind="allow_always"),
            PermissionOption(option_id="no", name="No", kind="reject_once"),
            PermissionOption(option_id="never", name="Never", kind="reject_always"),
        ]
        answer = await self._client.request_permission("s1", call, options)
        allowed = getattr(answer.outcome, "option_id", None) in ("yes", "always")
        await self._say(f"bash: {'allowed' if allowed else 'rejected'}")

    async def _flood(self) -> None:
        for _ in range(50):
            await self._say("x" * 100)


if __name__ == "__main__":
    agent: Any = SdkAgent()  # it implements only a part of the interface
    asyncio.run(acp.run_agent(agent))
