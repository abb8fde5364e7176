"""`understudy doctor --agents`: each agent is started, and asks for its tools or not."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from supervisor import acp, scripted_process
from supervisor.cli.doctor.hand_over_proof import prove_hand_over
from supervisor.drivers.agent_tools import ToolsTransport
from tests.support.cli_runner import Caller

ROOT = Path(__file__).parents[2]
EAGER = [sys.executable, "-I", "-S", str(ROOT / "tests" / "support" / "eager_agent.py")]


def tools_findings(call: Caller, home: Path, text: str) -> list[tuple[str, str]]:
    """Return level and detail of each finding about tools, after the one of the scripted agent."""
    file = home / "understudy.toml"
    file.write_text(text)
    file.chmod(0o600)
    done = call("doctor", "--agents", "--json")
    assert done.code == 0
    proof, *others = [one for one in done.json["findings"] if one["check"] == "tools"]
    assert proof["level"] == "ok"
    assert "has called a tool of its session" in proof["detail"]
    return [(one["level"], one["detail"]) for one in others]


def test_doctor_starts_each_agent_and_says_whether_it_asked(call: Caller, home: Path) -> None:
    plain, far, *others = tools_findings(
        call,
        home,
        f"[agents.plain]\ncommand = {json.dumps(EAGER)}\n"
        '[agents.far]\ncommand = "true"\ntools = "http"\n'
        '[agents.none]\ncommand = "true"\ntools = "off"\n'
        '[agents.print]\ndriver = "command"\ncommand = "true"\n'
        '[agents.closed]\ncommand = "true"\npermissions = {mcp_servers = ["files"]}\n'
        '[agents.broken]\ncommand = "true"\n',
    )

    assert plain[0] == "ok"
    assert plain[1].startswith("plain: tools over stdio; it was started and asked for them (")
    assert far == ("warning", "far takes tools over HTTP only, and the daemon has no port")
    *without, broken = others
    assert without == [
        ("ok", 'none: no tools, because of tools = "off"'),
        ("ok", "print: no MCP server, because it does not speak ACP"),
        ("ok", "closed: no tools, because its permissions do not name them"),
    ]
    assert broken[0] == "warning"
    assert "which is not proved: it did not start: " in broken[1]


@pytest.mark.parametrize("way", ["stdio", "http"])
async def test_an_agent_that_takes_the_tools_is_proved(way: ToolsTransport) -> None:
    agent = acp("eager", EAGER, tools=way)

    found = await prove_hand_over([agent], {"eager": way}, seconds=60.0)

    assert found["eager"].level == "ok"
    assert f"tools over {way}; it was started and asked" in found["eager"].detail


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        (["sleep", "1000"], "it did not start within"),
        (scripted_process().command, "it started, but did not ask for them within"),
    ],
)
async def test_an_agent_that_asks_for_nothing_is_not_proved(
    command: Sequence[str], reason: str
) -> None:
    agent = acp("quiet", command)

    found = await prove_hand_over([agent], {"quiet": "stdio"}, seconds=2.0)

    assert (found["quiet"].level, found["quiet"].code) == ("warning", "tools-unproved")
    assert reason in found["quiet"].detail
