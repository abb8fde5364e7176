"""Real agents call our tools: they spawn a child, wait for it, and read what it said.

Nothing is configured: the agent gets the server by itself, over the bridge, or over HTTP if it
takes no server over stdio. The child is a real process of the scripted agent: it needs no model.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import attrs
import pytest

from supervisor.cli.doctor.hand_over_proof import prove_hand_over
from supervisor.drivers.agent_tools import ToolsSetting
from tests.support.agent_installation import Installed
from tests.support.agent_runs import (
    HELPER,
    AgentRun,
    Played,
    open_agent_run,
    open_agent_run_in_daemon,
    open_configured_agent,
)
from tests.support.agent_table import AgentTable

pytestmark = pytest.mark.agents

SERVER: Final = "understudy"
COLUMN: Final = "calls our tools"
CHILD: Final = "reader"
CALLS: Final[tuple[tuple[str, Mapping[str, Any]], ...]] = (
    ("agents", {}),
    ("spawn", {"agent": HELPER, "name": CHILD, "text": "say found it below"}),
    ("wait", {"sessions": [CHILD], "seconds": 30}),
    ("read", {"session": CHILD, "what": "result"}),
)


async def calls_on_record(run: AgentRun) -> list[tuple[str, str, str, str | None]]:
    """Return caller, tool, outcome and target of each call of our tools."""
    turns = await run.session.history()
    records = (one.body for turn in turns for one in turn.records if one.kind == "mcp_call")
    return [(one["caller"], one["tool"], one["outcome"], one["target"]) for one in records]


async def test_an_agent_spawns_a_child_waits_for_it_and_reads_its_result(
    installed: Installed, tmp_path: Path, table: AgentTable
) -> None:
    """An agent that takes no server over stdio gets none without a port; a warning says so."""
    async with open_agent_run(installed, tmp_path) as run:
        played = await run.prompt(installed.agent.script(SERVER, *CALLS))
        is_whole = await is_played_whole(run, played)

    takes_stdio = "stdio" in installed.agent.transports
    assert is_whole == takes_stdio, played.text
    assert bool(played.warnings) == (not takes_stdio)
    if is_whole:
        table.add(installed.agent.name, COLUMN, "stdio")


async def test_an_agent_calls_our_tools_over_http(
    installed: Installed, tmp_path: Path, table: AgentTable
) -> None:
    """An agent that takes no server over stdio is known, and needs no setting for it."""
    tools: ToolsSetting = "http" if "stdio" in installed.agent.transports else "auto"
    async with open_agent_run_in_daemon(installed, tmp_path, tools=tools) as run:
        played = await run.prompt(installed.agent.script(SERVER, *CALLS))
        is_whole = await is_played_whole(run, played)

    assert is_whole == ("http" in installed.agent.transports), played.text
    if is_whole:
        table.add(installed.agent.name, COLUMN, "http")


async def test_a_refused_call_of_our_tools_starts_no_child(
    installed: Installed, tmp_path: Path
) -> None:
    """An agent that asks a person before it calls a tool asks before it calls ours."""
    if "stdio" not in installed.agent.transports:
        pytest.skip("it has no tools here")
    async with open_agent_run(installed, tmp_path) as run:
        played = await run.prompt(installed.agent.script(SERVER, CALLS[1]), decision="reject_once")
        (top,) = await run.sup.tree(run.session.id)
        recorded = await calls_on_record(run)

    asks = "MCP" in installed.agent.asks_for
    assert bool(played.questions) == asks
    assert len(top.children) == len(recorded) == (0 if asks else 1)


async def test_doctor_proves_that_an_agent_asks_for_our_tools(
    installed: Installed, tmp_path: Path
) -> None:
    """Without a prompt: each asks when its session begins."""
    name, way = installed.agent.name, installed.agent.transports[0]
    async with open_configured_agent(installed, tmp_path) as agent:
        made = attrs.evolve(agent, tools=way)
        found = await prove_hand_over([made], {name: way}, seconds=60.0)

    assert found[name].level == "ok", found[name]


async def is_played_whole(run: AgentRun, played: Played) -> bool:
    """Return True if the child is in the tree, all calls on record, and its text in the answer.

    Otherwise nothing of it may be there.
    """
    caller = run.session.id
    (top,) = await run.sup.tree(caller)
    recorded = await calls_on_record(run)
    if not top.children:
        assert recorded == []
        return False
    (child,) = top.children
    assert (child.name, child.agent) == (CHILD, HELPER)
    assert recorded == [
        (caller, "agents", "ok", None),
        *((caller, tool, "ok", child.id) for tool in ("spawn", "wait", "read")),
    ]
    assert "found it below" in played.text
    return True
