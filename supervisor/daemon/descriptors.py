"""File descriptors: how many the process may open, and how they are divided."""

from __future__ import annotations

import logging
import resource
from typing import Final

logger = logging.getLogger("supervisor.daemon")

# Database, logs, epoll, pipes of threads, connections that are being refused.
_BASE_DESCRIPTORS: Final = 128
# Pipes of an agent process and of its guardian.
_DESCRIPTORS_PER_AGENT: Final = 8
# Where the limit is too low for everything, each purpose gets at least this part of it.
_LEAST_PART: Final = 4


def raise_descriptor_limit(*, connections: int, agents: int) -> None:
    """Raise the soft limit of open descriptors to what the settings need; log if it stays lower.

    Agents inherit the limit, and some older programs cannot cope with a large one; so it is never
    raised further than needed.
    """
    wanted = _BASE_DESCRIPTORS + connections + _DESCRIPTORS_PER_AGENT * agents
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return
    allowed = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
    except (OSError, ValueError):
        allowed = soft
    if allowed < wanted:
        logger.warning(
            "descriptor limit %d is too low: %d connections and %d agents may need %d; fewer"
            " connections are accepted",
            allowed,
            connections,
            agents,
            wanted,
        )


def connection_limit(*, connections: int, listeners: int, agents: int) -> int:
    """Return how many connections each listener may have: at most `connections`.

    What the process may open is divided: a reserve for the store and for agents, then an equal part
    for each listener, so that connections to the port cannot use up those of the unix socket.
    """
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return connections
    base = min(_BASE_DESCRIPTORS, soft // _LEAST_PART)
    reserve = min(_DESCRIPTORS_PER_AGENT * agents, soft // _LEAST_PART)
    return max(1, min(connections, (soft - base - reserve) // listeners))
