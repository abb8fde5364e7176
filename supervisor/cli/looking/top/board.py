"""What stands on the board, which line is chosen, and what a key means there.

Rule 1: no terminal and no clock in here: keys go in, wishes come out.
Rule 2: whoever is chosen stays chosen, wherever the line moves; when it goes, its neighbour is.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

import attrs

if TYPE_CHECKING:
    from supervisor.core.info import Node
    from supervisor.sessions.inbox import PermissionRequest

Deed: TypeAlias = Literal["interrupt", "interrupt_tree", "steer", "send", "stop"]

# What each key does to the session that is chosen; the second word is shown below the board.
DEEDS: Final[dict[str, tuple[Deed, str]]] = {
    "i": ("interrupt", "interrupt"),
    "t": ("interrupt_tree", "interrupt its tree"),
    "s": ("steer", "steer"),
    "m": ("send", "send"),
    "x": ("stop", "stop"),
}
TYPED: Final[frozenset[Deed]] = frozenset({"steer", "send"})
_MOST_LETTERS: Final = 2_000


@attrs.frozen
class Wish:
    """What is to be done, and to whom."""

    deed: Deed
    session_id: str
    text: str = ""


@attrs.define
class Board:
    """The state of the board."""

    lines: list[tuple[int, Node]] = attrs.field(factory=list)
    requests: Sequence[PermissionRequest] = ()
    chosen: str | None = None
    # What is being typed, and for which deed; None while keys are commands.
    typing: Deed | None = None
    typed: str = ""
    is_over: bool = False

    def put(self, roots: Sequence[Node], requests: Sequence[PermissionRequest] = ()) -> None:
        """These are the sessions now, and what they ask, the oldest first."""
        place = self.place
        self.requests = requests
        self.lines = [line for root in roots for line in _flat(root, 0)]
        ids = [node.id for _, node in self.lines]
        if self.chosen not in ids:
            self.chosen = ids[min(place, len(ids) - 1)] if ids else None

    @property
    def place(self) -> int:
        """The number of the chosen line, from 0."""
        ids = [str(node.id) for _, node in self.lines]
        return ids.index(self.chosen) if self.chosen in ids else 0

    def press(self, key: str) -> Wish | None:
        """A key was pressed; gives what is to be done, if that is complete."""
        if self.typing is not None:
            return self._type(key)
        if key in ("q", "escape"):
            self.is_over = True
        elif key in ("up", "k"):
            self._move(-1)
        elif key in ("down", "j"):
            self._move(1)
        elif key in DEEDS and self.chosen is not None:
            deed = DEEDS[key][0]
            if deed not in TYPED:
                return Wish(deed, self.chosen)
            self.typing, self.typed = deed, ""
        return None

    def _move(self, by: int) -> None:
        if self.lines:
            place = min(max(self.place + by, 0), len(self.lines) - 1)
            self.chosen = self.lines[place][1].id

    def _type(self, key: str) -> Wish | None:
        if key == "enter":
            deed, text, self.typing = self.typing, self.typed.strip(), None
            if deed is not None and text and self.chosen is not None:
                return Wish(deed, self.chosen, text)
        elif key == "escape":
            self.typing = None
        elif key == "backspace":
            self.typed = self.typed[:-1]
        elif len(key) == 1 and key.isprintable() and len(self.typed) < _MOST_LETTERS:
            self.typed += key
        return None


def _flat(node: Node, depth: int) -> Iterator[tuple[int, Node]]:
    yield depth, node
    for child in node.children:
        yield from _flat(child, depth + 1)
