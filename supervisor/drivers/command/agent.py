"""An agent that is a command: `claude -p`, `codex exec`, any script."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, Literal, TypeAlias, get_args

import attrs

from supervisor.core.errors import ConfigError, shown
from supervisor.drivers.port import Office, Workshop
from supervisor.drivers.process.environment import environment_for
from supervisor.drivers.process.given import checked_env, words_of
from supervisor.drivers.process.port import Launch

from .output import JsonLinesOutput, Output, TextOutput
from .places import Place, parse_place
from .words import PROMPT, SESSION_ID, fill_in, has

OutputForm: TypeAlias = Literal["text", "json_lines"]


@attrs.frozen(kw_only=True)
class CommandAgent:
    """One process a turn; `supervisor.command(...)` makes one, and says what its fields are."""

    name: str
    command: tuple[str, ...]
    env: Mapping[str, str] = attrs.field(factory=dict, repr=False)  # there may be keys in it
    resume_command: tuple[str, ...] = ()
    output: OutputForm = "text"
    text: Place | None = None
    session_id_at: Place | None = None
    # It has a process only while a turn runs, and waits for room then.
    runs_process: ClassVar[bool] = False

    def make_driver(self, office: Office, workshop: Workshop) -> Any:  # noqa: ANN401 - a CommandDriver
        """A driver for one session."""
        from .driver import CommandDriver  # noqa: PLC0415 - it knows us too

        return CommandDriver(self, office, workshop)

    @property
    def keeps_conversations(self) -> bool:
        """Whether a turn can go on where the one before has ended."""
        return has((*self.command, *self.resume_command), SESSION_ID)

    def command_for(self, session_id: str | None) -> tuple[str, ...]:
        """The words for a turn of a conversation that has that name; None if it has none yet."""
        return self.resume_command if session_id and self.resume_command else self.command

    def takes_prompt_as_word(self, session_id: str | None) -> bool:
        """Whether the prompt is one of the words; else it is given by standard input."""
        return has(self.command_for(session_id), PROMPT)

    def launch(
        self, workspace: str | None, *, prompt: str, session_id: str | None, fresh: str
    ) -> Launch:
        """What is to run; `fresh` names a conversation that has no name."""
        words = fill_in(self.command_for(session_id), prompt=prompt, session_id=session_id or fresh)
        return Launch(words, environment_for(self.env), cwd=workspace or os.getcwd())  # noqa: PTH109 - a text

    def new_output(self) -> Output:
        """For one turn."""
        if self.output == "text":
            return TextOutput()
        assert self.text is not None
        return JsonLinesOutput(self.text, self.session_id_at)


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
    """An agent that is a command, run once for each turn, like `command("wc", ["wc", "-w"])`.

    The prompt takes the place of `{prompt}` in the command, or is given by standard input if that
    is nowhere; it must end by itself, and with code 0 if all is well. `output` says what it writes:
    `text`, or `json_lines`, of which `text` says where the text stands (`result`, `message.text`).

    `{session_id}` is the name of the conversation: made by us, or read from a line of its output at
    `session_id_at`. From when there is one, `resume_command` is run instead, if it is given. `env`
    is added to the few variables that every agent gets. Raises `ConfigError`.
    """
    if output is None:
        output = "text" if text is None and session_id_at is None else "json_lines"
    if output not in get_args(OutputForm):
        raise ConfigError(
            f"the output of agent {shown(name)} is {shown(output)}",
            hint=f"it is one of {', '.join(get_args(OutputForm))}",
        )
    if output == "text" and not (text is None and session_id_at is None):
        raise ConfigError(
            f"agent {shown(name)} puts out plain text, in which nothing has a place",
            hint='leave text and session_id_at out, or give output="json_lines"',
        )
    resumes = words_of(name, resume_command) if resume_command else ()
    if resumes and not has(resumes, SESSION_ID):
        raise ConfigError(
            f"the resume_command of agent {shown(name)} does not say which conversation",
            hint="put {session_id} among its words",
        )
    if not isinstance(name, str) or not name.strip():
        raise ConfigError(f"the name of an agent is {shown(name)}", hint="give it some text")
    return CommandAgent(
        name=name,
        command=words_of(name, command),
        env=checked_env(name, env),
        resume_command=resumes,
        output=output,
        text=parse_place("text", text or "text") if output == "json_lines" else None,
        session_id_at=None
        if session_id_at is None
        else parse_place("session_id_at", session_id_at),
    )
