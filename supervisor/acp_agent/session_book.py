"""The sessions of one connection: opened, found again by the client's ids, and closed."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any, Final

import trio

from supervisor.client import RemoteSession, RemoteSupervisor
from supervisor.core.agent_list import ListedAgent
from supervisor.core.errors import SessionNotFound, SupervisorError
from supervisor.core.ids import SessionId
from supervisor.core.log_content import error_content
from supervisor.core.permissions import DEFAULT_MODE, Mode, Permissions
from supervisor.json_rpc.rpc_messages import INVALID_PARAMS, RpcError
from supervisor.json_rpc.rpc_outbox import ConnectionLost

from .acp_options import AcpOptions
from .attached_session import AttachedSession
from .child_watch import ChildWatch
from .choices import (
    AGENT,
    BUSY_MODE,
    PERMISSION_MODE,
    SessionChoices,
    agent_options,
    is_ours,
)
from .client_link import ClientLink
from .client_requests import Questions
from .session_listing import client_id_of, id_tag

logger = logging.getLogger("supervisor")

# Built-in agents show what the program does; an editor's user wants a real one.
_FALLBACK_AGENT: Final = "echo"


class SessionBook:
    """The sessions that the client of one connection has open."""

    def __init__(
        self,
        sup: RemoteSupervisor,
        link: ClientLink,
        options: AcpOptions,
        nursery: trio.Nursery,
    ) -> None:
        self._sup = sup
        self._link = link
        self._options = options
        self._nursery = nursery
        self._questions = Questions(sup, link, nursery)
        self._by_client_id: dict[str, AttachedSession] = {}
        self._by_id: dict[SessionId, AttachedSession] = {}
        self._children = ChildWatch(sup, link, self._questions, self._by_id)
        self._follows_children = False
        self._agents: tuple[ListedAgent, ...] = ()

    # Opening ------------------------------------------------------------------------------

    async def create(
        self,
        cwd: str,
        *,
        agent: str | None = None,
        mode: Mode | None = None,
        client_id: str | None = None,
        servers: Sequence[Mapping[str, Any]] = (),
    ) -> AttachedSession:
        """Create a session in the folder, and attach it."""
        tags = [] if self._options.tag is None else [self._options.tag]
        handle = await self._sup.create(
            agent or await self._default_agent(),
            workspace=cwd,
            tags=[*tags, *([] if client_id is None else [id_tag(client_id)])],
            permissions=None if mode is None else Permissions(mode=mode),
            mcp_servers=servers or None,
        )
        session = await self.attach(handle, replay=False)
        session.given_servers = tuple(servers)
        return session

    async def attach(self, handle: RemoteSession, *, replay: bool) -> AttachedSession:
        """Follow a session from now on; with `replay`, tell its history first."""
        info = await handle.info()
        client_id = client_id_of(info)
        self._drop(self._by_client_id.get(client_id))
        session = AttachedSession(
            self._sup,
            info,
            client_id,
            link=self._link,
            questions=self._questions,
            options=self._options,
            nursery=self._nursery,
        )
        session.on_changed = lambda: self._tell_options(session)
        if session.is_new or not self._agents:
            self._agents = await self._sup.agents()
        self._by_client_id[client_id] = self._by_id[info.id] = session
        try:
            await self._nursery.start(self._run, session, replay)
        except BaseException:
            self._drop(session)
            raise
        if not self._follows_children:
            self._follows_children = True
            self._nursery.start_soon(self._children.run)
        return session

    async def _run(
        self,
        session: AttachedSession,
        replay: bool,  # noqa: FBT001 - a task takes positions
        *,
        task_status: trio.TaskStatus[None],
    ) -> None:
        lost: SupervisorError | None = None
        try:
            await session.run(replay=replay, task_status=task_status)
        except* ConnectionLost:
            pass  # the client has gone, which ends the connection
        except* SupervisorError as group:
            lost = _first(group)
        finally:
            self._drop(session)
        if lost is None:
            return
        if not session.is_started:
            raise lost  # for the request that opens the session
        logger.warning("session %s is not followed any more: %s", session.id, error_content(lost))

    async def _default_agent(self) -> str:
        if self._options.agent is not None:
            return self._options.agent
        self._agents = await self._sup.agents()
        wanted = [one for one in self._agents if one.installed and one.source != "built-in"]
        wanted.sort(key=lambda one: one.source != "configured")
        return wanted[0].name if wanted else _FALLBACK_AGENT

    # Finding ------------------------------------------------------------------------------

    def attached(self, client_id: str) -> AttachedSession | None:
        """Return the session that the client has open under this id."""
        return self._by_client_id.get(client_id)

    async def opened(self, client_id: str) -> AttachedSession:
        """Return the session; attach it if the client has not opened it.

        Raise `SessionNotFound` if there is none.
        """
        session = self.attached(client_id)
        if session is None:
            session = await self.attach(await self.find(client_id), replay=False)
            session.go_live()
        return session

    async def find(self, client_id: str) -> RemoteSession:
        """Return the session with this id of the client; raise `SessionNotFound`."""
        session = self.attached(client_id)
        if session is not None:
            return session.handle
        try:
            return await self._sup.get(client_id)
        except SessionNotFound:
            for info in (await self._sup.list(tag=id_tag(client_id), limit=1)).items:
                return self._sup.session(info.id)
            raise

    def takes_servers(self, session: AttachedSession) -> bool:
        """Return False if the agent of a session is known to take no MCP servers."""
        return all(one.kind == "acp" for one in self._agents if one.name == session.info.agent)

    # Options ------------------------------------------------------------------------------

    def options_of(self, session: AttachedSession) -> list[dict[str, Any]]:
        """Return the options of a session."""
        return self._choices(session).options()

    def _choices(self, session: AttachedSession) -> SessionChoices:
        info = session.info
        return SessionChoices(
            agent=info.agent,
            agents=self._agents,
            busy_mode=session.jobs.busy_mode,
            permission_mode=info.permissions.mode or DEFAULT_MODE,
            is_new=session.is_new,
            agent_options=agent_options(
                info,
                session.translator.agent_choices.get("config_options"),
                switches=self._link.offers.switches,
            ),
        )

    async def choose(self, session: AttachedSession, option: str, value: Any) -> AttachedSession:  # noqa: ANN401 - any JSON value
        """Set an option; return the session that the client has then."""
        if not is_ours(option):
            if not isinstance(value, str | bool):
                raise RpcError(INVALID_PARAMS, f"the value of {option} must be text, true or false")
            await session.handle.set(options={option: value})
            await session.refresh()
            return session
        choices = self._choices(session)
        choices.check(option, value)
        if option == BUSY_MODE:
            session.jobs.busy_mode = value
        elif option == AGENT and value != choices.agent:
            return await self._replace(session, agent=value, mode=session.info.permissions.mode)
        elif option == PERMISSION_MODE and value != choices.permission_mode:
            return await self._replace(session, agent=choices.agent, mode=value)
        return session

    async def _replace(
        self, session: AttachedSession, *, agent: str, mode: Mode | None
    ) -> AttachedSession:
        """Replace an empty session by one with other choices, under the same id of the client."""
        new = await self.create(
            session.info.workspace or "/",
            agent=agent,
            mode=mode,
            client_id=session.client_id,
            servers=session.given_servers,
        )
        new.jobs.busy_mode = session.jobs.busy_mode
        await self._sup.delete(session.id)
        return new

    async def _tell_options(self, session: AttachedSession) -> None:
        await self._link.update(
            session.client_id,
            {"sessionUpdate": "config_option_update", "configOptions": self.options_of(session)},
        )

    # Closing ------------------------------------------------------------------------------

    def detach(self, client_id: str) -> None:
        """Stop following a session, which goes on."""
        self._drop(self.attached(client_id))

    def _drop(self, session: AttachedSession | None) -> None:
        if session is None:
            return
        session.detach()
        if self._by_client_id.get(session.client_id) is session:
            del self._by_client_id[session.client_id]
        if self._by_id.get(session.id) is session:
            del self._by_id[session.id]


def _first(group: BaseExceptionGroup[SupervisorError]) -> SupervisorError:
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    assert isinstance(error, SupervisorError)
    return error
