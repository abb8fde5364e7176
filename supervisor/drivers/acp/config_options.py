"""The options that an ACP agent offers, read from its status.

Rule 1: an agent with modes and without a config option of category `mode` offers its modes as the
        option `mode`.
Rule 2: the offer is bounded, because it is part of the row of each session.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import attrs

from supervisor.core.agent_options import AgentOption, find_option

from .capabilities import AgentStatus
from .content import as_list, as_mapping, as_name, as_text

MODE: Final = "mode"

_MAX_OPTIONS: Final = 50
_MAX_VALUES: Final = 200
_MAX_LETTERS: Final = 200
# Of all values of an agent together.
_MAX_VALUE_LETTERS: Final = 8192


def offered_options(status: AgentStatus) -> tuple[AgentOption, ...]:
    """Return the options that the agent offers; what has a wrong form is left out."""
    found: dict[str, AgentOption] = {}
    for item in status.config_options:
        option = _parse_option(item)
        if option is not None:
            found.setdefault(option.id, option)
    if find_option(found.values(), MODE) is None and status.modes:
        found[MODE] = _mode_option(status)
    return tuple(_within_bounds(list(found.values())[:_MAX_OPTIONS]))


def _parse_option(item: Mapping[str, Any]) -> AgentOption | None:
    option_id = as_name(item.get("id"), max_letters=_MAX_LETTERS)
    if option_id is None:
        return None
    name = (as_text(item.get("name")) or option_id)[:_MAX_LETTERS]
    category = as_name(item.get("category"), max_letters=_MAX_LETTERS)
    current = item.get("currentValue")
    if item.get("type") == "boolean":
        return AgentOption(
            id=option_id,
            name=name,
            category=category,
            kind="boolean",
            current=current if isinstance(current, bool) else None,
        )
    return AgentOption(
        id=option_id,
        name=name,
        category=category,
        current=as_name(current, max_letters=_MAX_LETTERS),
        values=tuple(dict.fromkeys(_values(item.get("options")))),
    )


def _values(options: object) -> Iterator[str]:
    """Yield the values of a select, which may be in groups."""
    for item in as_list(options):
        fields = as_mapping(item)
        if "options" in fields:
            yield from _values(fields["options"])
        else:
            value = as_name(fields.get("value"), max_letters=_MAX_LETTERS)
            if value is not None:
                yield value


def _mode_option(status: AgentStatus) -> AgentOption:
    ids = (as_name(mode.get("id"), max_letters=_MAX_LETTERS) for mode in status.modes)
    return AgentOption(
        id=MODE,
        name="Mode",
        category=MODE,
        current=status.mode,
        values=tuple(dict.fromkeys(one for one in ids if one is not None)),
    )


def _within_bounds(options: list[AgentOption]) -> Iterator[AgentOption]:
    """Yield the options; values beyond the bounds are left out."""
    left = _MAX_VALUE_LETTERS
    for option in options:
        kept: list[str] = []
        for value in option.values[:_MAX_VALUES]:
            left -= len(value)
            if left < 0:
                break
            kept.append(value)
        has_more = len(kept) < len(option.values)
        yield attrs.evolve(option, values=tuple(kept), has_more=has_more)
