"""Turns that ask for permission."""

from __future__ import annotations

from typing import Any

from actors.testing import settle
from supervisor import (
    PermissionRequest,
    Session,
    Supervisor,
)
from tests.support.fake_agents import AgentAction, AgentRun, FakeAgent


async def ask(run: AgentRun, tool: str = "bash", **more: Any) -> AgentAction[bool]:  # noqa: ANN401
    """Begin a permission request; return when the session has recorded it."""
    action = run.begin(run.turn.ask(f"may I use {tool}?", tool=tool, **more))
    await settle()
    return action


async def only_request(sup: Supervisor) -> PermissionRequest:
    (request,) = await sup.permissions()
    return request


async def begin_turn(session: Session, fake_agent: FakeAgent, text: str = "more") -> AgentRun:
    await session.send(text)
    return await fake_agent.next_run()
