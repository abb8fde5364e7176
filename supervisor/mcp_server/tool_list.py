"""All tools of agents, in the order in which clients get them."""

from __future__ import annotations

from typing import Final

from .session_tool import SessionTool
from .tools import agents_tool, send_tool, spawn_tool, wait_tool

TOOLS: Final[tuple[SessionTool, ...]] = (
    agents_tool.TOOL,
    spawn_tool.TOOL,
    send_tool.TOOL,
    wait_tool.TOOL,
)
