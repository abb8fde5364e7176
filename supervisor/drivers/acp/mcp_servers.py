"""MCP servers of an ACP agent: their check, and the values of their variables and headers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from supervisor.core.env_values import EnvValue, FromEnvironment
from supervisor.core.errors import ConfigError, short_repr
from supervisor.drivers.process.environment import check_env_value, resolve


def check_servers(agent: str, servers: object) -> tuple[Mapping[str, Any], ...]:
    """Return the servers with parsed values; raise `ConfigError` if one is not valid."""
    listed = tuple(servers) if isinstance(servers, Iterable) else (None,)
    for server in listed:
        if not isinstance(server, Mapping) or not isinstance(server.get("name"), str):
            raise ConfigError(
                f"an MCP server of agent {short_repr(agent)} is {short_repr(server)}",
                hint='use {"name": ..., "command": ..., "args": [], "env": []} for each',
            )

    def parse(key: str, value: object) -> object:
        return check_env_value(agent, key, value) if isinstance(value, str) else value

    return tuple(_with_values(server, parse) for server in listed)


def resolve_servers(
    servers: Iterable[Mapping[str, Any]], environ: Mapping[str, str]
) -> list[dict[str, Any]]:
    """Return the servers with the values of the variables that they name."""

    def look_up(_: str, value: object) -> object:
        return resolve(value, environ) if isinstance(value, FromEnvironment) else value

    return [_with_values(server, look_up) for server in servers]


def values_of(servers: Iterable[Mapping[str, Any]]) -> Iterator[EnvValue]:
    """Yield the values of all variables and headers."""
    for server in servers:
        for pairs in (server.get("env"), server.get("headers")):
            if isinstance(pairs, Mapping):
                yield from pairs.values()
            elif isinstance(pairs, list):
                yield from (pair["value"] for pair in pairs if _is_pair(pair))


def _with_values(
    server: Mapping[str, Any], change: Callable[[str, object], object]
) -> dict[str, Any]:
    """Return the server with changed values, in a mapping or in pairs as the protocol has them."""
    changed = dict(server)
    for field in ("env", "headers"):
        pairs = server.get(field)
        if isinstance(pairs, Mapping):
            changed[field] = {name: change(name, value) for name, value in pairs.items()}
        elif isinstance(pairs, list | tuple):
            changed[field] = [
                {**pair, "value": change(pair["name"], pair["value"])} if _is_pair(pair) else pair
                for pair in pairs
            ]
    return changed


def _is_pair(value: object) -> bool:
    return isinstance(value, Mapping) and {"name", "value"} <= value.keys()
