"""Messages of the Model Context Protocol, as a client of each revision sends them."""

from __future__ import annotations

from typing import Any

OLD = "2025-11-25"
NEW = "2026-07-28"
META = "io.modelcontextprotocol/"
CLIENT = {"name": "test", "version": "1"}


def request(method: str, params: dict[str, Any] | None = None, **others: object) -> dict[str, Any]:
    """A request without what revision 2026-07-28 adds."""
    message: dict[str, Any] = {"jsonrpc": "2.0", "id": 1, "method": method}
    return message | ({} if params is None else {"params": params}) | others


def initialize(revision: str = OLD, **others: object) -> dict[str, Any]:
    return request(
        "initialize",
        {"protocolVersion": revision, "capabilities": {}, "clientInfo": CLIENT} | others,
    )


def meta(revision: str = NEW) -> dict[str, Any]:
    return {
        f"{META}protocolVersion": revision,
        f"{META}clientCapabilities": {},
        f"{META}clientInfo": CLIENT,
    }


def stateless(method: str, **params: object) -> dict[str, Any]:
    """A request of revision 2026-07-28."""
    return request(method, {"_meta": meta(), **params})


def headers_of(message: dict[str, Any], *, revision: str = NEW) -> list[tuple[bytes, bytes]]:
    """The headers that a client of revision 2026-07-28 sends with a request."""
    found = {"mcp-protocol-version": revision, "mcp-method": message["method"]}
    if message["method"] == "tools/call":
        found["mcp-name"] = message["params"]["name"]
    return [(key.encode(), value.encode()) for key, value in found.items()]
