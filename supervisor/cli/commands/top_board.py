"""The board of `understudy top`: its lines, the selected line, and the meaning of keys.

Rule 1: no terminal and no clock in `Board`: keys go in, actions come out.
Rule 2: the selected session stays selected when its line moves; when it ends, its neighbour is
        selected.

Keys are read from the terminal one by one, without waiting for the end of a line.
"""

from __future__ import annotations

import codecs
import os
import termios
import tty
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

import attrs
import trio

if TYPE_CHECKING:
    from supervisor.core.info import Node
    from supervisor.sessions.inbox import PermissionRequest


ActionName: TypeAlias = Literal["interrupt", "interrupt_tree", "steer", "send", "stop"]

# What each key does to the selected session; the second word is shown below the board.
KEY_ACTIONS: Final[dict[str, tuple[ActionName, str]]] = {
    "i": ("interrupt", "interrupt"),
    "t": ("interrupt_tree", "interrupt its tree"),
    "s": ("steer", "steer"),
    "m": ("send", "send"),
    "x": ("stop", "stop"),
}

ACTIONS_WITH_TEXT: Final[frozenset[ActionName]] = frozenset({"steer", "send"})

_MAX_CHARACTERS: Final = 2_000


@attrs.frozen
class KeyAction:
    """An action and its session."""

    action: ActionName
    session_id: str
    text: str = ""


@attrs.define
class Board:
    """The state of the board."""

    lines: list[tuple[int, Node]] = attrs.field(factory=list)
    requests: Sequence[PermissionRequest] = ()
    selected_id: str | None = None
    # The text being typed, and its action; None while keys are commands.
    pending_action: ActionName | None = None
    typed_text: str = ""
    is_finished: bool = False

    def update(self, roots: Sequence[Node], requests: Sequence[PermissionRequest] = ()) -> None:
        """Set the current sessions and pending requests, oldest first."""
        place = self.selected_index
        self.requests = requests
        self.lines = [line for root in roots for line in _flatten(root, 0)]
        ids = [node.id for _, node in self.lines]
        if self.selected_id not in ids:
            self.selected_id = ids[min(place, len(ids) - 1)] if ids else None

    @property
    def selected_index(self) -> int:
        """The number of the selected line, from 0."""
        ids = [str(node.id) for _, node in self.lines]
        return ids.index(self.selected_id) if self.selected_id in ids else 0

    def press(self, key: str) -> KeyAction | None:
        """Handle a key; return an action when it is complete."""
        if self.pending_action is not None:
            return self._type(key)
        if key in ("q", "escape"):
            self.is_finished = True
        elif key in ("up", "k"):
            self._move(-1)
        elif key in ("down", "j"):
            self._move(1)
        elif key in KEY_ACTIONS and self.selected_id is not None:
            deed = KEY_ACTIONS[key][0]
            if deed not in ACTIONS_WITH_TEXT:
                return KeyAction(deed, self.selected_id)
            self.pending_action, self.typed_text = deed, ""
        return None

    def _move(self, by: int) -> None:
        if self.lines:
            place = min(max(self.selected_index + by, 0), len(self.lines) - 1)
            self.selected_id = self.lines[place][1].id

    def _type(self, key: str) -> KeyAction | None:
        if key == "enter":
            deed, text, self.pending_action = self.pending_action, self.typed_text.strip(), None
            if deed is not None and text and self.selected_id is not None:
                return KeyAction(deed, self.selected_id, text)
        elif key == "escape":
            self.pending_action = None
        elif key == "backspace":
            self.typed_text = self.typed_text[:-1]
        elif len(key) == 1 and key.isprintable() and len(self.typed_text) < _MAX_CHARACTERS:
            self.typed_text += key
        return None


def _flatten(node: Node, depth: int) -> Iterator[tuple[int, Node]]:
    yield depth, node
    for child in node.children:
        yield from _flatten(child, depth + 1)


_KEY_NAMES: Final = {
    "\x1b[A": "up",
    "\x1b[B": "down",
    "\x1bOA": "up",
    "\x1bOB": "down",
    "\r": "enter",
    "\n": "enter",
    "\x7f": "backspace",
    "\x08": "backspace",
    "\x1b": "escape",
}

_MAX_SEQUENCE: Final = 3


@contextmanager
def cbreak_mode(descriptor: int) -> Iterator[None]:
    """Read keys at once and without echo in the block; Ctrl-C stays Ctrl-C."""
    before = termios.tcgetattr(descriptor)
    tty.setcbreak(descriptor)
    try:
        yield
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)


async def read_keys(descriptor: int) -> AsyncIterator[str]:
    """Yield keys, special keys by name, until the terminal closes."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    while True:
        await trio.lowlevel.wait_readable(descriptor)
        data = os.read(descriptor, 1024)
        if not data:
            return
        for key in split_keys(decoder.decode(data)):
            yield key


def split_keys(text: str) -> Iterator[str]:
    """Split a chunk into keys; unknown escape sequences are dropped."""
    at = 0
    while at < len(text):
        if text[at] != "\x1b":
            yield _KEY_NAMES.get(text[at], text[at])
            at += 1
            continue
        found = next(
            (one for one in _KEY_NAMES if len(one) == _MAX_SEQUENCE and text.startswith(one, at)),
            None,
        )
        if found is not None:
            yield _KEY_NAMES[found]
            at += len(found)
        elif text[at + 1 : at + 2] in ("[", "O"):
            at = _end_of_sequence(text, at + 2)
        else:
            yield "escape"
            at += 1


def _end_of_sequence(text: str, at: int) -> int:
    while at < len(text) and not "@" <= text[at] <= "~":
        at += 1
    return at + 1
