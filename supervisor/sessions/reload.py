"""Reload: replace agents and settings while sessions run.

Rule 1: a reload is one synchronous step, so that no task sees half of it.
Rule 2: a running session is not changed. It keeps the terms and limits that it was created with,
        and its running agent. Agents that start later use the new settings.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

import attrs

from supervisor.config import Settings
from supervisor.core.errors import ConfigError, short_repr
from supervisor.core.tree.admission import Caps
from supervisor.drivers.builtin import BUILT_IN
from supervisor.drivers.port import AgentKind

from .admission import Admission
from .maintenance_reports import Reloaded
from .services import Services, process_agents

# Settings that the store reads when it is opened.
_FIXED: Final = frozenset({"snapshot_every"})


def agents_by_name(agents: Iterable[AgentKind]) -> dict[str, AgentKind]:
    """Return the agents and the built-in agents by name; raise ConfigError for an invalid agent."""
    known: dict[str, AgentKind] = {agent.name: agent for agent in BUILT_IN}
    if not isinstance(agents, Iterable):
        raise ConfigError(
            f"agents is not a list: {short_repr(agents)}", hint="pass a list of agents"
        )
    for agent in agents:
        name = getattr(agent, "name", None)
        if not isinstance(name, str) or not hasattr(agent, "make_driver"):
            raise ConfigError(
                f"{short_repr(agent)} is not an agent",
                hint='decorate it with @supervisor.agent("name")',
            )
        if name in known:
            raise ConfigError(
                f"two agents are called {short_repr(name)}", hint="rename one of them"
            )
        known[name] = agent
    return known


def reload(
    services: Services,
    admission: Admission,
    *,
    agents: Iterable[AgentKind] | None,
    settings: Settings | None,
) -> Reloaded:
    """Replace agents and settings; None keeps the current ones.

    Raise ConfigError for an invalid value; then nothing has changed.
    """
    wanted = services.agents()
    if agents is not None:
        wanted = services.agents.completed(agents_by_name(agents))
    if settings is not None and not isinstance(settings, Settings):
        raise ConfigError(
            f"settings is {short_repr(settings)}", hint="pass supervisor.Settings(...)"
        )
    changes = _difference(services, wanted, settings or services.settings())
    services.agents.replace(wanted)
    if settings is not None:
        services.settings.replace(_keep_fixed(services.settings(), settings))
    new = services.settings()
    services.tasks.set_limits(
        max_agent_processes=new.max_agent_processes, start_concurrency=new.start_concurrency
    )
    services.start_limiter.set_limit(new.start_concurrency)
    services.output_budget.set_limit(new.max_pending_output_bytes)
    services.tasks.line_budget.set_limit(new.max_pending_output_bytes)
    # Last: it wakes sessions that may get a turn slot now.
    caps = Caps(new.max_sessions, new.max_running_turns, new.max_agent_processes)
    admission.set_caps(caps, process_agents(wanted))
    return changes


def _keep_fixed(had: Settings, settings: Settings) -> Settings:
    return attrs.evolve(settings, **{name: getattr(had, name) for name in _FIXED})


def _difference(
    services: Services, agents: Mapping[str, AgentKind], settings: Settings
) -> Reloaded:
    had, changed = services.agents(), _changed(services.settings(), settings)
    return Reloaded(
        added=tuple(sorted(agents.keys() - had.keys())),
        changed=tuple(
            sorted(name for name in agents.keys() & had.keys() if agents[name] != had[name])
        ),
        removed=tuple(sorted(had.keys() - agents.keys())),
        settings=tuple(name for name in changed if name not in _FIXED),
        fixed=tuple(name for name in changed if name in _FIXED),
    )


def _changed(had: Any, has: Any, above: str = "") -> list[str]:  # noqa: ANN401 - an attrs class
    """Return the names of the fields that differ; nested names are joined by dots."""
    names = []
    for field in attrs.fields(type(had)):
        old, new = getattr(had, field.name), getattr(has, field.name)
        if attrs.has(type(old)) and type(old) is type(new):
            names += _changed(old, new, f"{above}{field.name}.")
        elif old != new:
            names.append(above + field.name)
    return names
