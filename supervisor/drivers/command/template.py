"""The command of an agent: its options, and the placeholders for prompt and conversation id.

`CommandTemplate.launch` returns the process to start for a turn.

Rule 1: only `{prompt}` and `{session_id}` are replaced, anywhere in a word; other braces belong to
        the command. The replacement text itself is not searched for placeholders.
Rule 2: a prompt never becomes an option. A word that would start with a dash because of the prompt
        gets a space before it, unless a word `--` before it ends the options.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from typing import Final, Literal, TypeAlias

import attrs

from supervisor.core.env_values import EnvValue
from supervisor.drivers.process.environment import agent_environment, require_variables
from supervisor.drivers.process.processes import Launch

from .output import CommandOutput, JsonLinesOutput, JsonPath, TextOutput

PROMPT: Final = "{prompt}"
SESSION_ID: Final = "{session_id}"
_PLACEHOLDER: Final = re.compile(r"\{(?:prompt|session_id)\}")


def has_placeholder(command: Iterable[str], placeholder: str) -> bool:
    """Return True if a word of the command contains the placeholder."""
    return any(placeholder in word for word in command)


def fill_placeholders(command: Iterable[str], *, prompt: str, session_id: str) -> tuple[str, ...]:
    """Return the words of the command for one turn."""
    values = {PROMPT: prompt, SESSION_ID: session_id}
    words: list[str] = []
    for word in command:
        filled = _PLACEHOLDER.sub(lambda found: values[found[0]], word)
        if word.startswith(PROMPT) and filled.startswith("-") and "--" not in words:
            filled = f" {filled}"
        words.append(filled)
    return tuple(words)


OutputForm: TypeAlias = Literal["text", "json_lines"]


@attrs.frozen(kw_only=True)
class CommandTemplate:
    """A command with placeholders; `supervisor.command(...)` documents the fields."""

    name: str
    command: tuple[str, ...]
    env: Mapping[str, EnvValue] = attrs.field(factory=dict, repr=False)  # may contain secrets
    resume_command: tuple[str, ...] = ()
    output: OutputForm = "text"
    text: JsonPath | None = None
    session_id_at: JsonPath | None = None
    # Where the variables are looked up that `env` names.
    environ: Mapping[str, str] = attrs.field(default=os.environ, repr=False, eq=False)

    @property
    def keeps_conversations(self) -> bool:
        """True if a turn can continue the conversation of the previous turn."""
        return has_placeholder((*self.command, *self.resume_command), SESSION_ID)

    def command_for(self, session_id: str | None) -> tuple[str, ...]:
        """Return the command for a conversation; None stands for a new conversation."""
        return self.resume_command if session_id and self.resume_command else self.command

    def takes_prompt_as_argument(self, session_id: str | None) -> bool:
        """Return True if the prompt is an argument; otherwise it goes to standard input."""
        return has_placeholder(self.command_for(session_id), PROMPT)

    def launch(
        self, workspace: str | None, *, prompt: str, session_id: str | None, new_session_id: str
    ) -> Launch:
        """Return the launch of one turn; `new_session_id` is the id of a new conversation.

        Raise `ConfigError` if a variable that `env` names is not set.
        """
        require_variables(self.name, self.env.values(), self.environ)
        words = fill_placeholders(
            self.command_for(session_id), prompt=prompt, session_id=session_id or new_session_id
        )
        environment = agent_environment(self.env, self.environ)
        return Launch(words, environment, cwd=workspace or os.getcwd())  # noqa: PTH109 - a str is needed

    def new_output(self) -> CommandOutput:
        """Return a parser for the output of one turn."""
        if self.output == "text":
            return TextOutput()
        assert self.text is not None
        return JsonLinesOutput(self.text, self.session_id_at)
