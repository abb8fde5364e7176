"""Drawing of the board."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rich.cells import cell_len, set_cell_size
from rich.console import Group
from rich.text import Text

from supervisor.cli.columns import BADGE_STYLES, truncate
from supervisor.cli.times import format_age
from supervisor.core.text import one_line

from .inbox import request_input_text
from .top_board import KEY_ACTIONS, Board

if TYPE_CHECKING:
    from supervisor.core.info import Node
    from supervisor.handles.views import Stats

# Lines above and below the sessions.
_FRAME_LINES: Final = 4
_NAME_WIDTH: Final = 21
_MAX_REQUESTS: Final = 3
_LINES_PER_REQUEST: Final = 2
# Space beside a name that is not cut for a long name.
_WIDTH_BESIDE_NAME: Final = 65


def draw(board: Board, stats: Stats, remark: str, *, width: int, height: int, now: float) -> Group:
    """Return the board in at most that many lines, each cut to the width."""
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
