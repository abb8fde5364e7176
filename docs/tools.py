"""Write the tables of the page of tools from the classes of their arguments and answers.

`python docs/tools.py` rewrites the descriptions and the tables in `reference/tools.md`, and keeps
the notes between them; a test compares the page with the code.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs

from supervisor.decode.json_schema import json_name, schema_of_object
from supervisor.mcp_server.session_tool import SessionTool
from supervisor.mcp_server.tool_list import ASSISTANT_TOOLS, TOOLS

PAGE = Path(__file__).parent / "reference" / "tools.md"
# The sections before those of the tools.
_OWN_SECTIONS = 3


def page(text: str) -> str:
    """Return the page with the sections of the tools as the code has them."""
    head, *sections = text.split("\n## ")
    own, tools = sections[:_OWN_SECTIONS], sections[_OWN_SECTIONS:]
    notes = {section.partition("\n")[0]: list(_notes(section)) for section in tools}
    named = {tool.name: tool for tool in TOOLS}
    others = [tool for tool in ASSISTANT_TOOLS if tool not in TOOLS]
    named |= {f"{tool.name} (assistant)": tool for tool in others}
    made = [_section(name, tool, notes.get(name, [])) for name, tool in named.items()]
    return "\n## ".join([head, *own, *made])


def _notes(section: str) -> Iterator[str]:
    """Yield the paragraphs between the description of a tool and its first table."""
    for paragraph in section.strip().split("\n\n")[2:]:
        if paragraph.startswith("| "):
            return
        yield paragraph


def _section(name: str, tool: SessionTool, notes: list[str]) -> str:
    arguments = list(_rows(tool.arguments))
    parts = [name, tool.description, *notes]
    if arguments:
        parts.append("\n".join(["| argument | meaning |", "|---|---|", *arguments]))
    parts.append("\n".join(["| answer | meaning |", "|---|---|", *_rows(tool.answer)]))
    return "\n\n".join(parts) + "\n"


def _rows(kind: type) -> Iterator[str]:
    """Yield a row for each field; that of a required argument has a star."""
    schema = schema_of_object(kind)
    needed = schema.get("required", ()) if kind.__name__.endswith("Arguments") else ()
    for field in attrs.fields(kind):
        name = json_name(field.name)
        described: dict[str, Any] = schema["properties"][name]
        default = described.get("default")
        meaning = [described["description"]]
        if default is not None and not isinstance(default, bool):
            meaning.append(f"default `{default}`")
        star = " *" if name in needed else ""
        yield f"| `{name}`{star} | {'; '.join(meaning)} |"


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text()))
