"""All tools of agents, in the order in which clients get them."""

from __future__ import annotations

from typing import Final

from .session_tool import SessionTool
from .tools import agents_tool, spawn_tool

TOOLS: Final[tuple[SessionTool, ...]] = (
    agents_tool.TOOL,
    spawn_tool.TOOL,
)
