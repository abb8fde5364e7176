"""What a model is asked and what it answers, without the form of a dialect."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final

import attrs

_SEPARATORS: Final = "[^A-Za-z0-9]+"


@attrs.frozen
class Tool:
    """A tool that the agent offers to the model; agents put a prefix before names of MCP tools."""

    name: str
    # Codex groups the tools of an MCP server under a name of their own.
    namespace: str = ""

    @property
    def full_name(self) -> str:
        """The name, after the namespace and a dot if it has one."""
        return f"{self.namespace}.{self.name}" if self.namespace else self.name


@attrs.frozen
class Said:
    """A text of the user."""

    text: str


@attrs.frozen
class Returned:
    """The result of a tool call."""

    text: str


@attrs.frozen
class Conversation:
    """A request to the model: the offered tools, texts and results in their order."""

    tools: tuple[Tool, ...]
    items: tuple[Said | Returned, ...]

    def find_tool(self, wanted: str) -> Tool | None:
        """Return the tool of this name, or the first whose name ends with it.

        `server.tool` also demands the server's name before the tool's, for a tool whose plain name
        is that of one of the agent's own tools.
        """
        words = _SEPARATORS.join(map(re.escape, wanted.split(".")))
        ending = re.compile(f"(?:.*[^A-Za-z0-9])?{words}")
        exact = [tool for tool in self.tools if tool.full_name == wanted]
        return next(
            iter(exact + [tool for tool in self.tools if ending.fullmatch(tool.full_name)]), None
        )


@attrs.frozen
class ToolCall:
    """A call that the model asks for."""

    tool: Tool
    arguments: dict[str, Any]


@attrs.frozen
class Reply:
    """An answer of the model: a text, a tool call, or both."""

    text: str
    call: ToolCall | None = None

    @property
    def pieces(self) -> list[str]:
        """The text in the pieces in which it is streamed, each word with the space before it."""
        return re.findall(r"\s*\S+|\s+", self.text)


def plain_text(content: object) -> str:
    """Return the text of a content: a string, or a list of parts of which some have a text."""
    if isinstance(content, str):
        return content
    if not isinstance(content, Iterable):
        return ""
    texts = [part.get("text") for part in content if isinstance(part, dict)]
    return "\n".join(text for text in texts if isinstance(text, str))
