"""Real agents: their packages, and how each is pointed at a model on loopback.

Rule 1: an agent gets an empty home of its own, a key that is none, and a proxy that lets nothing
        through; only the stand-in model and the MCP servers of the test are left to talk to.
Rule 2: reports of use and checks for updates are switched off where the agent has a switch.
Rule 3: an agent keeps its own settings of what it asks for, except where a comment says why.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import attrs

from supervisor.drivers.agent_tools import ToolsTransport

MODEL: Final = "stand-in"
KEY: Final = "no-real-key-0123456789"

# Write an agent's files into its home, and return its variables. The text is the model's address.
Configure = Callable[[Path, str], Mapping[str, str]]
# Return the steps of a script that call a tool: server, tool, arguments.
CallSteps = Callable[[str, str, Mapping[str, Any]], str]


def call_directly(server: str, tool: str, arguments: Mapping[str, Any]) -> str:
    """Return the step for an agent that offers the tools of MCP servers like its own."""
    return f"call {server}.{tool} {json.dumps(arguments)}"


def search_first(server: str, tool: str, arguments: Mapping[str, Any]) -> str:
    """Return the steps for Claude, which offers a tool after a search for it."""
    query = {"query": f"select:mcp__{server}__{tool}", "max_results": 5}
    return f"call ToolSearch {json.dumps(query)}\n{call_directly(server, tool, arguments)}"


def search_and_wrap(server: str, tool: str, arguments: Mapping[str, Any]) -> str:
    """Return the steps for Qwen, which never offers the tool itself, only a tool that calls it."""
    name = f"mcp__{server}__{tool}"
    query, wrapped = {"query": f"select:{name}"}, {"name": name, "arguments": arguments}
    return f"call tool_search {json.dumps(query)}\ncall tool_call {json.dumps(wrapped)}"


@attrs.frozen
class RealAgent:
    """An agent as its registry has it: what to install, how to start it, how to set it up."""

    name: str
    # Its name in the registry of npm.
    package: str
    command: tuple[str, ...]
    configure: Configure
    # The step that makes the agent's own shell create the file `made` in its workspace.
    shell_step: str
    # The name under which the model sees a tool of an MCP server.
    tool_name: str
    needs_node: int = 20
    call_steps: CallSteps = call_directly
    # Transports of MCP servers that reach the model; the tests fail if this changes.
    transports: tuple[ToolsTransport, ...] = ("stdio", "http")
    # What it asks a person for in its own settings: its shell, tools of MCP servers.
    asks_for: tuple[str, ...] = ("shell", "MCP")

    def script(self, server: str, *calls: tuple[str, Mapping[str, Any]]) -> str:
        """Return a script that calls tools of an MCP server, then says the last result."""
        steps = [self.call_steps(server, tool, arguments) for tool, arguments in calls]
        return "\n".join([*steps, "say the last result: {result}"])


def _claude(home: Path, url: str) -> Mapping[str, str]:
    return {
        "ANTHROPIC_BASE_URL": url,
        "ANTHROPIC_API_KEY": KEY,
        "ANTHROPIC_MODEL": "claude-sonnet-4-5",
        "CLAUDE_CONFIG_DIR": str(home / ".claude"),
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DISABLE_TELEMETRY": "1",
        "DISABLE_ERROR_REPORTING": "1",
        "DISABLE_AUTOUPDATER": "1",
    }


_CODEX_CONFIG: Final = f"""\
model = "{MODEL}"
model_provider = "loopback"
check_for_update_on_startup = false

[analytics]
enabled = false

