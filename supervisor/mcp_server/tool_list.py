"""All tools of agents, in the order in which clients get them."""

from __future__ import annotations

from typing import Final

from .assistant_tools import (
    agents_tool as assistant_agents_tool,
)
from .assistant_tools import create_tools, export_tool, input_tools, list_tool, session_tools
from .session_tool import SessionTool
from .tools import (
    agents_tool,
    ask_tool,
    inbox_tool,
    interrupt_tool,
    read_tool,
    search_tool,
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
    search_tool.TOOL,
    ask_tool.TOOL,
    inbox_tool.INBOX,
    inbox_tool.ANSWER,
)

# Those of a person's assistant, whose scope is every session.
ASSISTANT_TOOLS: Final[tuple[SessionTool, ...]] = (
    assistant_agents_tool.TOOL,
    list_tool.TOOL,
    create_tools.CREATE,
    create_tools.SPAWN,
    send_tool.TOOL,
    wait_tool.TOOL,
    read_tool.TOOL,
    interrupt_tool.TOOL,
    stop_tool.TOOL,
    tree_tool.TOOL,
    why_tool.TOOL,
    search_tool.TOOL,
    inbox_tool.INBOX,
    inbox_tool.ANSWER,
    session_tools.RESUME,
    create_tools.FORK,
    session_tools.CLEAR,
    session_tools.ARCHIVE,
    input_tools.INPUTS,
    input_tools.EDIT_INPUT,
    input_tools.CANCEL_INPUT,
    session_tools.SET_LIMITS,
    export_tool.TOOL,
)
