"""What we offer an agent, and what it offers us.

Rule 1: nothing is offered that the session's rights would refuse anyway.
Rule 2: what an agent does not say that it can do, it is not asked to do. What it says wrongly, it
        does not say.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from importlib.metadata import version
from typing import Any, Final, Self

import attrs

from supervisor.core.permissions import DEFAULT_MODE
from supervisor.drivers.acp.reading import (
    as_list,
    as_mapping,
    as_name,
    as_text,
    as_whole,
    is_offered,
)
from supervisor.drivers.acp.services.ground import Ground
from supervisor.drivers.port import Office

PROTOCOL_VERSION: Final = 1
MAX_AUTH_METHODS: Final = 20
_TEXT_LETTERS: Final = 1000


# Ours -------------------------------------------------------------------------------------


def initialize_params(office: Office) -> dict[str, Any]:
    """What `initialize` says: which version we speak, who we are, and what we can do."""
    return {
        "protocolVersion": PROTOCOL_VERSION,
        "clientInfo": {
            "name": "understudy",
            "title": "Understudy",
            "version": version("understudy"),
        },
        "clientCapabilities": client_capabilities(office),
    }


def client_capabilities(office: Office) -> dict[str, Any]:
    """What the session may have done for it; files and terminals only where it has a workspace."""
    rights = office.permissions
    closed = Ground.of(office) is None or (rights.mode or DEFAULT_MODE) == "deny_all"
    may = {kind: not closed and rights.allows("tools", kind) for kind in _KINDS}
    return {
        "fs": {"readTextFile": may["read"], "writeTextFile": may["edit"]},
        "terminal": may["execute"],
        "session": {"configOptions": {"boolean": {}}},
    }


_KINDS: Final = ("read", "edit", "execute")


def session_params(
    office: Office, offers: AgentOffers, *, cwd: str, mcp_servers: Iterable[Mapping[str, Any]]
) -> dict[str, Any]:
    """What `session/new` says; `/load` and `/resume` say the agent's own session id besides.

    `mcp_servers` are as the protocol has them, but `args`, `env` and `headers` may be left out or
    be mappings. Those that the session has no right to, or the agent no way to, are left out.
    """
    may = _permitted(office, mcp_servers)
    return {"cwd": cwd, "mcpServers": [server for server in may if offers.takes(server)]}


def out_of_reach(
    office: Office, offers: AgentOffers, mcp_servers: Iterable[Mapping[str, Any]]
) -> list[str]:
    """The names of the servers that the session has a right to, and the agent no way to."""
    return [one["name"] for one in _permitted(office, mcp_servers) if not offers.takes(one)]


def _permitted(office: Office, given: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    servers = map(_server, given)
    return [one for one in servers if office.permissions.allows("mcp_servers", one["name"])]


def _server(given: Mapping[str, Any]) -> dict[str, Any]:
    """One server, with the fields that the protocol has for it and no others."""
    name = str(given.get("name", ""))
    if "url" in given:
        kind = given.get("type", "http")
        headers = _pairs(given.get("headers"))
        return {"type": kind, "name": name, "url": str(given["url"]), "headers": headers}
    args = [str(word) for word in given.get("args") or ()]
    command = str(given.get("command", ""))
    return {"name": name, "command": command, "args": args, "env": _pairs(given.get("env"))}


def _pairs(given: object) -> list[Any]:
    if isinstance(given, Mapping):
        return [{"name": name, "value": value} for name, value in given.items()]
    return list(given) if isinstance(given, Sequence) and not isinstance(given, str) else []


# Theirs -----------------------------------------------------------------------------------


@attrs.frozen
class AuthMethod:
    """A way to say who we are."""

    id: str
    name: str
    description: str | None = None


@attrs.frozen(kw_only=True)
class AgentOffers:
    """What an agent answered to `initialize`; all that it did not say is as if it cannot."""

    protocol_version: int | None = None
    name: str | None = None
    version: str | None = None
    auth_methods: tuple[AuthMethod, ...] = ()
    loads: bool = False
    resumes: bool = False
    closes: bool = False
    # Whether text can be given to a turn that runs, by `_session/steering`.
    steers: bool = False
    images: bool = False
    audio: bool = False
    embedded_context: bool = False
    mcp_http: bool = False
    mcp_sse: bool = False

    @classmethod
    def parse(cls, answer: object) -> Self:
        """What is in the answer."""
        given = as_mapping(answer)
        can = as_mapping(given.get("agentCapabilities"))
        session = as_mapping(can.get("sessionCapabilities"))
        prompt = as_mapping(can.get("promptCapabilities"))
        mcp = as_mapping(can.get("mcpCapabilities"))
        who = as_mapping(given.get("agentInfo"))
        steering = as_mapping(as_mapping(given.get("_meta")).get("steering"))
        return cls(
            protocol_version=as_whole(given.get("protocolVersion")),
            name=as_name(who.get("name")),
            version=as_name(who.get("version")),
            auth_methods=_auth_methods(given.get("authMethods")),
            loads=can.get("loadSession") is True,
            resumes=is_offered(session.get("resume")),
            closes=is_offered(session.get("close")),
            steers=steering.get("supported") is True,
            images=prompt.get("image") is True,
            audio=prompt.get("audio") is True,
            embedded_context=prompt.get("embeddedContext") is True,
            mcp_http=mcp.get("http") is True,
            mcp_sse=mcp.get("sse") is True,
        )

    @property
    def is_understood(self) -> bool:
        """Whether it speaks the version that we do."""
        return self.protocol_version == PROTOCOL_VERSION

    def takes(self, server: Mapping[str, Any]) -> bool:
        """Whether it can reach an MCP server of that sort; all can start one themselves."""
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
            found.append(AuthMethod(method_id, name, description and description[:_TEXT_LETTERS]))
    return tuple(found)