[model_providers.loopback]
name = "loopback"
base_url = "URL/v1"
env_key = "LOOPBACK_KEY"
wire_api = "responses"
"""


def _codex(home: Path, url: str) -> Mapping[str, str]:
    folder = home / ".codex"
    folder.mkdir()
    (folder / "config.toml").write_text(_CODEX_CONFIG.replace("URL", url))
    return {
        "CODEX_HOME": str(folder),
        "LOOPBACK_KEY": KEY,
        # Its default mode asks a second model instead of a person.
        "INITIAL_AGENT_MODE": "workspace-write",
    }


def _gemini(home: Path, url: str) -> Mapping[str, str]:
    settings: dict[str, Any] = {
        "security": {"auth": {"selectedType": "gemini-api-key"}},
        "privacy": {"usageStatisticsEnabled": False},
        "telemetry": {"enabled": False},
        "general": {"enableAutoUpdate": False, "enableAutoUpdateNotification": False},
    }
    _write_json(home / ".gemini" / "settings.json", settings)
    return {
        "GEMINI_API_KEY": KEY,
        "GOOGLE_GEMINI_BASE_URL": url,
        "GEMINI_MODEL": "gemini-2.5-flash",
        # It starts no MCP server in a folder that it does not trust.
        "GEMINI_CLI_TRUST_WORKSPACE": "true",
    }


def _opencode(home: Path, url: str) -> Mapping[str, str]:
    provider = {
        "npm": "@ai-sdk/openai-compatible",
        "name": "loopback",
        "options": {"baseURL": f"{url}/v1", "apiKey": KEY},
        "models": {MODEL: {"name": MODEL, "tool_call": True}},
    }
    settings = {
        "autoupdate": False,
        "share": "disabled",
        "model": f"loopback/{MODEL}",
        "small_model": f"loopback/{MODEL}",
        "enabled_providers": ["loopback"],
        "provider": {"loopback": provider},
    }
    _write_json(home / ".config" / "opencode" / "opencode.json", settings)
    return {
        "OPENCODE_DISABLE_AUTOUPDATE": "1",
        "OPENCODE_DISABLE_MODELS_FETCH": "1",
        "OPENCODE_DISABLE_LSP_DOWNLOAD": "1",
        "OPENCODE_DISABLE_DEFAULT_PLUGINS": "1",
    }


def _qwen(home: Path, url: str) -> Mapping[str, str]:
    settings = {
        "security": {"auth": {"selectedType": "openai"}},
        "privacy": {"usageStatisticsEnabled": False},
        "general": {"disableAutoUpdate": True, "enableAutoUpdate": False},
    }
    _write_json(home / ".qwen" / "settings.json", settings)
    return {"OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": f"{url}/v1", "OPENAI_MODEL": MODEL}


def _copilot(home: Path, url: str) -> Mapping[str, str]:
    return {
        "COPILOT_HOME": str(home / ".copilot"),
        "COPILOT_AUTO_UPDATE": "false",
        "COPILOT_OFFLINE": "true",
        "COPILOT_PROVIDER_BASE_URL": f"{url}/v1",
        "COPILOT_PROVIDER_TYPE": "openai",
        "COPILOT_PROVIDER_API_KEY": KEY,
        "COPILOT_MODEL": MODEL,
    }


_KIMI_CONFIG: Final = f"""\
default_model = "{MODEL}"
telemetry = false

[models.{MODEL}]
provider = "loopback"
model = "{MODEL}"
max_context_size = 100000

[providers.loopback]
type = "openai"
base_url = "URL/v1"
api_key = "{KEY}"
"""


def _kimi(home: Path, url: str) -> Mapping[str, str]:
    folder = home / ".kimi-code"
    folder.mkdir()
    (folder / "config.toml").write_text(_KIMI_CONFIG.replace("URL", url))
    return {"KIMI_CODE_HOME": str(folder), "KIMI_CODE_NO_AUTO_UPDATE": "1"}


def _write_json(path: Path, value: object) -> None:
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(value))


REAL_AGENTS: Final = (
    RealAgent(
        "claude",
        "@agentclientprotocol/claude-agent-acp",
        ("claude-agent-acp",),
        _claude,
        tool_name="mcp__SERVER__TOOL",
        needs_node=22,
        call_steps=search_first,
        shell_step='call Bash {"command": "touch made", "description": "make a file"}',
    ),
    RealAgent(
        "codex",
        "@agentclientprotocol/codex-acp",
        ("codex-acp",),
        _codex,
        tool_name="mcp__SERVER.TOOL",
        asks_for=("MCP",),
        shell_step='call exec_command {"cmd": "touch made"}',
    ),
    RealAgent(
        "gemini",
        "@google/gemini-cli",
        ("gemini", "--acp"),
        _gemini,
        tool_name="mcp_SERVER_TOOL",
        shell_step='call run_shell_command {"command": "touch made"}',
    ),
    RealAgent(
        "opencode",
        "opencode-ai",
        ("opencode", "acp"),
        _opencode,
        tool_name="SERVER_TOOL",
        asks_for=(),
        shell_step='call bash {"command": "touch made", "description": "make a file"}',
    ),
    RealAgent(
        "qwen",
        "@qwen-code/qwen-code",
        ("qwen", "--acp"),
        _qwen,
        tool_name="mcp__SERVER__TOOL",
        needs_node=22,
        call_steps=search_and_wrap,
        shell_step='call run_shell_command {"command": "touch made", "is_background": false}',
    ),
    RealAgent(
        "copilot",
        "@github/copilot",
        ("copilot", "--acp"),
        _copilot,
        tool_name="SERVER-TOOL",
        transports=("http",),
        shell_step='call bash {"command": "touch made", "description": "make a file"}',
    ),
    RealAgent(
        "kimi",
        "@moonshot-ai/kimi-code",
        ("kimi", "acp"),
        _kimi,
        tool_name="mcp__SERVER__TOOL",
        needs_node=22,
        shell_step='call Bash {"command": "touch made"}',
    ),
)
