"""The list of agents: what is registered, what the source knows, what agents have reported."""

from __future__ import annotations

import attrs
import trio

from supervisor.core.agent_list import AgentOrigin, ListedAgent, ListedCapabilities
from supervisor.drivers.builtin import BUILT_IN
from supervisor.drivers.command.agent import CommandAgent
from supervisor.drivers.confined import Confined
from supervisor.drivers.port import AgentKind
from supervisor.drivers.python import PythonAgent
from supervisor.drivers.runtime import ReportedAgent
from supervisor.sessions.services import Services

_BUILT_IN_NAMES = frozenset(agent.name for agent in BUILT_IN)


async def list_agents(services: Services) -> tuple[ListedAgent, ...]:
    """Return the registered agents, and those of the source that are not installed."""
    known, source = services.agents(), services.agents.source
    if source is None:
        await trio.lowlevel.checkpoint()
        listed = {}
    else:  # it searches files
        found = await trio.to_thread.run_sync(source.listed, limiter=services.thread_limiter)
        listed = {one.name: one for one in found}
    reported = services.tasks.reported_agents
    named = {name: listed.get(name) or _registered(agent) for name, agent in known.items()}
    defaults = services.agents.defaults
    return tuple(
        _with_report(attrs.evolve(one, workspace=defaults(name).workspace), reported.get(name))
        for name, one in {**named, **listed}.items()
    )


def _registered(agent: AgentKind) -> ListedAgent:
    """Return an agent that only the supervisor knows: it was given to `open()` or `reload()`."""
    inner = agent.agent if isinstance(agent, Confined) else agent
    source: AgentOrigin = "built-in" if agent.name in _BUILT_IN_NAMES else "configured"
    kind = "acp"
    if isinstance(inner, PythonAgent):
        kind = "python"
    elif isinstance(inner, CommandAgent):
        kind = "command"
    return ListedAgent(name=agent.name, kind=kind, source=source)


def _with_report(listed: ListedAgent, reported: ReportedAgent | None) -> ListedAgent:
    if reported is None:
        return listed
    said = reported.capabilities
    return attrs.evolve(
        listed,
        version=reported.version or listed.version,
        capabilities=ListedCapabilities(
            steering=said.steering,
            cancels_calls=said.cancels_calls,
            loads_sessions=said.loads_sessions,
        ),
    )
