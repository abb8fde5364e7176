"""The methods of the protocol, as the client calls them.

Rule 1: before `initialize` every other method is refused.
Rule 2: no method of the client is called but `session/update`, `session/request_permission` and,
        where it is offered, `elicitation/create`: no file and no terminal of the client is used.
Rule 3: an error of ours says what happened, and its data what to do: `code`, `hint`, `retry`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from importlib.metadata import version
from pathlib import PurePosixPath
from typing import Any, Final, TypeAlias

import trio
from trio_util import AsyncValue

from supervisor.client import RemoteSupervisor
from supervisor.core.errors import SessionNotFound, SupervisorError
from supervisor.core.info import Info
from supervisor.core.session_values import Phase
from supervisor.drivers.acp.content import as_mapping, as_name
from supervisor.json_rpc.rpc_connection import RpcHandlers
from supervisor.json_rpc.rpc_messages import INVALID_PARAMS, INVALID_REQUEST, RpcError

from .acp_options import AcpOptions
from .attached_session import AttachedSession
from .client_link import ClientLink
from .client_offers import ClientOffers, initialize_result
from .client_servers import ClientServers, client_servers
from .notices import notice
from .own_prompts import WaitingPrompt
from .prompt_input import PromptInput, parse_prompt
from .record_updates import chunk_of
from .session_book import SessionBook
from .session_listing import iso_time, listed
from .slash_commands import OurCommand, budget_text, our_command, tree_text
from .turn_answers import rpc_error

_MAX_ID_LETTERS: Final = 200
_MAX_PATH_LETTERS: Final = 4096
_PAGE_SIZE: Final = 100

_Params: TypeAlias = Mapping[str, Any]
_Method: TypeAlias = Callable[[_Params], Awaitable[object]]


class AcpServer:
    """One connection: the requests of its client."""

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
        self._book = SessionBook(sup, link, options, nursery)
        self._is_initialized = False
        # Requests that are worked on; a prompt that waits for its turn is not.
        self._working = AsyncValue(0)
        # Set when the client has gone: what it has asked goes on without it.
        self.is_leaving = False

    def handlers(self) -> RpcHandlers:
        """Return the handlers of all methods."""
        methods: dict[str, _Method] = {
            "authenticate": self._authenticate,
            "session/new": self._new,
            "session/load": self._load,
            "session/resume": self._resume,
            "session/list": self._list,
            "session/close": self._close,
            "session/delete": self._delete,
            "session/prompt": self._prompt,
            "session/set_mode": self._set_mode,
            "session/set_config_option": self._set_config_option,
            "_session/steering": self._steer,
        }
        if self._options.unstable:
            methods |= {
                "session/fork": self._fork,
                "session/set_title": self._set_title,
                "session/archive": self._archive,
                "session/unarchive": self._unarchive,
                "session/status": self._status,
            }
        requests = {name: self._guarded(method) for name, method in methods.items()}
        return RpcHandlers(
            requests={"initialize": self._initialize, **requests},
            notifications={"session/cancel": self._cancel},
        )

    def _guarded(self, method: _Method) -> Callable[[Any], Awaitable[object]]:
        async def handle(params: Any) -> object:  # noqa: ANN401 - any JSON value
            if not self._is_initialized:
                raise RpcError(INVALID_REQUEST, "call initialize first")
            if params is not None and not isinstance(params, dict):
                raise RpcError(INVALID_PARAMS, "params must be an object")
            self._working.value += 1
            try:
                return await method(params or {})
            except SupervisorError as error:
                raise rpc_error(error) from error
            finally:
                self._working.value -= 1

        return handle

    async def wait_answered(self) -> None:
        """Wait until all requests are answered but prompts, which take as long as their turns."""
        await self._working.wait_value(0)

    # The connection -----------------------------------------------------------------------

    async def _initialize(self, params: Any) -> object:  # noqa: ANN401 - any JSON value
        await trio.lowlevel.checkpoint()
        if self._is_initialized:
            raise RpcError(INVALID_REQUEST, "the connection is initialized already")
        wanted = as_mapping(params).get("protocolVersion")
        if isinstance(wanted, bool) or not isinstance(wanted, int):
            raise RpcError(INVALID_PARAMS, "protocolVersion must be a whole number")
        self._is_initialized = True
        self._link.offers = ClientOffers.parse(params)
        return initialize_result(version("understudy"), unstable=self._options.unstable)

    async def _authenticate(self, _: _Params) -> object:
        await trio.lowlevel.checkpoint()
        raise RpcError(INVALID_PARAMS, "no authentication is needed")

    # Sessions -----------------------------------------------------------------------------

    async def _new(self, params: _Params) -> object:
        cwd, given = _folder(params), client_servers(params)
        session = await self._book.create(cwd, servers=given.servers)
        return {"sessionId": session.client_id, **self._opened(session, given)}

    async def _load(self, params: _Params) -> object:
        return await self._open(params, replay=True)

    async def _resume(self, params: _Params) -> object:
        return await self._open(params, replay=False)

    async def _open(self, params: _Params, *, replay: bool) -> object:
        client_id = _session_id(params)
        _folder(params)
        given = client_servers(params)
        handle = await self._book.find(client_id)
        session = await self._book.attach(handle, replay=replay)
        await self._give_servers(session, given)
        return self._opened(session, given)

    async def _give_servers(self, session: AttachedSession, given: ClientServers) -> None:
        try:
            await session.give_servers(given.servers)
        except SupervisorError:
            self._book.detach(session.client_id)
            raise

    def _opened(self, session: AttachedSession, given: ClientServers) -> dict[str, Any]:
        """Return the answer to the request that opened a session; notifications follow it."""
        session.go_live()
        remarks = [*given.remarks]
        if given.servers and not self._book.takes_servers(session):
            names = ", ".join(server["name"] for server in given.servers)
            remarks.append(f"the agent {session.info.agent} takes no MCP servers: {names}")
        if remarks:
            self._nursery.start_soon(self._tell_of_servers, session.client_id, "; ".join(remarks))
        return {"configOptions": self._book.options_of(session)}

    async def _tell_of_servers(self, client_id: str, text: str) -> None:
        if self._link.offers.notices:
            update = notice("warning", "MCP servers of the editor", text)
            await self._link.update(client_id, update)

    async def _list(self, params: _Params) -> object:
        cursor, cwd = params.get("cursor"), params.get("cwd")
        if cursor is not None and not isinstance(cursor, str):
            raise RpcError(INVALID_PARAMS, "cursor must be text")
        page = await self._sup.list(
            archived=False,
            workspace=None if cwd is None else _folder(params),
            tag=self._options.tag,
            limit=_PAGE_SIZE,
            cursor=cursor,
        )
        answer: dict[str, Any] = {"sessions": listed(page.items)}
        return answer if page.next is None else answer | {"nextCursor": page.next}

    async def _close(self, params: _Params) -> object:
        client_id = _session_id(params)
        handle = await self._book.find(client_id)
        if self._options.stop_on_close:
            await handle.stop()
        self._book.detach(client_id)
        return {}

    async def _delete(self, params: _Params) -> object:
        client_id = _session_id(params)
        with suppress(SessionNotFound):
            handle = await self._book.find(client_id)
            await self._sup.delete(handle.id)
            self._book.detach(client_id)
        return {}

    # Turns --------------------------------------------------------------------------------

    async def _prompt(self, params: _Params) -> object:
        client_id, content = _session_id(params), parse_prompt(params)
        session = self._book.attached(client_id)
        if session is None:  # asked first, so that two prompts keep their order otherwise
            session = await self._book.opened(client_id)
        command = our_command(content.text)
        if command is not None:
            return await self._run_command(session, command)
        answer = await self._wait(session, session.jobs.submit(content))
        return {**answer, "_meta": dict(content.trace)} if content.trace else answer

    async def _wait(self, session: AttachedSession, waiting: WaitingPrompt) -> dict[str, Any]:
        self._working.value -= 1
        try:
            return await waiting.answer()
        except trio.Cancelled:
            if not self.is_leaving:
                session.jobs.withdraw(waiting)
            raise
        finally:
            self._working.value += 1

    async def _run_command(self, session: AttachedSession, command: OurCommand) -> object:
        text = await self._text_of(session, command)
        await self._link.update(session.client_id, chunk_of("agent_message_chunk", text))
        return {"stopReason": "end_turn"}

    async def _text_of(self, session: AttachedSession, command: OurCommand) -> str:
        match command:
            case "why":
                return str(await session.handle.why())
            case "tree":
                root = (await session.handle.info()).root
                return tree_text(await self._sup.tree(root))
            case "budget":
                return budget_text(await session.handle.info())

    async def _steer(self, params: _Params) -> object:
        client_id, content = _session_id(params), parse_prompt(params)
        meta = as_mapping(as_mapping(params.get("_meta")).get("steering"))
        session = await self._book.opened(client_id)
        waiting = session.jobs.steer(
            PromptInput(content.text, trace=content.trace),
            starts_turn=meta.get("idleBehavior") != "promptRequired",
        )
        return await self._wait(session, waiting)

    async def _cancel(self, params: Any) -> None:  # noqa: ANN401 - any JSON value
        await trio.lowlevel.checkpoint()
        session_id = as_mapping(params).get("sessionId")
        session = self._book.attached(session_id) if isinstance(session_id, str) else None
        if session is not None:
            with suppress(RpcError):
                session.jobs.cancel()

    # Options ------------------------------------------------------------------------------

    async def _set_mode(self, params: _Params) -> object:
        await self._book.opened(_session_id(params))
        raise RpcError(INVALID_PARAMS, "the session has no modes; see its configOptions")

    async def _set_config_option(self, params: _Params) -> object:
        session = await self._book.opened(_session_id(params))
        option = params.get("configId")
        if not isinstance(option, str):
            raise RpcError(INVALID_PARAMS, "configId must be text")
        chosen = await self._book.choose(session, option, params.get("value"))
        chosen.go_live()
        return {"configOptions": self._book.options_of(chosen)}

    # Unstable -----------------------------------------------------------------------------

    async def _fork(self, params: _Params) -> object:
        handle = await self._book.find(_session_id(params))
        given = client_servers(params)
        session = await self._book.attach(await handle.fork(), replay=False)
        await self._give_servers(session, given)
        return {"sessionId": session.client_id, **self._opened(session, given)}

    async def _set_title(self, params: _Params) -> object:
        handle = await self._book.find(_session_id(params))
        title = params.get("title")
        if not isinstance(title, str) or not title.strip():
            raise RpcError(INVALID_PARAMS, "title must be text")
        await handle.set(title=" ".join(title.split()))
        return {"title": (await handle.info()).title}

    async def _archive(self, params: _Params) -> object:
        client_id = _session_id(params)
        handle = await self._book.find(client_id)
        await handle.stop()
        await handle.archive()
        self._book.detach(client_id)
        return {}

    async def _unarchive(self, params: _Params) -> object:
        await (await self._book.find(_session_id(params))).unarchive()
        return {}

    async def _status(self, params: _Params) -> object:
        client_id = _session_id(params)
        info: Info = await (await self._book.find(client_id)).info()
        is_active = info.phase not in (Phase.STOPPED, Phase.SUSPENDED)
        return {
            "status": "open" if is_active else "saved",
            "_meta": {
                "understudy": {"badge": info.badge, "lastActiveAt": iso_time(info.last_active_at)}
            },
        }


def _session_id(params: _Params) -> str:
    session_id = as_name(params.get("sessionId"), max_letters=_MAX_ID_LETTERS)
    if session_id is None:
        raise RpcError(INVALID_PARAMS, "sessionId must be text")
    return session_id


def _folder(params: _Params) -> str:
    """Return the absolute path in `cwd`."""
    cwd = as_name(params.get("cwd"), max_letters=_MAX_PATH_LETTERS)
    if cwd is None or "\0" in cwd or not PurePosixPath(cwd).is_absolute():
        raise RpcError(INVALID_PARAMS, "cwd must be an absolute path")
    return cwd
