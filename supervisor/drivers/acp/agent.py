"""An agent that speaks the Agent Client Protocol over its standard input and output."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, Final

import attrs

from supervisor.core.errors import ConfigError, shown
from supervisor.core.limits import number
from supervisor.drivers.port import Office, Workshop
from supervisor.drivers.process.environment import environment_for
from supervisor.drivers.process.given import checked_env, words_of
from supervisor.drivers.process.port import Launch

HANDSHAKE_SECONDS: Final = 60.0


@attrs.frozen
class AcpAgent:
    """Any agent that speaks ACP; `supervisor.acp(...)` makes one."""

    name: str
    command: tuple[str, ...]
    env: Mapping[str, str] = attrs.field(factory=dict, repr=False)  # there may be keys in it
    auth: str | None = None
    mcp_servers: tuple[Mapping[str, Any], ...] = attrs.field(default=(), repr=False)
    mode: str | None = None
    options: Mapping[str, str | bool] = attrs.field(factory=dict)
    handshake_seconds: float = attrs.field(
        default=HANDSHAKE_SECONDS, validator=number(least=0.0, finite=True)
    )
    runs_process: ClassVar[bool] = True

    def make_driver(self, office: Office, workshop: Workshop) -> Any:  # noqa: ANN401 - an AcpDriver
        """A driver for one session."""
        from supervisor.drivers.acp.life.driver import AcpDriver  # noqa: PLC0415 - it knows us too

        return AcpDriver(self, office, workshop)

    def launch(self, workspace: str | None) -> Launch:
        """What is to run for a session that works there."""
        return Launch(self.command, environment_for(self.env), cwd=workspace or os.getcwd())  # noqa: PTH109 - a text


def acp(
    name: str,
    command: Iterable[str],
    *,
    env: Mapping[str, str] | None = None,
    auth: str | None = None,
    mcp_servers: Iterable[Mapping[str, Any]] = (),
    mode: str | None = None,
    options: Mapping[str, str | bool] | None = None,
    handshake_seconds: float = HANDSHAKE_SECONDS,
) -> AcpAgent:
    """An agent that is a process and speaks ACP, like `acp("gemini", ["gemini", "--acp"])`.

    `env` is added to the few variables that every agent gets. `auth` is the id of the method by
    which to authenticate if the agent asks for that. `mcp_servers` are offered to it as far as
    the session's permissions allow, by their names. `mode` and `options` are chosen when a
    conversation begins, and again when another process goes on with it; an agent that does not
    offer them when it begins does not come up. Raises `ConfigError`.
    """
    return AcpAgent(
        _text("name", name),
        words_of(name, command),
        checked_env(name, env),
        None if auth is None else _text("auth", auth),
        _servers(name, mcp_servers),
        None if mode is None else _text("mode", mode),
        _options(name, options),
        handshake_seconds,
    )


def scripted_process(name: str = "scripted-process", flags: Iterable[str] = ()) -> AcpAgent:
    """The scripted agent as a real process that speaks ACP; docs/reference/scripted.md has it all.

    It needs no model, and can be told to misbehave.
    """
    # -P: a folder called supervisor in the workspace is not ours.
    return acp(name, [sys.executable, "-P", "-m", "supervisor.drivers.scripted", *flags])


def _servers(name: str, servers: object) -> tuple[Mapping[str, Any], ...]:
    listed = tuple(servers) if isinstance(servers, Iterable) else (None,)
    for server in listed:
        if not isinstance(server, Mapping) or not isinstance(server.get("name"), str):
            raise ConfigError(
                f"an MCP server of agent {shown(name)} is {shown(server)}",
                hint='give {"name": ..., "command": ..., "args": [], "env": []} for each',
            )
    return tuple(dict(server) for server in listed)


def _options(name: str, options: object) -> dict[str, str | bool]:
    if options is None:
        return {}
    if not isinstance(options, Mapping) or not all(map(_is_option, options.items())):
        raise ConfigError(
            f"the options of agent {shown(name)} are {shown(options)}",
            hint='give {"option": "value"}, or True or False for a switch',
        )
    return dict(options)


def _is_option(item: tuple[object, object]) -> bool:
    option, value = item
    return isinstance(option, str) and bool(option.strip()) and isinstance(value, str | bool)


def _text(what: str, value: object) -> str:
    if not isinstance(value, str) or not value.strip():
        raise ConfigError(f"{what} is {shown(value)}", hint="give it some text")
    return value
