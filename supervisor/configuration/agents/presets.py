"""Agents that many people have: how each is started, and how one gets it.

Rule 1: nothing is downloaded. A preset starts a program that is on the PATH, and if there is none,
        its hint says what to install.
Rule 2: a preset is only a beginning: whatever an agent's own table says wins.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

import attrs

from .table import Driver


@attrs.frozen
class Preset:
    """A well-known agent; `found_at` is its program's path, None if it is not installed."""

    name: str
    command: tuple[str, ...]
    found_at: str | None
    driver: Driver
    hint: str
    # What else its table would say, for a `command` agent.
    options: Mapping[str, Any] = attrs.field(factory=dict)


@attrs.frozen
class _Known:
    """A preset before anybody has looked for it: the first command that is there is taken."""

    commands: tuple[str, ...]
    hint: str
    driver: Driver = "acp"
    options: Mapping[str, Any] = attrs.field(factory=dict)


_KNOWN: Final[Mapping[str, _Known]] = MappingProxyType(
    {
        "claude": _Known(
            # The adapter had two other names before.
            ("claude-agent-acp", "claude-code-acp"),
            "npm install -g @agentclientprotocol/claude-agent-acp",
        ),
        "codex": _Known(("codex-acp",), "npm install -g @agentclientprotocol/codex-acp"),
        "gemini": _Known(
            ("gemini --acp",),
            'npm install -g @google/gemini-cli; an old one wants "gemini --experimental-acp"',
        ),
        "copilot": _Known(("copilot --acp",), "npm install -g @github/copilot"),
        "qwen": _Known(("qwen --acp",), "npm install -g @qwen-code/qwen-code"),
        "opencode": _Known(("opencode acp",), "npm install -g opencode-ai"),
        "kimi": _Known(("kimi acp",), "uv tool install kimi-cli"),
        "goose": _Known(("goose acp",), "install the goose CLI, then run `goose configure`"),
        "hermes": _Known(("hermes acp", "hermes-acp"), "uv tool install 'hermes-agent[acp]'"),
        "cursor": _Known(
            ("cursor-agent acp",), "install the Cursor CLI, then `cursor-agent login`"
        ),
        "vibe": _Known(("vibe-acp",), "uv tool install mistral-vibe"),
        "auggie": _Known(("auggie --acp",), "npm install -g @augmentcode/auggie"),
        "cline": _Known(("cline --acp",), "npm install -g cline"),
        "claude-print": _Known(
            ("claude -p --output-format stream-json --verbose",),
            "npm install -g @anthropic-ai/claude-code",
            "command",
            {
                "resume_command": (
                    *("claude", "-p", "--output-format", "stream-json", "--verbose"),
                    *("--resume", "{session_id}"),
                ),
                "output": "json_lines",
                "text": "[type=assistant].message.content[type=text].text",
                "session_id_at": "session_id",
            },
        ),
        "codex-exec": _Known(
            ("codex exec --json --skip-git-repo-check -",),
            "npm install -g @openai/codex",
            "command",
            {
                "resume_command": (
                    *("codex", "exec", "--json", "--skip-git-repo-check"),
                    *("resume", "{session_id}", "-"),
                ),
                "output": "json_lines",
                "text": "[type=item.completed].item[type=agent_message].text",
                "session_id_at": "thread_id",
            },
        ),
    }
)

NAMES: Final = tuple(_KNOWN)


def presets(environ: Mapping[str, str]) -> list[Preset]:
    """All of them, in the order in which they are listed; looks for each on the PATH."""
    return [preset(name, environ) for name in NAMES]


def preset(name: str, environ: Mapping[str, str]) -> Preset:
    """The preset of that name, which is one of `NAMES`."""
    known = _KNOWN[name]
    commands = [tuple(command.split()) for command in known.commands]
    for command in commands:
        found_at = find_program(command, environ)
        if found_at is not None:
            return Preset(name, command, found_at, known.driver, known.hint, known.options)
    return Preset(name, commands[0], None, known.driver, known.hint, known.options)


def find_program(command: tuple[str, ...], environ: Mapping[str, str]) -> str | None:
    """Where the program of a command is; None if it is not there, or cannot be run."""
    return shutil.which(command[0], path=environ.get("PATH", ""))
