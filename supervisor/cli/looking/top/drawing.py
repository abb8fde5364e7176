"""The board as it is drawn."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rich.cells import cell_len, set_cell_size
from rich.console import Group
from rich.text import Text

from supervisor.cli.looking.inbox import input_of
from supervisor.cli.terminal.columns import BADGE_STYLES, cut
from supervisor.cli.terminal.times import ago
from supervisor.core.printable import one_line

from .board import DEEDS, Board

if TYPE_CHECKING:
    from supervisor.core.info import Node
    from supervisor.sessions.surface.overview import Stats

# The lines above and below the sessions.
_AROUND: Final = 4
_NAME_WIDTH: Final = 21
_MOST_ASKED: Final = 3
_LINES_OF_REQUEST: Final = 2
# What stands beside a name, and should not be cut for it.
_BESIDE: Final = 65


def draw(board: Board, stats: Stats, remark: str, *, width: int, height: int, now: float) -> Group:
    """All of it, in at most that many lines, each of them cut at that width."""
    asked = _asked(board, height - _AROUND, now)
    room = max(1, height - _AROUND - len(asked))
    first = max(0, min(board.place - room // 2, len(board.lines) - room))
    shown = board.lines[first : first + room]
    widest = max((cell_len(_name(node, depth)) for depth, node in shown), default=0)
    names = max(_NAME_WIDTH, min(widest, width - _BESIDE))
    lines = [
        _line(
            node, set_cell_size(cut(_name(node, depth), names), names), node.id == board.chosen, now
        )
        for depth, node in shown
    ]
    if not lines:
        lines = [Text("No session lives.", style="dim")]
    return Group(_head(stats), Text(), *lines, *asked, Text(), _foot(board, remark, width))


def _head(stats: Stats) -> Text:
    """What somebody has to see to stands first, for the end may be cut off."""
    store = f"the store: {stats.store.problem}; " if stats.store.degraded else ""
    asks = f"{stats.permissions} in the inbox; " if stats.permissions else ""
    badges = ", ".join(f"{count} {badge}" for badge, count in sorted(stats.badges.items()))
    said = f"{stats.live} of {stats.sessions} sessions live"
    return _one(
        Text.assemble(
            ("understudy  ", "bold"),
            (one_line(store), "red"),
            (asks, "magenta"),
            said,
            f" ({badges})" if badges else "",
        )
    )


def _fitted(text: str, width: int) -> str:
    return set_cell_size(cut(text, width), width)


def _name(node: Node, depth: int) -> str:
    return "  " * depth + one_line(node.name or node.title or node.id)


def _line(node: Node, name: str, is_chosen: bool, now: float) -> Text:  # noqa: FBT001 - only called above
    waiting = f"{node.queued} queued  " if node.queued else ""
    waits_for = f"waits for {one_line(node.waiting_for)}" if node.waiting_for else ""
    line = Text.assemble(
        ("> " if is_chosen else "  ", "bold"),
        f"{name}  ",
        (f"{node.badge:<17}", BADGE_STYLES.get(node.badge, "default")),
        f"{_fitted(one_line(node.agent), 10)} ",
        (f"{ago(now - node.last_active_at):<8}", "dim"),
        (waiting, "cyan"),
        (waits_for, "yellow"),
    )
    if is_chosen:
        line.stylize("reverse")
    return _one(line)


def _asked(board: Board, room: int, now: float) -> list[Text]:
    """What agents ask, the oldest first, and how to answer: in at most half of the room."""
    # One line is before them, and one behind them if there are more.
    room = room // 2 - 2
    if room < 0 or not board.requests:
        return []
    most = min(_MOST_ASKED, room // _LINES_OF_REQUEST)
    names = {node.id: _name(node, 0) for _, node in board.lines}
    lines = [Text()]
    for one in board.requests[:most]:
        about = f"  {one_line(one.question)}" + (f"  {input_of(one)}" if one.input else "")
        who = f"{names.get(one.session_id, one.session_id)} asks for {one_line(one.tool)}"
        lines += [
            _one(Text.assemble((who, "magenta"), (f"  {ago(now - one.asked_at)}", "dim"), about)),
            _one(Text(f"    understudy answer {one.id} DECISION  ({', '.join(one.options)})")),
        ]
    if len(board.requests) > most:
        lines.append(_one(Text("`understudy inbox` lists all that is asked.", style="dim")))
    return lines


def _foot(board: Board, remark: str, width: int) -> Text:
    if board.typing is not None:
        label = f"{board.typing}: "
        # The end of it, for that is where somebody types.
        typed = board.typed
        while typed and cell_len(label + typed) >= width:
            typed = typed[1:]
        return _one(Text.assemble((label, "bold"), typed, ("▏", "dim")))
    if remark:
        return _one(Text(one_line(remark), style="yellow"))
    keys = "  ".join(f"{key} {what}" for key, (_, what) in DEEDS.items())
    return _one(Text(f"{keys}  q leave", style="dim"))


def _one(line: Text) -> Text:
    line.no_wrap = True
    line.overflow = "ellipsis"
    return line
