"""What an agent lets people choose from and see: modes, options, commands, a title, its context."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Self

import attrs

from supervisor.drivers.acp.reading import as_list, as_mapping, as_name, as_text, as_whole

from .content import bounded

MAX_BYTES: Final = 65536
TITLE_LETTERS: Final = 300
# The updates that change something here.
KINDS: Final = frozenset(
    {
        "available_commands_update",
        "current_mode_update",
        "config_option_update",
        "session_info_update",
        "usage_update",
    }
)


@attrs.frozen
class Surfaced:
    """As of the last update; the lists are plain data as the agent sent it, bounded."""

    mode: str | None = None
    modes: tuple[Mapping[str, Any], ...] = ()
    config_options: tuple[Mapping[str, Any], ...] = ()
    commands: tuple[Mapping[str, Any], ...] = ()
    title: str | None = None
    # How many tokens are in its context, and how many may be.
    context_used: int | None = None
    context_size: int | None = None

    def absorb_answer(self, answer: object) -> Self:
        """With what the answer to `session/new`, `/load` or `/resume` has about it."""
        given = as_mapping(answer)
        modes = as_mapping(given.get("modes"))
        return attrs.evolve(
            self,
            mode=as_name(modes.get("currentModeId")) or self.mode,
            modes=_objects(modes.get("availableModes")) or self.modes,
            config_options=_objects(given.get("configOptions")) or self.config_options,
        )

    def absorb(self, update: object) -> Self:
        """With what an update changes; what it leaves out stays as it is."""
        given = as_mapping(update)
        match given.get("sessionUpdate"):
            case "current_mode_update":
                mode = as_name(given.get("currentModeId"))
                return self if mode is None else attrs.evolve(self, mode=mode)
            case "config_option_update":
                return attrs.evolve(self, config_options=_objects(given.get("configOptions")))
            case "available_commands_update":
                return attrs.evolve(self, commands=_objects(given.get("availableCommands")))
            case "session_info_update" if "title" in given:
                title = as_text(given["title"])
                return attrs.evolve(self, title=title and title[:TITLE_LETTERS])
            case "usage_update":
                return attrs.evolve(
                    self,
                    context_used=as_whole(given.get("used")),
                    context_size=as_whole(given.get("size")),
                )
        return self


def _objects(value: object) -> tuple[Mapping[str, Any], ...]:
    made = bounded([item for item in as_list(value) if isinstance(item, dict)], MAX_BYTES)
    return tuple(item for item in made if isinstance(item, dict))
