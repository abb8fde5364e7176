"""Our slash commands: they are answered at once, and are no input of the session. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Literal, TypeAlias, get_args

from supervisor.core.info import Info, Node
from supervisor.drivers.acp.content import as_list, as_mapping, as_text

OurCommand: TypeAlias = Literal["why", "tree", "budget"]

PREFIX: Final = "understudy:"
_DESCRIPTIONS: Final[Mapping[OurCommand, str]] = {
    "why": "Explain what the session waits for.",
    "tree": "Show the session and its descendants.",
    "budget": "Show what is used, and what is left.",
}
_UNITS: Final = ("turns", "tokens", "cost", "wall_seconds")


def available_commands(agent_commands: object) -> list[dict[str, Any]]:
    """Return the agent's commands and ours."""
    theirs = [_command(one) for one in as_list(agent_commands)]
    ours = [{"name": PREFIX + name, "description": said} for name, said in _DESCRIPTIONS.items()]
    return [*(one for one in theirs if one is not None), *ours]


def _command(value: object) -> dict[str, Any] | None:
    fields = as_mapping(value)
    name = as_text(fields.get("name"))
    if not name:
        return None
    command: dict[str, Any] = {
        "name": name,
        "description": as_text(fields.get("description")) or "",
    }
    hint = as_text(as_mapping(fields.get("input")).get("hint"))
    return command if hint is None else command | {"input": {"hint": hint}}


def our_command(text: str) -> OurCommand | None:
    """Return the command that a prompt is; None for any other prompt."""
    word = text.strip().removeprefix("/" + PREFIX)
    is_ours = text.strip().startswith("/" + PREFIX)
    return next((one for one in get_args(OurCommand) if is_ours and one == word), None)


def tree_text(nodes: Sequence[Node]) -> str:
    """Return the tree as an indented list."""
    return "\n".join(_lines(nodes)) or "The session has stopped and has no live descendant."


def _lines(nodes: Iterable[Node]) -> Iterable[str]:
    waiting = [(node, 0) for node in reversed(list(nodes))]
    while waiting:
        node, depth = waiting.pop()
        name = node.name or node.title or node.role or node.id
        yield f"{'  ' * depth}- {name} ({node.agent}, {node.badge})"
        waiting += [(child, depth + 1) for child in reversed(node.children)]


def budget_text(info: Info) -> str:
    """Return what the session and its descendants have used, and the limits."""
    lines = []
    for unit in _UNITS:
        used, allowed = getattr(info.spent, unit), getattr(info.limits, unit, None)
        of = "" if allowed is None else f" of {allowed:g}"
        lines.append(f"- {unit.replace('_', ' ')}: {used:g}{of}")
    return "\n".join(lines)
