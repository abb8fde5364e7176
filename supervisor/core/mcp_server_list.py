"""MCP servers that a caller gives to a session: their check.

Rule 1: a value of a variable or a header is in no error: it may be a secret.
Rule 2: a checked server has exactly the fields of the Agent Client Protocol.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from .errors import ConfigError, short_repr
from .validation import check_name, encoded_size

# The name of our own server, which no other may have.
OWN_SERVER: Final = "understudy"
MAX_SERVERS: Final = 32
MAX_SERVERS_BYTES: Final = 65_536

_HINT: Final = (
    'give {"name": ..., "command": ..., "args": [...], "env": [{"name": ..., "value": ...}]},'
    ' or "type" ("http" or "sse"), "url" and "headers" for a server on the network'
)


def check_mcp_servers(servers: object) -> tuple[dict[str, Any], ...]:
    """Return the servers as in the protocol; raise `ConfigError` if one is not valid."""
    if isinstance(servers, str | bytes | Mapping) or not isinstance(servers, Iterable):
        raise ConfigError("mcp_servers is not a list", hint=_HINT)
    checked = tuple(_checked(server) for server in servers)
    if len(checked) > MAX_SERVERS:
        raise ConfigError(
            f"mcp_servers has {len(checked)} servers", hint=f"give at most {MAX_SERVERS}"
        )
    names = [server["name"] for server in checked]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise ConfigError(f"two MCP servers are named {short_repr(twice)}", hint="rename one")
    size = size_of(checked)
    if size > MAX_SERVERS_BYTES:
        raise ConfigError(
            f"mcp_servers have {size} bytes of {MAX_SERVERS_BYTES} allowed",
            hint="they are kept in memory; give fewer or shorter ones",
        )
    return checked


def size_of(servers: Iterable[Mapping[str, Any]]) -> int:
    """Return the size of the texts of checked servers, in bytes."""
    return sum(len(text.encode()) for server in servers for text in _texts(server))


def _texts(value: object) -> Iterable[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from _texts(item)
    elif isinstance(value, list):
        for item in value:
            yield from _texts(item)


def _checked(server: object) -> dict[str, Any]:
    if not isinstance(server, Mapping):
        raise ConfigError("an MCP server is not an object", hint=_HINT)
    name = check_name("the name of an MCP server", server.get("name"))
    if name == OWN_SERVER:
        raise ConfigError(
            f"an MCP server is named {OWN_SERVER!r}",
            hint="rename it: the tools of the session have this name",
        )
    if "url" in server:
        kind = server.get("type", "http")
        if kind not in ("http", "sse"):
            raise _invalid(name, "type")
        return {
            "type": kind,
            "name": name,
            "url": _text(server["url"], name, "url"),
            "headers": _pairs(server, name, "headers"),
        }
    if server.get("type", "stdio") != "stdio":
        raise _invalid(name, "type")
    words = server.get("args") or []
    if not isinstance(words, list | tuple):
        raise _invalid(name, "args")
    return {
        "name": name,
        "command": _text(server.get("command"), name, "command"),
        "args": [_text(word, name, "args", may_be_empty=True) for word in words],
        "env": _pairs(server, name, "env"),
    }


def _pairs(server: Mapping[str, Any], name: str, field: str) -> list[dict[str, str]]:
    """Return variables or headers as pairs, which may be given as a mapping."""
    given = server.get(field) or []
    if isinstance(given, Mapping):
        given = [{"name": key, "value": value} for key, value in given.items()]
    if not isinstance(given, list | tuple) or not all(isinstance(pair, Mapping) for pair in given):
        raise _invalid(name, field)
    return [
        {
            "name": _text(pair.get("name"), name, field),
            "value": _text(pair.get("value"), name, field, may_be_empty=True),
        }
        for pair in given
    ]


def _text(value: object, name: str, field: str, *, may_be_empty: bool = False) -> str:
    if not isinstance(value, str) or "\0" in value or not (value.strip() or may_be_empty):
        raise _invalid(name, field)
    try:
        encoded_size(field, value)
    except ConfigError:
        raise _invalid(name, field) from None
    return value


def _invalid(name: str, field: str) -> ConfigError:
    return ConfigError(f"{field} of the MCP server {short_repr(name)} is not valid", hint=_HINT)
