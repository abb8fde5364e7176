"""Capabilities of client and agent, and the agent's status: modes, options, commands, context.

Rule 1: the client does not announce what the session's permissions would refuse.
Rule 2: a capability that the agent does not announce, or announces in a wrong form, is absent.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from importlib.metadata import version
from typing import Any, Final, Self

import attrs

from supervisor.core.permissions import DEFAULT_MODE
from supervisor.core.state import ContextUse
from supervisor.drivers.port import DriverContext

from .content import as_integer, as_list, as_mapping, as_name, as_text, bounded_data, has_capability
from .workspace import Workspace

PROTOCOL_VERSION: Final = 1

MAX_AUTH_METHODS: Final = 20

_MAX_DESCRIPTION_LETTERS: Final = 1000


# The client's -----------------------------------------------------------------------------


def initialize_params(context: DriverContext, *, has_subagents: bool = False) -> dict[str, Any]:
    """Return the params of `initialize`: protocol version, client name and capabilities."""
    return {
        "protocolVersion": PROTOCOL_VERSION,
        "clientInfo": {
            "name": "understudy",
            "title": "Understudy",
            "version": version("understudy"),
        },
        "clientCapabilities": {
            **client_capabilities(context),
            **({"subagents": {}} if has_subagents else {}),
        },
    }


def client_capabilities(context: DriverContext) -> dict[str, Any]:
    """Return the client's capabilities; files and terminals only if there is a workspace."""
    permissions = context.permissions
    closed = Workspace.of(context) is None or (permissions.mode or DEFAULT_MODE) == "deny_all"
    allowed = {kind: not closed and permissions.allows("tools", kind) for kind in _TOOL_KINDS}
    return {
        "fs": {"readTextFile": allowed["read"], "writeTextFile": allowed["edit"]},
        "terminal": allowed["execute"],
        "session": {"configOptions": {"boolean": {}}, "notices": {}, "compaction": {}},
    }


_TOOL_KINDS: Final = ("read", "edit", "execute")


def session_params(
    context: DriverContext,
    capabilities: AgentCapabilities,
    *,
    cwd: str,
    mcp_servers: Iterable[Mapping[str, Any]],
) -> dict[str, Any]:
    """Return the params of `session/new`; `/load` and `/resume` add the agent's session id.

    `mcp_servers` are as in the protocol, but `args`, `env` and `headers` are optional and may be
    mappings. Servers that the session is not permitted or the agent does not support are left out.
    """
    permitted = _permitted_servers(context, mcp_servers)
    servers = [server for server in permitted if capabilities.supports_server(server)]
    return {"cwd": cwd, "mcpServers": servers}


def unsupported_servers(
    context: DriverContext,
    capabilities: AgentCapabilities,
    mcp_servers: Iterable[Mapping[str, Any]],
) -> list[str]:
    """Return the names of permitted servers that the agent does not support."""
    return [
        server["name"]
        for server in _permitted_servers(context, mcp_servers)
        if not capabilities.supports_server(server)
    ]


