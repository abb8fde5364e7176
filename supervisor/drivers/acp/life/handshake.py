"""The beginning of a conversation: which version, what can each of us, who are we, which session.

Rule 1: every wait is bounded. What failed is said in one of the failure kinds, and with what to do.
Rule 2: a conversation that the agent knows already is gone on with if it can; what it replays of it
        is history. If it cannot, a new one begins, and is told what was said.
Rule 3: an agent is not asked for what it does not offer.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterable, Mapping
from typing import Any, Final, Literal, TypeAlias

import attrs

from supervisor.drivers.acp.agent import AcpAgent
from supervisor.drivers.acp.host import Host
from supervisor.drivers.acp.reading import as_mapping, as_name
from supervisor.drivers.acp.rpc.connection import CallTimeout, Connection
from supervisor.drivers.acp.rpc.messages import (
    AUTH_REQUIRED,
    METHOD_NOT_FOUND,
    RpcError,
    Unsendable,
)
from supervisor.drivers.acp.rpc.outbox import ConnectionLost
from supervisor.drivers.port import Office

from .failing import described
from .login import Login
from .offers import (
    PROTOCOL_VERSION,
    AgentOffers,
    initialize_params,
    out_of_reach,
    session_params,
)

logger = logging.getLogger("supervisor")

FailureKind: TypeAlias = Literal[
    "handshake", "auth", "load_session", "transport", "timeout", "protocol"
]

CLOSE_SECONDS: Final = 5.0
MAX_NAME_LETTERS: Final = 1000
# What to do about an agent that dies of its own past.
_BEGIN_WITHOUT: Final = "clear() the session to begin without what the agent has kept of it"
# What to do about a program that writes what is no message of the protocol.
_OTHER_TONGUE: Final = "does its command make it speak ACP? Many want an argument for that"


class HandshakeFailed(Exception):
    """The conversation did not begin."""

    def __init__(self, kind: FailureKind, detail: str) -> None:
        super().__init__(detail)
        self.kind = kind


@attrs.frozen
class Conversation:
    """What was agreed. `is_new`: the agent knows nothing of what was said before."""

    session_id: str
    is_new: bool
    takes_steering: bool
    can_be_continued: bool


class Handshake:
    """With one agent."""

    def __init__(
        self,
        agent: AcpAgent,
        office: Office,
        connection: Connection,
        host: Host,
        login: Login,
    ) -> None:
        self._agent = agent
        self._office = office
        self._connection = connection
        self._login = login
        self.host = host
        self._session_id: str | None = None

    async def shake(self) -> Conversation:
        """Begin, or go on with what was begun; raises `HandshakeFailed`."""
        offers = await self._initialize()
        self.host.offers = offers
        self._login.methods = offers.auth_methods
        lacking = out_of_reach(self._office, offers, self._agent.mcp_servers)
        if lacking:
            names = ", ".join(lacking)
            self.host.warn(f"the agent has no way to MCP servers that it should have: {names}")
        known = self._office.agent_session_id
        session_id = await self._continue(known, offers) if known is not None else None
        is_new = session_id is None
        if session_id is None:
            session_id = await self._new(offers)
        self._session_id = session_id
        try:
            await self._choose()
        except HandshakeFailed as error:
            if is_new or error.kind != "handshake":
                raise
            self.host.warn(f"the agent goes on with its session, but not as configured: {error}")
        return Conversation(
            session_id,
            is_new=is_new,
            takes_steering=offers.steers,
            can_be_continued=offers.loads or offers.resumes,
        )

    async def close(self) -> None:
        """Say that the conversation is over, to an agent that wants to know; bounded."""
        if self._session_id is not None and self.host.offers.closes:
            params = {"sessionId": self._session_id}
            with contextlib.suppress(RpcError, CallTimeout, ConnectionLost):
                await self._connection.call("session/close", params, timeout_seconds=CLOSE_SECONDS)

    # Steps --------------------------------------------------------------------------------

    async def _initialize(self) -> AgentOffers:
        try:
            answer = await self._call("initialize", initialize_params(self._office))
        except HandshakeFailed as error:
            if error.kind == "timeout" and self._connection.statistics().junk:
                raise HandshakeFailed("timeout", f"{error}; {_OTHER_TONGUE}") from error
            raise
        offers = AgentOffers.parse(answer)
        if offers.protocol_version is None:
            raise HandshakeFailed(
                "protocol", f"its answer to initialize has no version; {_OTHER_TONGUE}"
            )
        if not offers.is_understood:
            raise HandshakeFailed(
                "protocol",
                f"it speaks version {offers.protocol_version} of the protocol, and we only "
                f"version {PROTOCOL_VERSION}: use a release of the agent that speaks that",
            )
        return offers

    async def _continue(self, session_id: str, offers: AgentOffers) -> str | None:
        """Go on with a conversation that the agent may know; None if it does not."""
        ways = [("session/resume", offers.resumes), ("session/load", offers.loads)]
        params = {"sessionId": session_id, **self._session_params(offers)}
        said: str | None = None
        for method in [method for method, is_offered in ways if is_offered]:
            try:
                with self.host.updates.history():
                    answer = await self._call_known(method, params)
            except RpcError as error:
                said = described(error)
                if error.code != METHOD_NOT_FOUND:
                    break
                # Some offer what they do not have; then there may be the other way.
            except HandshakeFailed as error:
                if error.kind == "transport":
                    raise HandshakeFailed("load_session", f"{error}; {_BEGIN_WITHOUT}") from error
                if error.kind != "timeout":
                    raise
                said = str(error)
                break
            else:
                self.host.updates.carry_on()
                self.host.absorb(answer)
                return session_id
        if said is not None:
            logger.warning("%s does not go on with its session: %s", self._agent.name, said)
            self.host.warn(
                f"the agent does not go on with its own session, and is told of it: {said}"
            )
        return None

    async def _new(self, offers: AgentOffers) -> str:
        answer = await self._call("session/new", self._session_params(offers))
        session_id = as_name(as_mapping(answer).get("sessionId"), max_letters=MAX_NAME_LETTERS)
        if session_id is None:
            raise HandshakeFailed("protocol", "its answer to session/new names no session")
        self.host.absorb(answer)
        return session_id

    async def _choose(self) -> None:
        """Have the mode and the options that were configured, where they are not so already."""
        surfaced = self.host.updates.surfaced
        mode = self._agent.mode
        if mode is not None and mode != surfaced.mode:
            self._refuse_unless_offered("mode", mode, surfaced.modes)
            await self._call_for("session/set_mode", {"modeId": mode})
            self.host.note_mode(mode)
        are_so = {one.get("id"): one.get("currentValue") for one in surfaced.config_options}
        for name, value in self._agent.options.items():
            if are_so.get(name) == value:
                continue
            self._refuse_unless_offered("option", name, surfaced.config_options)
            chosen: dict[str, Any] = {"configId": name, "value": value}
            if isinstance(value, bool):
                chosen["type"] = "boolean"
            self.host.absorb(await self._call_for("session/set_config_option", chosen))

    def _refuse_unless_offered(
        self, what: str, wanted: str, offered: Iterable[Mapping[str, Any]]
    ) -> None:
        names = [str(one.get("id")) for one in offered]
        if wanted not in names:
            listed = ", ".join(names) or "none"
            raise HandshakeFailed("handshake", f"it offers no {what} {wanted!r}; it has: {listed}")

    async def _call_for(self, method: str, chosen: Mapping[str, Any]) -> object:
        try:
            return await self._call_known(method, {"sessionId": self._session_id, **chosen})
        except RpcError as error:
            raise HandshakeFailed(
                "handshake", f"it will not have {dict(chosen)}: {described(error)}"
            ) from error

    def _session_params(self, offers: AgentOffers) -> dict[str, Any]:
        servers = self._agent.mcp_servers
        return session_params(self._office, offers, cwd=self.host.cwd, mcp_servers=servers)

    # Calls --------------------------------------------------------------------------------

    async def _call(self, method: str, params: Mapping[str, Any]) -> object:
        try:
            return await self._call_known(method, params)
        except RpcError as error:
            raise HandshakeFailed(
                "handshake", f"it refuses {method}: {described(error)}"
            ) from error

    async def _call_known(self, method: str, params: Mapping[str, Any]) -> object:
        """Call it, and if it wants to know who we are first, say so and call again."""
        for is_last in (False, True):
            try:
                return await self._call_once(method, params)
            except RpcError as error:
                if error.code != AUTH_REQUIRED:
                    raise
                if is_last or not await self._is_authenticated():
                    raise HandshakeFailed("auth", self._login.advice()) from error
        raise AssertionError("the last try returns or raises")

    async def _is_authenticated(self) -> bool:
        try:
            return await self._login.log_in()
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
