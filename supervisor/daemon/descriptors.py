"""File descriptors: how many the process may open, and how they are divided."""

from __future__ import annotations

import logging
import resource
from typing import Final

import attrs

from supervisor.config import Settings

logger = logging.getLogger("supervisor.daemon")

# Database, logs, epoll, pipes of threads, connections that are being refused.
_BASE_DESCRIPTORS: Final = 128
# Pipes of an agent process and of its guardian.
_DESCRIPTORS_PER_AGENT: Final = 8
# Where the limit is too low for everything: the base gets a quarter of it, agents half of the rest.
_BASE_PART: Final = 4
_AGENTS_PART: Final = 2


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
            " connections are accepted, and at most %d agents run",
            allowed,
            connections,
            agents,
            wanted,
            _agent_limit(agents),
        )


def within_descriptors(settings: Settings) -> Settings:
    """Return the settings with as many agent processes as the process has descriptors for."""
    return attrs.evolve(settings, max_agent_processes=_agent_limit(settings.max_agent_processes))


def _agent_limit(agents: int) -> int:
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return agents
    most = (soft - _base(soft)) // _AGENTS_PART // _DESCRIPTORS_PER_AGENT
    return max(1, min(agents, most))


def _base(soft: int) -> int:
    return min(_BASE_DESCRIPTORS, soft // _BASE_PART)


def connection_limit(*, connections: int, listeners: int, agents: int) -> int:
    """Return how many connections each listener may have: at most `connections`.

    What the process may open is divided: a reserve for the store and for agents, then an equal part
    for each listener, so that connections to the port cannot use up those of the unix socket.
    """
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return connections
    reserve = _base(soft) + _DESCRIPTORS_PER_AGENT * _agent_limit(agents)
    return max(1, min(connections, (soft - reserve) // listeners))