def _permitted_servers(
    context: DriverContext, mcp_servers: Iterable[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    servers = map(_normalized_server, mcp_servers)
    return [
        server for server in servers if context.permissions.allows("mcp_servers", server["name"])
    ]


def _normalized_server(server: Mapping[str, Any]) -> dict[str, Any]:
    """Return one server with exactly the fields of the protocol."""
    name = str(server.get("name", ""))
    if "url" in server:
        kind = server.get("type", "http")
        headers = _name_value_pairs(server.get("headers"))
        return {"type": kind, "name": name, "url": str(server["url"]), "headers": headers}
    args = [str(word) for word in server.get("args") or ()]
    command = str(server.get("command", ""))
    return {
        "name": name,
        "command": command,
        "args": args,
        "env": _name_value_pairs(server.get("env")),
    }


def _name_value_pairs(value: object) -> list[Any]:
    if isinstance(value, Mapping):
        return [{"name": name, "value": text} for name, text in value.items()]
    return list(value) if isinstance(value, Sequence) and not isinstance(value, str) else []


# The agent's ------------------------------------------------------------------------------


@attrs.frozen
class AuthMethod:
    """An authentication method that the agent offers."""

    id: str
    name: str
    description: str | None = None


@attrs.frozen(kw_only=True)
class AgentCapabilities:
    """Capabilities from the agent's answer to `initialize`; a missing capability is False."""

    protocol_version: int | None = None
    name: str | None = None
    version: str | None = None
    auth_methods: tuple[AuthMethod, ...] = ()
    can_load: bool = False
    can_resume: bool = False
    can_close: bool = False
    # Whether the agent takes steering in a running turn, by `_session/steering`.
    can_steer: bool = False
    takes_images: bool = False
    takes_audio: bool = False
    takes_embedded_context: bool = False
    mcp_http: bool = False
    mcp_sse: bool = False

    @classmethod
    def parse(cls, answer: object) -> Self:
        """Return the capabilities in the answer, whatever its shape."""
        fields = as_mapping(answer)
        agent = as_mapping(fields.get("agentCapabilities"))
        session = as_mapping(agent.get("sessionCapabilities"))
        prompt = as_mapping(agent.get("promptCapabilities"))
        mcp = as_mapping(agent.get("mcpCapabilities"))
        info = as_mapping(fields.get("agentInfo"))
        steering = as_mapping(as_mapping(fields.get("_meta")).get("steering"))
        return cls(
            protocol_version=as_integer(fields.get("protocolVersion")),
            name=as_name(info.get("name")),
            version=as_name(info.get("version")),
            auth_methods=_auth_methods(fields.get("authMethods")),
            can_load=agent.get("loadSession") is True,
            can_resume=has_capability(session.get("resume")),
            can_close=has_capability(session.get("close")),
            can_steer=steering.get("supported") is True,
            takes_images=prompt.get("image") is True,
            takes_audio=prompt.get("audio") is True,
            takes_embedded_context=prompt.get("embeddedContext") is True,
            mcp_http=mcp.get("http") is True,
            mcp_sse=mcp.get("sse") is True,
        )

    @property
    def is_supported_version(self) -> bool:
        """True if the agent speaks `PROTOCOL_VERSION`."""
        return self.protocol_version == PROTOCOL_VERSION

    def supports_server(self, server: Mapping[str, Any]) -> bool:
        """Return True if the agent can use an MCP server of this type; all agents support stdio."""
        match server.get("type", "stdio"):
            case "stdio":
                return True
            case "http":
                return self.mcp_http
            case "sse":
                return self.mcp_sse
            case _:
                return False


def _auth_methods(offered: object) -> tuple[AuthMethod, ...]:
    found: list[AuthMethod] = []
    for item in as_list(offered)[:MAX_AUTH_METHODS]:
        method = as_mapping(item)
        method_id = as_name(method.get("id"))
        if method_id is not None:
            description = as_text(method.get("description"))
            name = as_name(method.get("name")) or method_id
            found.append(
                AuthMethod(method_id, name, description and description[:_MAX_DESCRIPTION_LETTERS])
            )
    return tuple(found)


MAX_STATUS_BYTES: Final = 65536

MAX_TITLE_LETTERS: Final = 300
# The updates that change `AgentStatus`.
STATUS_UPDATES: Final = frozenset(
    {
        "available_commands_update",
        "current_mode_update",
        "config_option_update",
        "session_info_update",
        "usage_update",
    }
)


@attrs.frozen
class AgentStatus:
    """The agent's modes, options, commands, title and context use; its lists are bounded."""

    mode: str | None = None
    modes: tuple[Mapping[str, Any], ...] = ()
    config_options: tuple[Mapping[str, Any], ...] = ()
    commands: tuple[Mapping[str, Any], ...] = ()
    title: str | None = None
    context: ContextUse | None = None

    def with_session_result(self, answer: object) -> Self:
        """Return the status changed by the result of `session/new`, `/load` or `/resume`."""
        fields = as_mapping(answer)
        modes = as_mapping(fields.get("modes"))
        return attrs.evolve(
            self,
            mode=as_name(modes.get("currentModeId")) or self.mode,
            modes=_bounded_objects(modes.get("availableModes")) or self.modes,
            config_options=_bounded_objects(fields.get("configOptions")) or self.config_options,
        )

    def with_update(self, update: object) -> Self:
        """Return the status changed by an update; fields that the update lacks keep their value."""
        fields = as_mapping(update)
        match fields.get("sessionUpdate"):
            case "current_mode_update":
                mode = as_name(fields.get("currentModeId"))
                return self if mode is None else attrs.evolve(self, mode=mode)
            case "config_option_update":
                return attrs.evolve(
                    self, config_options=_bounded_objects(fields.get("configOptions"))
                )
            case "available_commands_update":
                return attrs.evolve(
                    self, commands=_bounded_objects(fields.get("availableCommands"))
                )
            case "session_info_update" if "title" in fields:
                title = as_text(fields["title"])
                return attrs.evolve(self, title=title and title[:MAX_TITLE_LETTERS])
            case "usage_update":
                return attrs.evolve(self, context=_context_use(fields) or self.context)
        return self


def _context_use(fields: Mapping[str, Any]) -> ContextUse | None:
    used = as_integer(fields.get("used"))
    # Some agents do not know the size of their window, and say 0.
    return None if used is None else ContextUse(used, as_integer(fields.get("size")) or None)


def _bounded_objects(value: object) -> tuple[Mapping[str, Any], ...]:
    bounded = bounded_data(
        [item for item in as_list(value) if isinstance(item, dict)], MAX_STATUS_BYTES
    )
    return tuple(item for item in bounded if isinstance(item, dict))
