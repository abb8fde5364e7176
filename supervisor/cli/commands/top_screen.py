"""The screen of `understudy top`: its lines, the selected line, the meaning of keys, drawing.

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
from rich.cells import cell_len, set_cell_size
from rich.console import Group
from rich.text import Text

from supervisor.cli.text_format import BADGE_STYLES, format_age, truncate
from supervisor.core.text import one_line

from .inbox import request_input_text

if TYPE_CHECKING:
    from supervisor.core.info import Node
    from supervisor.handles.views import Stats
    from supervisor.sessions.inbox import PermissionRequest

ActionName: TypeAlias = Literal["interrupt", "interrupt_tree", "steer", "send", "stop"]

# The action of each key on the selected session; the second word is shown below the board.
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
    """An action that a key asks for, and the session that it applies to."""

    action: ActionName
    session_id: str
    text: str = ""


@attrs.define
class Board:
    """The lines of the screen, the selected line, and the text that the user types."""

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
        """Handle a key; return an action when the user has typed it completely."""
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
    # Not recursive: a tree may be deeper than the stack.
    waiting = [(depth, node)]
    while waiting:
        depth, node = waiting.pop()
        yield depth, node
        waiting.extend((depth + 1, child) for child in reversed(node.children))


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
    """Read keys at once and without echo in the block; Ctrl-C still sends SIGINT."""
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


# Lines above and below the sessions.
_FRAME_LINES: Final = 4
_NAME_WIDTH: Final = 21
_MAX_REQUESTS: Final = 3
_LINES_PER_REQUEST: Final = 2
# Space beside a name that is not cut for a long name.
_WIDTH_BESIDE_NAME: Final = 65


def draw(board: Board, stats: Stats, remark: str, *, width: int, height: int, now: float) -> Group:
    """Return the board as at most `height` lines, each cut to `width`."""
    asked = _request_lines(board, height - _FRAME_LINES, now)
    room = max(1, height - _FRAME_LINES - len(asked))
    first = max(0, min(board.selected_index - room // 2, len(board.lines) - room))
    shown = board.lines[first : first + room]
    widest = max((cell_len(_name(node, depth)) for depth, node in shown), default=0)
    names = max(_NAME_WIDTH, min(widest, width - _WIDTH_BESIDE_NAME))
    lines = [
        _line(
            node,
            set_cell_size(truncate(_name(node, depth), names), names),
            node.id == board.selected_id,
            now,
        )
        for depth, node in shown
    ]
    if not lines:
        lines = [Text("No live sessions.", style="dim")]
    return Group(_header(stats), Text(), *lines, *asked, Text(), _footer(board, remark, width))


def _header(stats: Stats) -> Text:
    """Return the status line; urgent parts come first, because the end may be cut."""
    store = f"the store: {stats.store.problem}; " if stats.store.degraded else ""
    asks = f"{stats.permissions} in the inbox; " if stats.permissions else ""
    badges = ", ".join(f"{count} {badge}" for badge, count in sorted(stats.badges.items()))
    said = f"{stats.live} of {stats.sessions} sessions live"
    return _single_line(
        Text.assemble(
            ("understudy  ", "bold"),
            (one_line(store), "red"),
            (asks, "magenta"),
            said,
            f" ({badges})" if badges else "",
        )
    )


def _fitted(text: str, width: int) -> str:
    return set_cell_size(truncate(text, width), width)


def _name(node: Node, depth: int) -> str:
    return "  " * depth + one_line(node.name or node.title or node.id)


def _line(node: Node, name: str, is_selected: bool, now: float) -> Text:  # noqa: FBT001 - only called above
    waiting = f"{node.queued} queued  " if node.queued else ""
    waits_for = f"waits for {one_line(node.waiting_for)}" if node.waiting_for else ""
    line = Text.assemble(
        ("> " if is_selected else "  ", "bold"),
        f"{name}  ",
        (f"{node.badge:<17}", BADGE_STYLES.get(node.badge, "default")),
        f"{_fitted(one_line(node.agent), 10)} ",
        (f"{format_age(now - node.last_active_at):<8}", "dim"),
        (waiting, "cyan"),
        (waits_for, "yellow"),
    )
    if is_selected:
        line.stylize("reverse")
    return _single_line(line)


def _request_lines(board: Board, room: int, now: float) -> list[Text]:
    """Return the pending requests, oldest first, in at most half of the lines."""
    # One line precedes them, and one follows if there are more.
    room = room // 2 - 2
    if room < 0 or not board.requests:
        return []
    most = min(_MAX_REQUESTS, room // _LINES_PER_REQUEST)
    names = {node.id: _name(node, 0) for _, node in board.lines}
    lines = [Text()]
    for one in board.requests[:most]:
        about = f"  {one_line(one.question)}" + (
            f"  {request_input_text(one)}" if one.input else ""
        )
        who = f"{names.get(one.session_id, one.session_id)} asks for {one_line(one.tool)}"
        lines += [
            _single_line(
                Text.assemble(
                    (who, "magenta"), (f"  {format_age(now - one.asked_at)}", "dim"), about
                )
            ),
            _single_line(
                Text(f"    understudy answer {one.id} DECISION  ({', '.join(one.options)})")
            ),
        ]
    if len(board.requests) > most:
        lines.append(_single_line(Text("`understudy inbox` lists all requests.", style="dim")))
    return lines


def _footer(board: Board, remark: str, width: int) -> Text:
    if board.pending_action is not None:
        label = f"{board.pending_action}: "
        # The end of the text, where the user types.
        typed = board.typed_text
        while typed and cell_len(label + typed) >= width:
            typed = typed[1:]
        return _single_line(Text.assemble((label, "bold"), typed, ("▏", "dim")))
    if remark:
        return _single_line(Text(one_line(remark), style="yellow"))
    keys = "  ".join(f"{key} {what}" for key, (_, what) in KEY_ACTIONS.items())
    return _single_line(Text(f"{keys}  q exit", style="dim"))


def _single_line(line: Text) -> Text:
    line.no_wrap = True
    line.overflow = "ellipsis"
    return line
