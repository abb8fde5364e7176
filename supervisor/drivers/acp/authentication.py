"""Authentication with an agent that requires it.

Rule 1: only the configured method is used. Without one, the error lists the agent's methods and
        names the setting.
Rule 2: a method may need a person: the session shows it (`waiting-for-auth`), and it is bounded.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Final

from supervisor.core import agent_events
from supervisor.drivers.port import DriverContext

from .agent_spec import AcpAgentSpec
from .capabilities import AuthMethod
from .failures_map import describe_rpc_error
from .rpc_connection import CallTimeout, RpcConnection
from .rpc_messages import RpcError

logger = logging.getLogger("supervisor")

AUTH_SECONDS: Final = 300.0


class Authenticator:
    """Authentication with one agent. `release_start_slot` lets other agents start meanwhile."""

    def __init__(
        self,
        agent: AcpAgentSpec,
        context: DriverContext,
        connection: RpcConnection,
        *,
        release_start_slot: Callable[[], Awaitable[object]],
    ) -> None:
        self._agent = agent
        self._context = context
        self._connection = connection
        self._release_start_slot = release_start_slot
        # The agent's methods; empty until `initialize` is answered.
        self.methods: tuple[AuthMethod, ...] = ()
        # Why the last attempt failed.
        self._problem: str | None = None

    async def authenticate(self) -> bool:
        """Authenticate with the configured method; return whether it worked.

        Raise `ConnectionLost`.
        """
        method = self._agent.auth
        if method is None:
            return False
        self._report(method)
        try:
            await self._release_start_slot()
            await self._connection.call(
                "authenticate", {"methodId": method}, timeout_seconds=AUTH_SECONDS
            )
        except (RpcError, CallTimeout) as error:
            self._problem = describe_rpc_error(error) if isinstance(error, RpcError) else str(error)
            logger.warning("authentication with %s failed: %s", self._agent.name, self._problem)
            return False
        finally:
            self._report(None)
        return True

    def hint(self) -> str:
        """Return what went wrong and what the user can do."""
        methods = ", ".join(method.id for method in self.methods) or "none listed"
        problem = "the agent requires authentication"
        if self._agent.auth is not None:
            detail = f": {self._problem}" if self._problem else ""
            problem = f"authentication by {self._agent.auth!r} failed{detail}"
        return (
            f"{problem}; its methods are: {methods}. Log in with the agent's own command, or set "
            "auth=... to a method's id"
        )

    def _report(self, method: str | None) -> None:
        self._context.report_eventually(
            agent_events.AuthenticationRequested(method=method, **self._context.stamp())
        )
