"""Agents that are a command: `claude -p`, `codex exec`, any script."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import ClassVar, get_args

import attrs

from supervisor.core.errors import ConfigError, short_repr
from supervisor.drivers.port import DriverContext, DriverRuntime
from supervisor.drivers.process.environment import check_command, check_env

from .driver import CommandDriver
from .output import parse_json_path
from .placeholders import SESSION_ID, has_placeholder
from .template import CommandTemplate, OutputForm


@attrs.frozen(kw_only=True)
class CommandAgent(CommandTemplate):
    """An agent that is one process per turn; `supervisor.command(...)` makes one."""

    # A process exists only while a turn runs, so it waits for a process slot then.
    runs_process: ClassVar[bool] = False

    def make_driver(self, context: DriverContext, runtime: DriverRuntime) -> CommandDriver:
        """Return a new driver for one session."""
        return CommandDriver(self, context, runtime)


def command(
    name: str,
    command: Iterable[str],
    *,
    env: Mapping[str, str] | None = None,
    resume_command: Iterable[str] = (),
    output: OutputForm | None = None,
    text: str | None = None,
    session_id_at: str | None = None,
) -> CommandAgent:
    """Make an agent of a command that is run once per turn, like `command("wc", ["wc", "-w"])`.

    The prompt replaces `{prompt}` in the command; without that placeholder it goes to standard
    input. The command must exit by itself, with code 0 on success. `output` is the format of its
    output: `text`, or `json_lines`, where `text` is the path of the text in each line (`result`,
    `message.text`).

    `{session_id}` is replaced by the id of the conversation: made by us, or read from the output at
    the path `session_id_at`. Once a conversation has an id, `resume_command` is run instead, if it
    is given. `env` is added to the few variables that every agent inherits. Raises `ConfigError`.
    """
    if output is None:
        output = "text" if text is None and session_id_at is None else "json_lines"
    if output not in get_args(OutputForm):
        raise ConfigError(
            f"the output of agent {short_repr(name)} is {short_repr(output)}",
            hint=f"give one of {', '.join(get_args(OutputForm))}",
        )
    if output == "text" and not (text is None and session_id_at is None):
        raise ConfigError(
            f"agent {short_repr(name)} has plain text output, which takes no text or session_id_at",
            hint='omit text and session_id_at, or give output="json_lines"',
        )
    resumes = check_command(name, resume_command) if resume_command else ()
    if resumes and not has_placeholder(resumes, SESSION_ID):
        raise ConfigError(
            f"the resume_command of agent {short_repr(name)} has no conversation placeholder",
            hint="add {session_id} to it",
        )
    if not isinstance(name, str) or not name.strip():
        raise ConfigError(f"the name of an agent is {short_repr(name)}", hint="give a text")
    return CommandAgent(
        name=name,
        command=check_command(name, command),
        env=check_env(name, env),
        resume_command=resumes,
        output=output,
        text=parse_json_path("text", text or "text") if output == "json_lines" else None,
        session_id_at=None
        if session_id_at is None
        else parse_json_path("session_id_at", session_id_at),
    )
