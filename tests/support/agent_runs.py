"""Runs of a real agent under a real supervisor, with a stand-in model and nothing else to reach.

`open_agent_run` opens everything and `AgentRun.prompt` plays one script. MCP servers are arguments,
so a scenario with other tools is another script: `RealAgent.script` writes it for each agent. An
agent also has our own tools; a run in a daemon gives them over HTTP.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import attrs
import trio

import supervisor
from supervisor import Decision, Session, Supervisor
from supervisor.drivers.acp.agent import AcpAgent
from supervisor.drivers.agent_tools import ToolsSetting

from .agent_installation import Installed
from .daemon_in_process import running, temporary_home
from .daemon_process import free_port
from .refusing_proxy import RefusingProxy, open_refusing_proxy
from .stand_in_model.conversation import Returned
from .stand_in_model.server import Asked, StandInModel, open_stand_in_model

RUN_SECONDS: Final = 180.0
PROMPT_SECONDS: Final = 90.0
_POLL_SECONDS: Final = 0.02
# The name of the scripted agent, which a real one may spawn.
HELPER: Final = "helper"


@attrs.frozen
class Played:
    """What came of one prompt."""

    text: str
    outcome: str
    error: str | None
    # The questions of the permission requests that the agent sent.
    questions: tuple[str, ...]
    # The requests to the model, those of the session's children too.
    asked: tuple[Asked, ...]
    # The warnings of the supervisor.
    warnings: tuple[str, ...]

    @property
    def results(self) -> tuple[str, ...]:
        """The results of tool calls that the model has seen, of all prompts, in their order."""
        # Agents also ask for a title or for notes, with less of the conversation or more of it.
        seen = (
            tuple(item.text for item in one.conversation.items if isinstance(item, Returned))
            for one in self.asked
        )
        return max(seen, key=len, default=())

    @property
    def tool_names(self) -> tuple[str, ...]:
        """The full names of the called tools; where a tool calls another by name, of the other."""
        calls = (one.reply.call for one in self.asked)
        return tuple(str(call.arguments.get("name", call.tool.full_name)) for call in calls if call)


@attrs.frozen
class AgentRun:
    """A session of a real agent, its model, and the proxy that it must not need."""

    sup: Supervisor
    session: Session
    model: StandInModel
    proxy: RefusingProxy
    workspace: Path

    async def prompt(self, text: str, *, decision: Decision = "allow_once") -> Played:
        """Play the script in the text; each permission request gets this decision."""
        first, questions = len(self.model.asked), list[str]()
        with trio.fail_after(PROMPT_SECONDS):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._answer_all, decision, questions)
                result = await self.session.prompt(text)
                nursery.cancel_scope.cancel()
        turns = await self.session.history()
        warnings = (
            str(one.body.get("detail", one.body))
            for one in turns[-1].records
            if one.kind == "warning"
        )
        return Played(
            result.text,
            result.outcome,
            result.error,
            tuple(questions),
            tuple(self.model.asked[first:]),
            tuple(warnings),
        )

    async def version(self) -> str | None:
        """Return the version that the agent reported when it started."""
        name = (await self.session.info()).agent
        return next(one.version for one in await self.sup.agents() if one.name == name)

    async def _answer_all(self, decision: Decision, questions: list[str]) -> None:
        while True:
            for request in await self.sup.permissions():
                questions.append(request.question)
                await self.sup.answer(request.id, decision)
            await trio.sleep(_POLL_SECONDS)


@attrs.frozen
class _Surroundings:
    """What a run has around its agent."""

    model: StandInModel
    proxy: RefusingProxy
    workspace: Path
    environ: Mapping[str, str]


@asynccontextmanager
async def _open_surroundings(installed: Installed, folder: Path) -> AsyncIterator[_Surroundings]:
    home, workspace = folder / "home", folder / "work"
    home.mkdir()
    workspace.mkdir()
    with trio.fail_after(RUN_SECONDS):
        async with open_refusing_proxy() as proxy, open_stand_in_model() as model:
            environ = {
                "PATH": installed.path,
                **_closed_off(home, proxy),
                **installed.agent.configure(home, model.url),
            }
            yield _Surroundings(model, proxy, workspace, environ)


@asynccontextmanager
async def open_agent_run(
    installed: Installed, folder: Path, *, servers: Iterable[Mapping[str, Any]] = ()
) -> AsyncIterator[AgentRun]:
    """Open a supervisor with this agent and an idle session of it; `folder` gets home and work."""
    async with _open_surroundings(installed, folder) as around:
        agent = supervisor.acp(
            installed.agent.name, installed.command, env=around.environ, mcp_servers=servers
        )
        helper = supervisor.scripted_process(HELPER)
        async with supervisor.open(":memory:", agents=[agent, helper]) as sup:
            yield await _begin(sup, installed, around)


@asynccontextmanager
async def open_agent_run_in_daemon(
    installed: Installed, folder: Path, *, tools: ToolsSetting
) -> AsyncIterator[AgentRun]:
    """Open a daemon that listens on TCP too; its agent gets our tools as `tools` says."""
    async with _open_surroundings(installed, folder) as around:
        text = _configuration(installed, around.environ, tools)
        with temporary_home(text) as home:
            async with running(home, seconds=RUN_SECONDS) as daemon:
                yield await _begin(daemon.sup, installed, around)


@asynccontextmanager
async def open_configured_agent(installed: Installed, folder: Path) -> AsyncIterator[AcpAgent]:
    """Yield the agent as a run has it, with its model, without a supervisor."""
    async with _open_surroundings(installed, folder) as around:
        yield supervisor.acp(installed.agent.name, installed.command, env=around.environ)


async def _begin(sup: Supervisor, installed: Installed, around: _Surroundings) -> AgentRun:
    session = await sup.create(installed.agent.name, workspace=str(around.workspace))
    return AgentRun(sup, session, around.model, around.proxy, around.workspace)


def _configuration(installed: Installed, environ: Mapping[str, str], tools: ToolsSetting) -> str:
    """Return the file of a daemon with the agent and the helper."""
    helper = supervisor.scripted_process(HELPER)
    # The strings and lists of JSON are those of TOML.
    return "\n".join(
        [
            f"[daemon]\ntcp_port = {free_port()}",
            f"[agents.{HELPER}]\ncommand = {json.dumps(list(helper.command))}",
            f"[agents.{installed.agent.name}]\ncommand = {json.dumps(installed.command)}",
            f"tools = {json.dumps(tools)}\n[agents.{installed.agent.name}.env]",
            *(f"{name} = {json.dumps(value)}" for name, value in environ.items()),
        ]
    )


def _closed_off(home: Path, proxy: RefusingProxy) -> dict[str, str]:
    """Return variables that leave an agent its home and the loopback."""
    folders = {"CONFIG": ".config", "DATA": ".local/share", "CACHE": ".cache", "STATE": ".state"}
    names = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")
    return {
        "HOME": str(home),
        **{f"XDG_{name}_HOME": str(home / path) for name, path in folders.items()},
        **dict.fromkeys([*names, *map(str.lower, names)], proxy.url),
        **dict.fromkeys(["NO_PROXY", "no_proxy"], "127.0.0.1,localhost"),
        "DO_NOT_TRACK": "1",
    }
