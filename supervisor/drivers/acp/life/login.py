"""Saying who we are, to an agent that wants to know.

Rule 1: it is told by the method that was configured, and by no other. Without one it is said which
        methods there are, and where to put one.
Rule 2: that may take a person: it is seen for as long (`waiting-for-auth`), and bounded.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Final

from supervisor.core import events as ev
from supervisor.drivers.acp.agent import AcpAgent
from supervisor.drivers.acp.rpc.connection import CallTimeout, Connection
from supervisor.drivers.acp.rpc.messages import RpcError
from supervisor.drivers.port import Office

from .failing import described
from .offers import AuthMethod

logger = logging.getLogger("supervisor")

AUTH_SECONDS: Final = 300.0


class Login:
    """With one agent; `give_way` lets others start while it waits for a person."""

    def __init__(
        self,
        agent: AcpAgent,
        office: Office,
        connection: Connection,
        *,
        give_way: Callable[[], Awaitable[object]],
    ) -> None:
        self._agent = agent
        self._office = office
        self._connection = connection
        self._give_way = give_way
        # What the agent offers; none until it has said so.
        self.methods: tuple[AuthMethod, ...] = ()
        # Why the last try has failed.
        self._problem: str | None = None

    async def log_in(self) -> bool:
        """Say who we are; gives whether that has worked. Raises `ConnectionLost`."""
        method = self._agent.auth
        if method is None:
            return False
        self._report(method)
        try:
            await self._give_way()
            await self._connection.call(
                "authenticate", {"methodId": method}, timeout_seconds=AUTH_SECONDS
            )
        except (RpcError, CallTimeout) as error:
            self._problem = described(error) if isinstance(error, RpcError) else str(error)
            logger.warning("%s was not authenticated: %s", self._agent.name, self._problem)
            return False
        finally:
            self._report(None)
        return True

    def advice(self) -> str:
        """What to do about an agent that is not satisfied."""
        offered = ", ".join(one.id for one in self.methods) or "none that it names"
        wanted = "it wants to be authenticated"
        if self._agent.auth is not None:
            said = f": {self._problem}" if self._problem else ""
            wanted = f"it was not authenticated by {self._agent.auth!r}{said}"
        return (
            f"{wanted}; its methods are: {offered}. Log in with the agent's own command, or give "
            "the method's id as auth=..."
        )

    def _report(self, method: str | None) -> None:
        self._office.report_surely(ev.AuthenticationAsked(method=method, **self._office.stamp()))
