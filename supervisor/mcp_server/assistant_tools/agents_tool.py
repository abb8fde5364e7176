"""The tool `agents` of an assistant: the agents, without what a session may still use."""

from __future__ import annotations

from typing import Final

import attrs

from supervisor.core.agent_list import ListedAgent
from supervisor.mcp_server.session_tool import Answered, SessionTool, ToolContext, described


@attrs.frozen(kw_only=True)
class AllAgentsArguments:
    """The arguments of `agents`: none."""


@attrs.frozen(kw_only=True)
class ConfiguredAgent:
    """An agent of which sessions can be created."""

    name: str
    kind: str = described("python, acp or command")
    is_installed: bool
    version: str | None = described("as the agent reported it", None)
    workspace: str | None = described("the folder of its sessions unless one is given", None)


@attrs.frozen(kw_only=True)
class AllAgentsAnswer:
    """The agents."""

    agents: tuple[ConfiguredAgent, ...] = described("the agents that are configured")


async def _run(context: ToolContext, _: AllAgentsArguments) -> Answered:
    answer = AllAgentsAnswer(agents=tuple([_offer(one) for one in await context.sup.agents()]))
    return answer, f"agents: {', '.join(one.name for one in answer.agents)}"


def _offer(listed: ListedAgent) -> ConfiguredAgent:
    return ConfiguredAgent(
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
    arguments=AllAgentsArguments,
    answer=AllAgentsAnswer,
    run=_run,
    is_read_only=True,
)
