"""The MCP servers of a scripted process: children that it talks to line by line."""

from __future__ import annotations

import json
import os
import select
import subprocess
from typing import Final

_READ_BYTES: Final = 65_536


class McpServers:
    """The running servers, each started with its first line."""

    def __init__(self) -> None:
        # By their description. A server that has ended is started again.
        self._servers: dict[str, subprocess.Popen[bytes]] = {}
        # What was read of a line that is not complete, by descriptor.
        self._unread: dict[int, bytes] = {}

    def send(self, text: str) -> str:
        """Send a line to a server; return why that failed, empty if it has not."""
        wanted = json.loads(text)
        try:
            server = self._running(wanted["server"])
            assert server.stdin is not None
            server.stdin.write(wanted["line"].encode() + b"\n")
            server.stdin.flush()
        except OSError as error:
            return f"the MCP server cannot be reached: {error.strerror}"
        return ""

    def register(self, poller: select.poll) -> None:
        """Wait for lines of the servers, too."""
        for descriptor in self._unread:
            poller.register(descriptor, select.POLLIN)

    def read(self, descriptor: int) -> list[bytes] | None:
        """Return the complete lines that a server has sent; None at its end."""
        data = os.read(descriptor, _READ_BYTES)
        *lines, rest = (self._unread.pop(descriptor) + data).split(b"\n")
        if not data:
            return None
        self._unread[descriptor] = rest
        return lines

    def _running(self, description: dict[str, object]) -> subprocess.Popen[bytes]:
        key = json.dumps(description, sort_keys=True)
        known = self._servers.get(key)
        if known is not None and known.poll() is None:
            return known
        variables = description.get("env")
        pairs = variables if isinstance(variables, list) else []
        arguments = description.get("args")
        words = arguments if isinstance(arguments, list) else []
        made = subprocess.Popen(  # noqa: S603 - the client has named it
            [str(description["command"]), *map(str, words)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, **{str(one["name"]): str(one["value"]) for one in pairs}},
        )
        self._servers[key] = made
        assert made.stdout is not None
        self._unread[made.stdout.fileno()] = b""
        return made
