"""An agent written with the official SDK, and nothing of ours: says each word of the prompt back.

A program: `python -P echo_agent.py`.
"""

from __future__ import annotations

import asyncio
from typing import Any

import acp
from acp.interfaces import Client
from acp.schema import AgentCapabilities, InitializeResponse, NewSessionResponse, PromptResponse


class EchoAgent:
    """An agent with one session, under any id."""

    _client: Client

    def on_connect(self, conn: Client) -> None:
        self._client = conn

    async def initialize(self, protocol_version: int, **_: Any) -> InitializeResponse:  # noqa: ANN401 - the SDK's
        return InitializeResponse(
            protocol_version=protocol_version, agent_capabilities=AgentCapabilities()
        )

    async def new_session(self, cwd: str, **_: Any) -> NewSessionResponse:  # noqa: ANN401 - the SDK's
        return NewSessionResponse(session_id="s1")

    async def prompt(self, session_id: str, prompt: list[Any], **_: Any) -> PromptResponse:  # noqa: ANN401 - the SDK's
        for block in prompt:
            for word in getattr(block, "text", "").split():
                await self._client.session_update(session_id, acp.update_agent_message_text(word))
        return PromptResponse(stop_reason="end_turn")

    async def cancel(self, session_id: str, **_: Any) -> None:  # noqa: ANN401 - the SDK's
        """Do nothing: a prompt is answered at once."""


if __name__ == "__main__":
    agent: Any = EchoAgent()  # implements only a part of the SDK's Agent
    asyncio.run(acp.run_agent(agent))
