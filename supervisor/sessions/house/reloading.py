"""Other agents and other settings, while sessions live.

Rule 1: it is one synchronous step: nobody sees half of it.
Rule 2: no session that lives is touched. Its terms and limits are its own since it was made, and
        the agent that it has stays. What comes up later, comes up as the new settings say.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

import attrs

from supervisor.config import Settings
from supervisor.core.errors import ConfigError, shown
from supervisor.core.tree.admission import Caps
from supervisor.drivers.builtin import BUILT_IN
from supervisor.drivers.port import AgentKind

if TYPE_CHECKING:
    from .house import House

# What was decided when the store was opened, and stays so.
_FIXED: Final = frozenset({"snapshot_every"})


@attrs.frozen
class Reloaded:
    """What has changed: agents and settings by name; `fixed` are settings that need a new start."""

    added: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    settings: tuple[str, ...] = ()
    fixed: tuple[str, ...] = ()


def agents_by_name(agents: Iterable[AgentKind]) -> dict[str, AgentKind]:
    """These agents and those that are always there; raises `ConfigError` for what is none."""
    known: dict[str, AgentKind] = {agent.name: agent for agent in BUILT_IN}
    if not isinstance(agents, Iterable):
        raise ConfigError(f"agents is {shown(agents)}", hint="give a list of agents")
    for agent in agents:
        name = getattr(agent, "name", None)
        if not isinstance(name, str) or not hasattr(agent, "make_driver"):
            raise ConfigError(
                f"{shown(agent)} is no agent", hint='decorate it with @supervisor.agent("name")'
            )
        if name in known:
            raise ConfigError(f"two agents are called {shown(name)}", hint="give one another name")
        known[name] = agent
    return known


def reload(
    house: House, *, agents: Iterable[AgentKind] | None, settings: Settings | None
) -> Reloaded:
    """Have these from now on, and leave what is None; raises `ConfigError`, and then nothing is."""
    wanted = house.agents if agents is None else agents_by_name(agents)
    if settings is not None and not isinstance(settings, Settings):
        raise ConfigError(f"settings is {shown(settings)}", hint="give supervisor.Settings(...)")
    said = _difference(house, wanted, settings or house.settings)
    _have_agents(house, wanted)
    if settings is not None:
        _have_settings(house, settings)
    return said


def _have_agents(house: House, agents: Mapping[str, AgentKind]) -> None:
    house.agents = agents
    house.desk.ledger.process_agents = frozenset(
        name for name, kind in agents.items() if kind.runs_process
    )


def _have_settings(house: House, settings: Settings) -> None:
    kept = {name: getattr(house.settings, name) for name in _FIXED}
    settings = attrs.evolve(settings, **kept)
    terms = house.terms_of(settings)
    house.settings = settings
    house.workshop.starting.total_tokens = settings.start_concurrency
    house.workshop.slots.total_tokens = settings.max_agent_processes
    # What these made of the settings when the house was; nobody else has to know that it changes.
    house._usual_terms = terms  # noqa: SLF001 - see above
    house.starts._most = settings.start_concurrency  # noqa: SLF001 - see above
    house.desk._caps = Caps(  # noqa: SLF001 - see above
        settings.max_sessions, settings.max_running_turns, settings.max_agent_processes
    )
    house.desk._call_next()  # noqa: SLF001 - there may be room now for those who wait for a turn


def _difference(house: House, agents: Mapping[str, AgentKind], settings: Settings) -> Reloaded:
    had, changed = house.agents, _changed(house.settings, settings)
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
    """The names of the values that differ, those of values inside with a dot."""
    names = []
    for field in attrs.fields(type(had)):
        old, new = getattr(had, field.name), getattr(has, field.name)
        if attrs.has(type(old)) and type(old) is type(new):
            names += _changed(old, new, f"{above}{field.name}.")
        elif old != new:
            names.append(above + field.name)
    return names
