"""What was allowed already.

An agent asks before it edits a file or runs a command, and then has us do it: that is one thing to
a person, who is not asked twice. So a yes covers the files that the question named until its turn
is over, and the command that it named: once, or for as long as the agent lives.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from supervisor.core.session import Decision
from supervisor.drivers.acp.news.tools import ToolFacts

# Changing a file is what these say that they do.
_WRITING: Final = frozenset({"edit", "delete", "move"})
MAX_GRANTS: Final = 1000


class Grants:
    """Those of one agent."""

    def __init__(self) -> None:
        self._paths: set[str] = set()
        # Each the texts by which one command is known; one that has run takes them all along.
        self._once: list[frozenset[str]] = []
        self._always: set[str] = set()

    def end_turn(self) -> None:
        """What was allowed for once is over."""
        self._paths.clear()
        self._once.clear()

    def add(self, facts: ToolFacts, decision: Decision, *, places: Iterable[str]) -> None:
        """Somebody has said yes; `places` are the real paths of what the question named."""
        if facts.kind in _WRITING:
            self._add(self._paths, places)
        elif facts.kind == "execute" and decision == "allow_always":
            self._add(self._always, facts.commands)
        elif facts.kind == "execute" and len(self._once) < MAX_GRANTS:
            self._once.append(facts.commands)

    def covers_write(self, path: str) -> bool:
        """Whether that file may be written without asking."""
        return path in self._paths

    def take_command(self, commands: frozenset[str]) -> bool:
        """Whether that command may run without asking; one that was allowed once is used up."""
        if commands & self._always:
            return True
        for known in self._once:
            if commands & known:
                self._once.remove(known)
                return True
        return False

    @staticmethod
    def _add(grants: set[str], more: Iterable[str]) -> None:
        for one in more:
            if len(grants) < MAX_GRANTS:
                grants.add(one)
