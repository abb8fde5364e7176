"""All tools of agents, in the order in which clients get them."""

from __future__ import annotations

from typing import Final

from .session_tool import SessionTool
from .tools import (
    agents_tool,
    interrupt_tool,
    read_tool,
    send_tool,
    spawn_tool,
    stop_tool,
    tree_tool,
    wait_tool,
    why_tool,
)

TOOLS: Final[tuple[SessionTool, ...]] = (
    agents_tool.TOOL,
    spawn_tool.TOOL,
    send_tool.TOOL,
    wait_tool.TOOL,
    read_tool.TOOL,
    interrupt_tool.TOOL,
    stop_tool.TOOL,
    tree_tool.TOOL,
    why_tool.TOOL,
)
