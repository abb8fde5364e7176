"""Bound of the open requests of all agents together.

An agent's request is kept in memory until it is answered; one that asks a person for permission may
be open for days.

Rule 1: a request is accepted if its agent then has at most `FREE_BYTES` in open requests.
Rule 2: a longer one is accepted if all agents then have at most `max_bytes`; else it is refused.
"""

from __future__ import annotations

from typing import Final

# Of one agent. Most requests are shorter.
FREE_BYTES: Final = 256 * 1024
# Some requests that write a file, which have at most 10 MiB each.
MAX_BYTES: Final = 64 * 1024 * 1024


class RequestBudget:
    """Bytes in open requests of all agents."""

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self._max_bytes = max_bytes
        self.bytes = 0

    def take(self, size: int, agent_bytes: int) -> bool:
        """Count a request and return True; False if it is too large beside the others.

        `agent_bytes` are in the other open requests of the same agent.
        """
        if agent_bytes + size > FREE_BYTES and self.bytes + size > self._max_bytes:
            return False
        self.bytes += size
        return True

    def release(self, size: int) -> None:
        """Count a request, or several, as closed."""
        self.bytes -= size
