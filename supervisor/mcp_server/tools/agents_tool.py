"""The tool `agents`: which agents may be spawned, what each can do, and what is left."""

from __future__ import annotations

from typing import Final

import attrs

from supervisor.core.agent_list import ListedAgent
from supervisor.core.state import SessionState
from supervisor.handles.subtree import Allowance
from supervisor.mcp_server.session_tool import (
    Answered,
    SessionTool,
    ToolContext,
    described,
)


@attrs.frozen(kw_only=True)
class AgentsArguments:
    """The arguments of `agents`: none."""


@attrs.frozen(kw_only=True)
class AgentOffer:
    """An agent that may be spawned."""

    name: str
    kind: str = described("python, acp or command")
    is_yours: bool = described("whether your own session has this agent: the default of spawn")
    version: str | None = described("as the agent reported it", None)
    steering: str | None = described(
        "how it takes text in mid-turn: native, boundary or none; known once it has run", None
    )
    cancels_calls: bool | None = described("whether single tool calls can be interrupted", None)
    loads_sessions: bool | None = described("whether it remembers after a restart", None)
    workspace: str | None = described("the folder of its sessions unless one is given", None)


@attrs.frozen(kw_only=True)
class AgentsAnswer:
    """The answer of `agents`."""

    agents: tuple[AgentOffer, ...] = described("the agents that you may spawn")
    left: Allowance = described("what you and the sessions below may still use together")
    depth: int = described("your level in the tree")
    mode: str = described("the permission mode; that of a child is never wider")


async def _run(context: ToolContext, _: AgentsArguments) -> Answered:
    own = (await context.subtree.snapshot(context.subtree.id)).state
    listed = [one for one in await context.sup.agents() if one.installed]
    answer = AgentsAnswer(
        agents=tuple(_offer(one, own) for one in listed),
        left=context.subtree.allowance(own),
        depth=own.lineage.depth,
        mode=str(own.permissions.mode),
    )
    names = ", ".join(one.name for one in answer.agents)
    return answer, f"agents: {names}\nleft: {allowance_text(answer.left)}"


def _offer(listed: ListedAgent, own: SessionState) -> AgentOffer:
    said = listed.capabilities
    return AgentOffer(
        name=listed.name,
        kind=listed.kind,
        is_yours=listed.name == own.agent_name,
        version=listed.version,
        steering=None if said is None else said.steering,
        cancels_calls=None if said is None else said.cancels_calls,
        loads_sessions=None if said is None else said.loads_sessions,
        workspace=listed.workspace,
    )


def allowance_text(left: Allowance) -> str:
    """Return what is left as one line."""
    fields = attrs.asdict(left, filter=lambda _, value: value is not None)
    return ", ".join(f"{value:g} {name.replace('_', ' ')}" for name, value in fields.items())


TOOL: Final = SessionTool(
    name="agents",
    title="List agents",
    description=(
        "List the agents that you can spawn, what each can do, and how many children, descendants,"
        " spawns, turns, tokens and how much cost are left. Call it before you plan to delegate."
    ),
    arguments=AgentsArguments,
    answer=AgentsAnswer,
    run=_run,
    is_read_only=True,
)
