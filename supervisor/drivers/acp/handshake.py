"""The ACP handshake: protocol version, capabilities, authentication, session, choices.

Rule 1: every wait is bounded. A failure has a failure kind and says what to do.
Rule 2: an existing conversation is resumed if the agent can; updates that it replays are history.
        Otherwise a new conversation starts, and its first prompt contains the history.
Rule 3: only methods that the agent offers are called.
Rule 4: only the configured authentication method is used. If none is configured, the error lists
        the agent's methods and names the setting.
Rule 5: an authentication may need a person: the session shows it (`waiting-for-auth`), and the
        wait is bounded.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Final, Literal, TypeAlias

import attrs

from supervisor.core import agent_events
from supervisor.core.log_content import Content, error_content
from supervisor.drivers.port import DriverContext
from supervisor.json_rpc.rpc_connection import CallTimeout, ConnectionLost, RpcConnection
from supervisor.json_rpc.rpc_messages import AUTH_REQUIRED, METHOD_NOT_FOUND, RpcError, Unsendable

from .agent_spec import AcpAgentSpec
from .capabilities import (
    PROTOCOL_VERSION,
    AgentCapabilities,
    AuthMethod,
    initialize_params,
    session_params,
    unsupported_servers,
)
from .client import AcpClient
from .content import as_mapping, as_name
from .own_tools import OwnTools
from .turn_result import describe_rpc_error

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
        """Authenticate with the configured method; return True if that succeeded.

        Raise `ConnectionLost` if the connection is lost meanwhile.
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
            logger.warning(
                "authentication with %s failed: %s", self._agent.name, error_content(error)
            )
            return False
        finally:
            self._report(None)
        return True

    def hint(self) -> str:
        """Return the problem with the authentication and what the user can do."""
        methods = ", ".join(method.id for method in self.methods) or "none listed"
        problem = "the agent requires authentication"
        if self._agent.auth is not None:
            detail = f": {self._problem}" if self._problem else ""
            problem = f"authentication by {self._agent.auth!r} failed{detail}"
        login = self._agent.login
        run = "Log in with the agent's own command"
        if login is not None:
            run = f"Log in as the user of this daemon: {login.run}"
        return f"{problem}; its methods are: {methods}. {run}, or {self._lines_to_write()}"

    def _lines_to_write(self) -> str:
        """Return the lines of the configuration that make the agent authenticate."""
        name, login = self._agent.name, self._agent.login
        if login is None:
            return f"set auth=... to a method's id ([agents.{name}] of understudy.toml)"
        method = self.methods[0].id if self.methods else "METHOD"
        lines = [f"[agents.{name}]", f'preset = "{login.preset}"', f'auth = "{method}"']
        if login.variable is not None:
            lines += [f"[agents.{name}.env]", f'{login.variable} = "${login.variable}"']
        return "write into understudy.toml, and reload:\n" + "\n".join(lines)

    def _report(self, method: str | None) -> None:
        self._context.report_eventually(
            agent_events.AuthenticationRequested(method=method, **self._context.stamp())
        )


logger = logging.getLogger("supervisor")

HandshakeFailureKind: TypeAlias = Literal[
    "handshake", "auth", "load_session", "transport", "timeout", "protocol"
]

CLOSE_SECONDS: Final = 5.0
MAX_NAME_LETTERS: Final = 1000
# For an agent that exits when it loads its own history.
_CLEAR_HINT: Final = "clear() the session to start without the history that the agent keeps"
# For a program whose output is not ACP.
_NOT_ACP_HINT: Final = "does its command make it speak ACP? Many agents need an argument for that"


class HandshakeFailed(Exception):
    """The conversation did not start; the error has the failure kind."""

    def __init__(self, kind: HandshakeFailureKind, detail: str) -> None:
        super().__init__(detail)
        self.kind = kind


@attrs.frozen
class HandshakeResult:
    """Result of the handshake. `is_new`: the agent has no history of the session."""

    session_id: str
    is_new: bool
    supports_steering: bool
    can_resume_session: bool


