"""Fields of `understudy show`: options of the agent, permissions, limits and budgets."""

from __future__ import annotations

from collections.abc import Iterator

from supervisor.cli.text_format import format_duration
from supervisor.core.agent_options import find_option, value_text
from supervisor.core.info import Info
from supervisor.core.permissions import DEFAULT_MODE, RIGHTS

_STRUCTURE_LIMITS = ("max_depth", "max_children", "max_descendants", "max_spawns")


def option_fields(info: Info) -> Iterator[tuple[str, str]]:
    """Yield the options of the agent with their current values, and wishes that are not current."""
    texts = [f"{option.id} {value_text(option.current)}" for option in info.offered_options]
    texts += [f"wanted: {wish}" for wish in unmet_wishes(info)]
    if texts:
        yield "options", ", ".join(texts)


def unmet_wishes(info: Info) -> Iterator[str]:
    """Yield the wanted values that are not current: not set yet, or refused by the agent."""
    for name, value in info.options.items():
        option = find_option(info.offered_options, name)
        if option is None or value_text(option.current) != value_text(value):
            yield f"{name if option is None else option.id} {value_text(value)}"


def rights_fields(info: Info) -> Iterator[tuple[str, str]]:
    """Yield the permission mode with the rights that are restricted, the limits and the budgets."""
    rights = [
        f"{right}: {', '.join(sorted(names)) or 'none'}"
        for right in RIGHTS
        if (names := getattr(info.permissions, right)) is not None
    ]
    yield "permits", "; ".join([info.permissions.mode or DEFAULT_MODE, *rights])
    limits = (f"{name} {getattr(info.limits, name)}" for name in _STRUCTURE_LIMITS)
    yield "limits", ", ".join(limits)
    budgets = ", ".join(_budgets(info))
    if budgets:
        yield "budgets", budgets


def _budgets(info: Info) -> Iterator[str]:
    limits, spent = info.limits, info.spent
    if limits.turns is not None:
        yield f"turns {spent.turns} of {limits.turns}"
    if limits.tokens is not None:
        yield f"tokens {spent.tokens} of {limits.tokens}"
    if limits.cost is not None:
        yield f"cost {spent.cost:g} of {limits.cost:g}"
    if limits.wall_seconds is not None:
        used = format_duration(spent.wall_seconds)
        yield f"wall {used} of {format_duration(limits.wall_seconds)}"
