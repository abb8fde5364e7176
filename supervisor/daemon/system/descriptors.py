"""Room for as many connections and agents as the settings allow."""

from __future__ import annotations

import logging
import resource
from typing import Final

logger = logging.getLogger("supervisor.daemon")

# The database, logs, epoll, pipes of threads.
_OWN: Final = 128
# Pipes of an agent's process, and its guardian's.
_PER_AGENT: Final = 8


def make_room(*, connections: int, agents: int) -> None:
    """Raise the limit of open descriptors as far as that needs, and as we may.

    Agents inherit it; it is never raised further than needed, for programs that are older than
    large limits.
    """
    wanted = _OWN + connections + _PER_AGENT * agents
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
            "%d descriptors are allowed, and %d connections with %d agents may need %d",
            allowed,
            connections,
            agents,
            wanted,
        )
