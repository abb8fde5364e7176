"""A configuration as plain data, as `understudy config` prints it; it can be loaded again.

Secrets are redacted unless requested. A redacted value is refused when it is loaded, so that no
agent starts with it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any, Literal

import attrs

from supervisor.core.env_values import EnvValue, FromEnvironment, format_env_value
from supervisor.core.redaction import redact_value

from .agent_table import AgentMcpServer, AgentTable
from .loader import ORIGINS, Configuration
from .sources import DEFAULT, KeyPath, Origin, dotted


def to_plain(
    configuration: Configuration, *, secrets: Literal["covered", "kept"] = "covered"
) -> dict[str, Any]:
    """Return the three tables and the origins of their values.

    A JSON file with this data loads as the same configuration.
    """
    tables = {
        "settings": _tables(configuration.settings),
        "daemon": _tables(configuration.daemon),
        "agents": {agent.name: _agent(agent) for agent in configuration.agents},
    }
    if secrets == "covered":
        tables["agents"] = redact_value(tables["agents"])
    origins = {path: str(origin) for path, _, origin in _values(configuration, tables)}
    return {**tables, ORIGINS: origins}


def values(configuration: Configuration) -> list[tuple[str, Any, Origin]]:
    """Return every value in order, with path and origin; secrets are redacted."""
    tables = to_plain(configuration)
    del tables[ORIGINS]
    return list(_values(configuration, tables))


def _values(
    configuration: Configuration, tables: Mapping[str, Any]
) -> Iterator[tuple[str, Any, Origin]]:
    for path, value in _leaves(tables):
        yield dotted(path), value, _origin(configuration, path)


def _leaves(tables: Mapping[str, Any]) -> Iterator[tuple[KeyPath, Any]]:
    for name, value in tables.items():
        if isinstance(value, Mapping) and set(value) != {"from"}:
            for path, inside in _leaves(value):
                yield (name, *path), inside
        else:
            yield (name,), value


def _origin(configuration: Configuration, path: KeyPath) -> Origin:
    known = configuration.origins.get(dotted(path))
    if known is None and path[0] == "agents" and path[2] == "limits":
        # A limit that the agent does not set is that of the settings.
        known = configuration.origins.get(dotted(("settings", *path[2:])))
    return known if known is not None else DEFAULT


def _tables(part: attrs.AttrsInstance) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for field in attrs.fields(type(part)):
        value = getattr(part, field.name)
        found[field.name] = _tables(value) if attrs.has(type(value)) else _plain_value(value)
    return found


def _agent(agent: AgentTable) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for field in attrs.fields(AgentTable):
        value = getattr(agent, field.name)
        if field.name == "name" or value is None or value in ((), {}):
            continue
        match field.name:
            case "env":
                found["env"] = _secrets(value)
            case "mcp_servers":
                found["mcp_servers"] = {server.name: _server(server) for server in value}
            case "permissions":
                given = _tables(value)
                found["permissions"] = {name: one for name, one in given.items() if one is not None}
            case "limits":
                found["limits"] = _tables(value)
            case "options":
                found["options"] = dict(value)
            case _:
                found[field.name] = _plain_value(value)
    return found


def _server(server: AgentMcpServer) -> dict[str, Any]:
    if server.url is None:
        return {"command": list(server.command), "env": _secrets(server.env)}
    return {
        "url": server.url,
        "transport": server.transport,
        "headers": _secrets(server.headers),
    }


def _secrets(given: Mapping[str, EnvValue]) -> dict[str, Any]:
    return {
        name: {"from": value.variable}
        if isinstance(value, FromEnvironment)
        else format_env_value(value)
        for name, value in given.items()
    }


def _plain_value(value: object) -> object:
    if isinstance(value, float) and math.isinf(value):
        return "inf"  # JSON has no infinity
    if isinstance(value, frozenset):
        return sorted(value)
    return list(value) if isinstance(value, tuple) else value
