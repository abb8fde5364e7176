"""The keys of `top`: one table for the bindings, the help and the last line of the screen."""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import wrap
from typing import Final

import attrs

from supervisor.cli.text_format import Cell, cell_width

from .top_columns import fitted


@attrs.frozen
class Key:
    """A key, or several for the same action; `hint` is shown on the last line if there is room."""

    keys: tuple[str, ...]
    action: str
    explanation: str
    hint: str | None = None
    shown_as: str | None = None


KEY_FAMILIES: Final[tuple[tuple[str, tuple[Key, ...]], ...]] = (
    (
        "Move",
        (
            Key(("up", "k"), "move(-1)", "select the line above"),
            Key(("down", "j"), "move(1)", "select the line below"),
            Key(("pageup",), "move_page(-1)", "one page up", shown_as="PgUp"),
            Key(("pagedown",), "move_page(1)", "one page down", shown_as="PgDn"),
            Key(("home", "g"), "move_far(-1)", "the first line"),
            Key(("end", "G"), "move_far(1)", "the last line"),
            Key(("n",), "next_urgent", "the next session that needs you", "next"),
            Key(("left", "h"), "fold", "fold; or go to the parent or the group"),
            Key(("right", "l"), "unfold", "unfold"),
            Key(("space",), "toggle_fold", "fold or unfold"),
            Key(("z",), "fold_all", "fold or unfold everything"),
        ),
    ),
    (
        "Look",
        (
            Key(("enter",), "open", "open the session: its live transcript and input", "open"),
            Key(
                ("slash",), "filter", "filter: words, agent: tag: state: workspace:", "filter", "/"
            ),
            Key(("a",), "toggle_stopped", "list stopped sessions too, or not"),
            Key(("d",), "show_pane('details')", "details of the selected session; again: hide"),
            Key(("t",), "show_pane('transcript')", "its transcript; marks it as seen"),
            Key(("i",), "show_pane('inbox')", "the questions that wait for you", "inbox"),
            Key(("tab",), "next_focus", "go to the pane, and back, to scroll it"),
            Key(("v",), "next_view", "group by need, tree, workspace, agent, tag, or not at all"),
            Key(("o",), "next_sort", "sort by need, name, activity, tokens, cost, queue"),
            Key(("O",), "reverse_sort", "the other way round"),
            Key(("c",), "columns", "show and hide columns"),
            Key(("y",), "copy_id", "copy the id of the session"),
        ),
    ),
    (
        "Act on the selected session",
        (
            Key(("m",), "send", "send a message: starts a turn, or is queued", "message"),
            Key(("s",), "steer", "steer the running turn", "steer"),
            Key(
                ("x",), "interrupt", "interrupt a tool call, the turn, session or tree", "interrupt"
            ),
            Key(("X",), "stop", "stop it, after a question", "stop"),
            Key(("r",), "resume", "start it again after a stop"),
        ),
    ),
    (
        "Leave",
        (
            Key(("question_mark", "f1"), "help", "this page", "help", "?"),
            Key(("escape",), "back", "go back: from a session, a pane, the filter"),
            Key(("q", "ctrl+c"), "quit", "leave; the sessions go on", "quit"),
        ),
    ),
)
KEYS: Final = tuple(key for _, keys in KEY_FAMILIES for key in keys)
# The hints of the last line, the most useful first; the way out is always there, at the end.
_HINTS: Final = (
    "quit",
    "help",
    "open",
    "message",
    "steer",
    "interrupt",
    "inbox",
    "filter",
    "next",
    "stop",
)
_GAP: Final = "  "
_KEY_WIDTH: Final = 12
# A message leaves this much for hints: the way to the others, and the way out.
_LEAST_HINTS_WIDTH: Final = 14


def key_label(key: Key) -> str:
    """Return the names of the keys as a user reads them."""
    return key.shown_as or ", ".join(key.keys)


def hint_cells(width: int) -> list[Cell]:
    """Return the hints that fit on the last line, the way out at the end."""
    keys = {key.hint: key_label(key).partition(",")[0] for key in KEYS}
    chosen: list[str] = []
    for hint in _HINTS:
        gap = _GAP if chosen else ""
        width -= cell_width(f"{gap}{keys[hint]} {hint}")
        if width < 0:
            break
        chosen.append(hint)
    cells: list[Cell] = []
    for hint in chosen[1:] + chosen[:1]:
        gap = _GAP if cells else ""
        cells += [Cell(gap + keys[hint], "bold"), Cell(f" {hint}", "dim")]
    return cells


def remark_cells(remark: Sequence[Cell], width: int) -> list[Cell]:
    """Return the last line with a message, and at its right the hints that still fit."""
    least = hint_cells(_LEAST_HINTS_WIDTH)
    room = width - sum(cell_width(cell.text) for cell in least) - len(_GAP)
    shown = fitted(remark, max(0, room))
    left = width - sum(cell_width(cell.text) for cell in shown) - len(_GAP)
    hints = hint_cells(left)
    space = left - sum(cell_width(cell.text) for cell in hints)
    return [*shown, Cell(_GAP + " " * max(0, space)), *hints]


def help_lines(width: int) -> list[list[Cell]]:
    """Return all keys with what they do; a long explanation goes on below its beginning."""
    lines: list[list[Cell]] = []
    for family, keys in KEY_FAMILIES:
        lines.append([Cell(family, "bold")])
        for key in keys:
            lines += _explained(key_label(key), key.explanation, width)
        lines.append([])
    lines.append([Cell("In the inbox", "bold")])
    for name, what in (
        ("y, a", "allow once, always"),
        ("n, d", "reject once, always"),
        ("1-9", "an answer that the question suggests"),
        ("m", "type an answer to the question"),
        ("up, down", "the question above, below"),
        ("enter", "select the session that asks"),
    ):
        lines += _explained(name, what, width)
    lines += [[], [Cell("The mouse", "bold")]]
    for name, what in (
        ("click", "selects; twice: opens"),
        ("click on ▾", "folds"),
        ("wheel", "scrolls"),
    ):
        lines += _explained(name, what, width)
    return lines


def _explained(name: str, what: str, width: int) -> list[list[Cell]]:
    first, *rest = wrap(what, max(_KEY_WIDTH, width - _KEY_WIDTH - 2))
    indent = Cell(" " * (_KEY_WIDTH + 2))
    return [
        [Cell(f"  {name:<{_KEY_WIDTH}}", "cyan"), Cell(first)],
        *([indent, Cell(more)] for more in rest),
    ]
