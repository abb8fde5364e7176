"""The table of docs/how-to/agents-in-processes.md has what the tests of real agents expect."""

from __future__ import annotations

from pathlib import Path

from tests.support.agent_table import COLUMNS
from tests.support.real_agents import REAL_AGENTS, RealAgent

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "agents-in-processes.md"
MARK = "<!-- tests/agents compares this table -->\n"


def table() -> list[list[str]]:
    """Return the cells of the rows, the first of which is the head."""
    text = PAGE.read_text().partition(MARK)[2].partition("\n\n")[0]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines()]
    return [rows[0], *rows[2:]]


def expected_row(agent: RealAgent) -> list[str]:
    """Return the cells of an agent without its version."""
    facts = (
        "stdio" in agent.transports,
        "http" in agent.transports,
        "MCP" in agent.asks_for,
        "shell" in agent.asks_for,
    )
    stdio, http, tool, shell = ("yes" if one else "no" for one in facts)
    ours = ", ".join(agent.transports)
    return [agent.name, stdio, http, ours, f"`{agent.tool_name}`", tool, shell]


def test_the_page_has_a_row_for_each_real_agent() -> None:
    head, *rows = table()

    assert tuple(head) == COLUMNS
    assert [[row[0], *row[2:]] for row in rows] == list(map(expected_row, REAL_AGENTS))
    assert all(row[1] for row in rows)
