"""The tool `agents` of an assistant: the agents, without what a session may still use."""

from __future__ import annotations

from typing import Final

import attrs

from supervisor.core.agent_list import ListedAgent
from supervisor.mcp_server.session_tool import Answered, SessionTool, ToolContext, described


@attrs.frozen(kw_only=True)
class AgentsArguments:
    """The arguments of `agents`: none."""


@attrs.frozen(kw_only=True)
class AgentOffer:
    """An agent of which sessions can be created."""

    name: str
    kind: str = described("python, acp or command")
    is_installed: bool
    version: str | None = described("as the agent reported it", None)
    workspace: str | None = described("the folder of its sessions unless one is given", None)


@attrs.frozen(kw_only=True)
class AgentsAnswer:
    """The agents."""

    agents: tuple[AgentOffer, ...] = described("the agents that are configured")


async def _run(context: ToolContext, _: AgentsArguments) -> Answered:
    answer = AgentsAnswer(agents=tuple([_offer(one) for one in await context.sup.agents()]))
    return answer, f"agents: {', '.join(one.name for one in answer.agents)}"


def _offer(listed: ListedAgent) -> AgentOffer:
    return AgentOffer(
        name=listed.name,
        kind=listed.kind,
        is_installed=listed.installed,
        version=listed.version,
        workspace=listed.workspace,
    )


TOOL: Final = SessionTool(
    name="agents",
    title="List agents",
    description="List the agents of which sessions can be created.",
    arguments=AgentsArguments,
    answer=AgentsAnswer,
    run=_run,
    is_read_only=True,
)
