"""MCP servers that callers gave to sessions, with their variables and headers.

Rule 1: they are in memory only, because their values may be secrets. The store has their names.
Rule 2: a value whose name says that it is a secret is redacted wherever an agent repeats it in an
        error; that reaches records, and the answer to the caller.
Rule 3: memory for them is bounded; a session whose servers were dropped works without them, as
        after a restart of the supervisor.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias

from supervisor.core.ids import SessionId
from supervisor.core.mcp_server_list import size_of
from supervisor.core.redaction import cover_named_secret

McpServers: TypeAlias = tuple[Mapping[str, Any], ...]

_MAX_BYTES: Final = 32 * 1024 * 1024


class GivenServers:
    """The servers by session. The session that got them first loses them first."""

    def __init__(self, max_bytes: int = _MAX_BYTES) -> None:
        self._max_bytes = max_bytes
        self._by_session: dict[SessionId, McpServers] = {}
        # Invariant: the sum of the sizes of all servers, at most `_max_bytes`.
        self._bytes = 0

    def put(self, session_id: SessionId, servers: McpServers) -> None:
        """Replace the servers of a session."""
        self.forget(session_id)
        if servers:
            self._by_session[session_id] = servers
            self._bytes += size_of(servers)
        for server in servers:
            for pair in (*server.get("env", ()), *server.get("headers", ())):
                cover_named_secret(pair["name"], pair["value"])
        while self._bytes > self._max_bytes:
            self.forget(next(iter(self._by_session)))

    def forget(self, session_id: SessionId) -> None:
        """Drop the servers of a session."""
        self._bytes -= size_of(self._by_session.pop(session_id, ()))

    def of(self, session_id: SessionId) -> McpServers:
        """Return the servers of a session."""
        return self._by_session.get(session_id, ())

    def missing(self, session_id: SessionId, names: Sequence[str]) -> list[str]:
        """Return those of the names whose servers are not here."""
        here = {server["name"] for server in self.of(session_id)}
        return [name for name in names if name not in here]
