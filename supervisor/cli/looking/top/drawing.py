"""The board as it is drawn."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rich.console import Group
from rich.text import Text

from supervisor.cli.terminal.columns import BADGE_STYLES
from supervisor.cli.terminal.times import ago
from supervisor.core.printable import one_line

from .board import DEEDS, Board

if TYPE_CHECKING:
    from supervisor.core.info import Node
    from supervisor.sessions.surface.overview import Stats

# The lines above and below the sessions.
_AROUND: Final = 4
_NAME_WIDTH: Final = 21


def draw(board: Board, stats: Stats, remark: str, *, height: int, now: float) -> Group:
    """All of it, in at most that many lines."""
    room = max(1, height - _AROUND)
    first = max(0, min(board.place - room // 2, len(board.lines) - room))
    lines = [
        _line(node, depth, chosen=node.id == board.chosen, now=now)
        for depth, node in board.lines[first : first + room]
    ]
    if not lines:
        lines = [Text("No session lives.", style="dim")]
    return Group(_head(stats), Text(), *lines, Text(), _foot(board, remark))


def _head(stats: Stats) -> Text:
    badges = ", ".join(f"{count} {badge}" for badge, count in sorted(stats.badges.items()))
    said = f"{stats.live} of {stats.sessions} sessions live"
    asks = f"; {stats.permissions} ask you" if stats.permissions else ""
    store = f"; the store: {stats.store.problem}" if stats.store.degraded else ""
    return _one(
        Text.assemble(("understudy  ", "bold"), said, f" ({badges})" if badges else "", asks, store)
    )


def _line(node: Node, depth: int, *, chosen: bool, now: float) -> Text:
    name = "  " * depth + one_line(node.name or node.title or node.id)
    waiting = f"{node.queued} queued  " if node.queued else ""
    waits_for = f"waits for {one_line(node.waiting_for)}" if node.waiting_for else ""
    line = Text.assemble(
        ("> " if chosen else "  ", "bold"),
        f"{name[:_NAME_WIDTH]:<{_NAME_WIDTH}}  ",
        (f"{node.badge:<17}", BADGE_STYLES.get(node.badge, "default")),
        f"{one_line(node.agent)[:10]:<11}",
        (f"{ago(now - node.last_active_at):<8}", "dim"),
        (waiting, "cyan"),
        (waits_for, "yellow"),
    )
    if chosen:
        line.stylize("reverse")
    return _one(line)


def _foot(board: Board, remark: str) -> Text:
    if board.typing is not None:
        return _one(Text.assemble((f"{board.typing}: ", "bold"), board.typed, ("▏", "dim")))
    if remark:
        return _one(Text(one_line(remark), style="yellow"))
    keys = "  ".join(f"{key} {what}" for key, (_, what) in DEEDS.items())
    return _one(Text(f"{keys}  q leave", style="dim"))


def _one(line: Text) -> Text:
    line.no_wrap = True
    line.overflow = "ellipsis"
    return line
