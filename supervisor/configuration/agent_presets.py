"""Presets: the commands of well-known agents, and how to install them.

Rule 1: nothing is downloaded. A preset starts a program on the PATH; if there is none, its hint
        says what to install.
Rule 2: the values of an agent's own table win over those of its preset.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

import attrs

from .agent_table import Driver

if TYPE_CHECKING:
    from supervisor.drivers.acp.agent_spec import LoginHelp


@attrs.frozen
class Preset:
    """A well-known agent; `found_at` is its program's path, None if it is not installed."""

    name: str
    command: tuple[str, ...]
    found_at: str | None
    driver: Driver
    hint: str
    # Further values of the table of a `command` agent.
    options: Mapping[str, Any] = attrs.field(factory=dict)


@attrs.frozen
class _PresetEntry:
    """A preset before its program is searched; the first installed command is used."""

    commands: tuple[str, ...]
    hint: str
    driver: Driver = "acp"
    options: Mapping[str, Any] = attrs.field(factory=dict)
    # What to run to log in, and the variable that can hold a key instead.
    login: str | None = None
    key: str | None = None


_PRESETS: Final[Mapping[str, _PresetEntry]] = MappingProxyType(
    {
        "claude": _PresetEntry(
            # The adapter was renamed; older installations have the second name.
            ("claude-agent-acp", "claude-code-acp"),
            "npm install -g @agentclientprotocol/claude-agent-acp",
            login="run `claude` once (npm install -g @anthropic-ai/claude-code), leave with /exit",
            key="ANTHROPIC_API_KEY",
        ),
        "codex": _PresetEntry(
            ("codex-acp",),
            "npm install -g @agentclientprotocol/codex-acp",
            login="run `codex login` (npm install -g @openai/codex)",
        ),
        "gemini": _PresetEntry(
            ("gemini --acp",),
            "npm install -g @google/gemini-cli; older versions need `gemini --experimental-acp`",
            login="run `gemini` once and choose how to log in",
            key="GEMINI_API_KEY",
        ),
        "copilot": _PresetEntry(
            ("copilot --acp",),
            "npm install -g @github/copilot",
            login="run `copilot` once and write /login",
            key="COPILOT_GITHUB_TOKEN",
        ),
        "qwen": _PresetEntry(
            ("qwen --acp",),
            "npm install -g @qwen-code/qwen-code",
            login="run `qwen` once and log in there",
        ),
        "opencode": _PresetEntry(
            ("opencode acp",), "npm install -g opencode-ai", login="run `opencode auth login`"
        ),
        "kimi": _PresetEntry(
            ("kimi acp",),
            "npm install -g @moonshot-ai/kimi-code",
            login="run `kimi` once and log in there",
        ),
        "goose": _PresetEntry(
            ("goose acp",),
            "install the goose CLI, then run `goose configure`",
            login="run `goose configure`",
        ),
        "hermes": _PresetEntry(
            ("hermes acp", "hermes-acp"),
            "uv tool install 'hermes-agent[acp]'",
            login="run `hermes` once and log in there",
        ),
        "cursor": _PresetEntry(
            ("cursor-agent acp",),
            "install the Cursor CLI, then `cursor-agent login`",
            login="run `cursor-agent login`",
        ),
        "vibe": _PresetEntry(
            ("vibe-acp",),
            "uv tool install mistral-vibe",
            login="run `vibe` once and log in there",
            key="MISTRAL_API_KEY",
        ),
        "auggie": _PresetEntry(
            ("auggie --acp",),
            "npm install -g @augmentcode/auggie",
            login="run `auggie login`",
        ),
        "cline": _PresetEntry(
            ("cline --acp",), "npm install -g cline", login="run `cline` once and log in there"
        ),
        "claude-print": _PresetEntry(
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
        "codex-exec": _PresetEntry(
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

PRESET_NAMES: Final = tuple(_PRESETS)


def presets(environ: Mapping[str, str]) -> list[Preset]:
    """Return all presets in their order, each searched on the PATH."""
    return [find_preset(name, environ) for name in PRESET_NAMES]


def find_preset(name: str, environ: Mapping[str, str]) -> Preset:
    """Return the preset of a name, which is one of `PRESET_NAMES`."""
    known = _PRESETS[name]
    commands = [tuple(command.split()) for command in known.commands]
    for command in commands:
        found_at = find_program(command, environ)
        if found_at is not None:
            return Preset(name, command, found_at, known.driver, known.hint, known.options)
    return Preset(name, commands[0], None, known.driver, known.hint, known.options)


def login_help(name: str) -> LoginHelp | None:
    """Return how to log in to the agent of a preset; None for an agent that is a command."""
    from supervisor.drivers.acp.agent_spec import LoginHelp  # noqa: PLC0415 - drivers are slow to import

    known = _PRESETS[name]
    return None if known.login is None else LoginHelp(known.login, known.key, name)


def find_program(command: tuple[str, ...], environ: Mapping[str, str]) -> str | None:
    """Return the path of the program of a command; None if it is not installed."""
    return shutil.which(command[0], path=environ.get("PATH", ""))