class Handshake:
    """Performs the handshake with one agent."""

    def __init__(
        self,
        agent: AcpAgentSpec,
        context: DriverContext,
        connection: RpcConnection,
        client: AcpClient,
        *,
        authenticator: Authenticator,
        own_tools: OwnTools,
    ) -> None:
        self._agent = agent
        self._context = context
        self._connection = connection
        self._authenticator = authenticator
        self._own_tools = own_tools
        self.client = client
        self._servers: list[Mapping[str, Any]] = [*agent.resolved_servers()]
        self._add_given_servers()
        self._session_id: str | None = None

    async def run(self) -> HandshakeResult:
        """Resume the agent's session or start a new one.

        Raise `HandshakeFailed` if neither works.
        """
        capabilities = await self._initialize()
        self.client.capabilities = capabilities
        self._authenticator.methods = capabilities.auth_methods
        unsupported = unsupported_servers(self._context, capabilities, self._servers)
        if unsupported:
            names = ", ".join(unsupported)
            self.client.warn(f"the agent does not support the type of these MCP servers: {names}")
        self._servers += await self._own_tools.server(self._servers, capabilities, self.client.warn)
        known = self._context.agent_session_id
        session_id = await self._resume_session(known, capabilities) if known is not None else None
        is_new = session_id is None
        if session_id is None:
            session_id = await self._new_session(capabilities)
        self._session_id = session_id
        try:
            await self._apply_choices()
        except HandshakeFailed as error:
            if is_new or error.kind != "handshake":
                raise
            self.client.warn(f"the agent resumed its session, but not as configured: {error}")
        return HandshakeResult(
            session_id,
            is_new=is_new,
            supports_steering=capabilities.can_steer,
            can_resume_session=capabilities.can_load or capabilities.can_resume,
        )

    async def close(self) -> None:
        """Call `session/close` if the agent offers it, within a bound."""
        if self._session_id is not None and self.client.capabilities.can_close:
            params = {"sessionId": self._session_id}
            with contextlib.suppress(RpcError, CallTimeout, ConnectionLost):
                await self._connection.call("session/close", params, timeout_seconds=CLOSE_SECONDS)

    def _add_given_servers(self) -> None:
        """Add the servers that a caller gave; those of the agent's configuration come first."""
        configured = {server["name"] for server in self._servers}
        given = self._context.given_servers
        self._servers += [server for server in given if server["name"] not in configured]
        taken = [server["name"] for server in given if server["name"] in configured]
        if taken:
            names = ", ".join(taken)
            self.client.warn(
                f"the agent is configured with other MCP servers of this name: {names}"
            )
        missing = [name for name in self._context.missing_servers if name not in configured]
        if missing:
            names = ", ".join(missing)
            self.client.warn(
                f"the agent works without MCP servers that were kept in memory only: {names}"
            )

    # Steps --------------------------------------------------------------------------------

    async def _initialize(self) -> AgentCapabilities:
        try:
            params = initialize_params(self._context, has_subagents=self._agent.subagents)
            answer = await self._call("initialize", params)
        except HandshakeFailed as error:
            if error.kind == "timeout" and self._connection.statistics().junk:
                raise HandshakeFailed("timeout", f"{error}; {_NOT_ACP_HINT}") from error
            raise
        capabilities = AgentCapabilities.parse(answer)
        if capabilities.protocol_version is None:
            raise HandshakeFailed(
                "protocol", f"its answer to initialize has no version; {_NOT_ACP_HINT}"
            )
        if not capabilities.is_supported_version:
            raise HandshakeFailed(
                "protocol",
                f"it speaks version {capabilities.protocol_version} of the protocol, understudy "
                f"speaks version {PROTOCOL_VERSION}: use a release of the agent with that version",
            )
        return capabilities

    async def _resume_session(self, session_id: str, capabilities: AgentCapabilities) -> str | None:
        """Resume or load the agent's session and return its id; None if the agent cannot."""
        methods = [
            ("session/resume", capabilities.can_resume),
            ("session/load", capabilities.can_load),
        ]
        params = {"sessionId": session_id, **self._session_params(capabilities)}
        problem: str | None = None
        for method in [method for method, is_offered in methods if is_offered]:
            try:
                with self.client.updates.replaying_history():
                    answer = await self._call_authenticated(method, params)
            except RpcError as error:
                problem = describe_rpc_error(error)
                if error.code != METHOD_NOT_FOUND:
                    break
                # Some agents offer a method that they lack; try the other one.
            except HandshakeFailed as error:
                if error.kind == "transport":
                    raise HandshakeFailed("load_session", f"{error}; {_CLEAR_HINT}") from error
                if error.kind != "timeout":
                    raise
                problem = str(error)
                break
            else:
                self.client.updates.resume_usage()
                self.client.read_session_result(answer)
                return session_id
        if problem is not None:
            logger.warning("%s did not resume its session: %s", self._agent.name, Content(problem))
            self.client.warn(
                "the agent could not resume its own session; a new one starts with the history: "
                f"{problem}"
            )
        return None

    async def _new_session(self, capabilities: AgentCapabilities) -> str:
        answer = await self._call("session/new", self._session_params(capabilities))
        session_id = as_name(as_mapping(answer).get("sessionId"), max_letters=MAX_NAME_LETTERS)
        if session_id is None:
            raise HandshakeFailed("protocol", "its answer to session/new has no session id")
        self.client.read_session_result(answer)
        return session_id

    async def _apply_choices(self) -> None:
        """Set the configured mode and options where they differ from the agent's current ones."""
        status = self.client.updates.status
        mode = self._agent.mode
        if mode is not None and mode != status.mode:
            self._check_offered("mode", mode, status.modes)
            await self._call_choice("session/set_mode", {"modeId": mode})
            self.client.set_mode(mode)
        current = {option.get("id"): option.get("currentValue") for option in status.config_options}
        for name, value in self._agent.options.items():
            if current.get(name) == value:
                continue
            self._check_offered("option", name, status.config_options)
            chosen: dict[str, Any] = {"configId": name, "value": value}
            if isinstance(value, bool):
                chosen["type"] = "boolean"
            self.client.read_session_result(
                await self._call_choice("session/set_config_option", chosen)
            )

    def _check_offered(self, noun: str, choice: str, offered: Iterable[Mapping[str, Any]]) -> None:
        ids = [str(item.get("id")) for item in offered]
        if choice not in ids:
            listed = ", ".join(ids) or "none"
            raise HandshakeFailed("handshake", f"it offers no {noun} {choice!r}; it has: {listed}")

    async def _call_choice(self, method: str, chosen: Mapping[str, Any]) -> object:
        try:
            return await self._call_authenticated(method, {"sessionId": self._session_id, **chosen})
        except RpcError as error:
            raise HandshakeFailed(
                "handshake", f"it refuses {dict(chosen)}: {describe_rpc_error(error)}"
            ) from error

    def _session_params(self, capabilities: AgentCapabilities) -> dict[str, Any]:
        cwd, servers = self.client.cwd, self._servers
        return session_params(self._context, capabilities, cwd=cwd, mcp_servers=servers)

    # Calls --------------------------------------------------------------------------------

    async def _call(self, method: str, params: Mapping[str, Any]) -> object:
        try:
            return await self._call_authenticated(method, params)
        except RpcError as error:
            raise HandshakeFailed(
                "handshake", f"it refuses {method}: {describe_rpc_error(error)}"
            ) from error

    async def _call_authenticated(self, method: str, params: Mapping[str, Any]) -> object:
        """Call a method; if the agent requires authentication, authenticate and call again."""
        for is_last in (False, True):
            try:
                return await self._call_once(method, params)
            except RpcError as error:
                if error.code != AUTH_REQUIRED:
                    raise
                if is_last or not await self._authenticate():
                    raise HandshakeFailed("auth", self._authenticator.hint()) from error
        raise AssertionError("the last attempt returns or raises")

    async def _authenticate(self) -> bool:
        try:
            return await self._authenticator.authenticate()
        except ConnectionLost as error:
            raise HandshakeFailed("transport", f"in authenticate: {error.reason}") from error

    async def _call_once(self, method: str, params: Mapping[str, Any]) -> object:
        seconds = self._agent.handshake_seconds
        try:
            return await self._connection.call(method, params, timeout_seconds=seconds)
        except CallTimeout as error:
            raise HandshakeFailed("timeout", str(error)) from error
        except ConnectionLost as error:
            raise HandshakeFailed("transport", f"in {method}: {error.reason}") from error
        except Unsendable as error:
            raise HandshakeFailed("protocol", str(error)) from error
