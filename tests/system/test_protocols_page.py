"""The page of the protocols lists the methods, revisions and tools of the code."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Final

from supervisor.acp_agent.acp_options import AcpOptions
from supervisor.acp_agent.acp_server import AcpServer
from supervisor.mcp_server.protocol import HANDSHAKE_REVISIONS, STATELESS_REVISIONS
from supervisor.mcp_server.tool_list import ASSISTANT_TOOLS, TOOLS
from tests.system.golden.player_acp import BY_HTTP

PAGE: Final = Path(__file__).parents[2] / "docs" / "reference" / "protocols.md"
STEPS, SERVER, SCOPES, STABLE, UNSTABLE = range(5)


def tables() -> list[dict[str, str]]:
    """Return each table as its first cells with their last ones; marks of code are left out."""
    found: list[dict[str, str]] = [{}]
    for line in PAGE.read_text().splitlines():
        if line.startswith("|-"):  # under the head
            continue
        if line.startswith("| "):
            first, *_, last = (cell.strip() for cell in line.strip("|").split("|"))
            found[-1][first.strip("`")] = last
        elif found[-1]:
            found.append({})
    return [dict(list(table.items())[1:]) for table in found]


def code(cell: str) -> tuple[str, ...]:
    return tuple(re.findall(r"`([^`]+)`", cell))


def acp_methods(*, unstable: bool) -> set[str]:
    nothing: Any = None
    server = AcpServer(nothing, nothing, AcpOptions(unstable=unstable), nothing)
    handlers = server.handlers()
    return {*handlers.requests, *handlers.notifications}


async def test_the_page_lists_the_methods_for_editors() -> None:
    stable = acp_methods(unstable=False)

    assert set(tables()[STABLE]) == stable
    assert set(tables()[UNSTABLE]) == acp_methods(unstable=True) - stable


def test_the_page_lists_the_steps_that_an_editor_cannot_do() -> None:
    assert tables()[STEPS] == BY_HTTP


def test_the_page_lists_the_revisions_of_the_server() -> None:
    listed = tables()[SERVER]

    assert code(listed["revisions with a handshake"]) == HANDSHAKE_REVISIONS
    assert code(listed["revisions without one"]) == STATELESS_REVISIONS


def test_the_page_lists_the_tools_of_each_scope() -> None:
    listed = {scope: list(code(cell)) for scope, cell in tables()[SCOPES].items()}

    assert listed == {
        "self": [tool.name for tool in TOOLS],
        "self,look": [tool.name for tool in TOOLS if tool.is_read_only],
        "all": [tool.name for tool in ASSISTANT_TOOLS],
    }
