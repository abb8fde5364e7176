"""MCP servers that the client gives to its sessions, as the supervisor takes them. Pure.

Rule 1: a value of a variable or a header is in no error and in no notice.
Rule 2: a server that cannot be passed on is left out, and the client is told.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import attrs

from supervisor.core.mcp_server_list import OWN_SERVER, check_mcp_servers
from supervisor.drivers.acp.content import as_mapping, as_text
from supervisor.json_rpc.rpc_messages import INVALID_PARAMS, RpcError

_KINDS: Final = ("stdio", "http", "sse")


@attrs.frozen(repr=False)
class ClientServers:
    """The servers of one request.

    `remarks` are sentences about servers that were left out or renamed.
    """

    servers: tuple[Mapping[str, Any], ...] = ()
    remarks: tuple[str, ...] = ()


def client_servers(params: Mapping[str, Any]) -> ClientServers:
    """Return the servers in `mcpServers`; raise `RpcError` or `ConfigError` if they are invalid."""
    given = params.get("mcpServers", [])
    if not isinstance(given, list) or not all(isinstance(one, dict) for one in given):
        raise RpcError(INVALID_PARAMS, "mcpServers must be a list of objects")
    remarks: list[str] = []
    servers = check_mcp_servers(list(_passed_on(given, remarks)))
    return ClientServers(servers, tuple(remarks))


def _passed_on(
    given: Sequence[Mapping[str, Any]], remarks: list[str]
) -> Iterator[Mapping[str, Any]]:
    names = {as_text(server.get("name")) for server in given}
    for server in given:
        plain = {name: value for name, value in as_mapping(server).items() if name != "_meta"}
        kind = plain.get("type", "stdio")
        if kind not in _KINDS:
            remarks.append(f"{plain.get('name')}: servers of the type {kind} cannot be passed on")
            continue
        if plain.get("name") == OWN_SERVER:
            plain["name"] = _free_name(names)
            remarks.append(f"{OWN_SERVER}, the name of our own tools, became {plain['name']}")
        yield plain


def _free_name(names: set[str | None]) -> str:
    number = 2
    while f"{OWN_SERVER}-{number}" in names:
        number += 1
    return f"{OWN_SERVER}-{number}"
