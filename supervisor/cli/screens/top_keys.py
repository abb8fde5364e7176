"""The keys of `top`: one table for the bindings, the help and the last line of the screen."""

from __future__ import annotations

from typing import Final

import attrs

from supervisor.cli.text_format import Cell, cell_width


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
                ("slash",), "filter", "filter: words, agent: tag: badge: workspace:", "filter", "/"
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
# The hints of the last line, the most useful first.
_HINTS: Final = (
    "help",
    "open",
    "message",
    "steer",
    "interrupt",
    "inbox",
    "filter",
    "next",
    "stop",
    "quit",
)
_KEY_WIDTH: Final = 12


def key_label(key: Key) -> str:
    """Return the names of the keys as a user reads them."""
    return key.shown_as or ", ".join(key.keys)


def hint_cells(width: int) -> list[Cell]:
    """Return the hints that fit on the last line."""
    by_hint = {key.hint: key for key in KEYS}
    cells: list[Cell] = []
    for hint in _HINTS:
        name = key_label(by_hint[hint]).partition(",")[0]
        gap = 2 if cells else 0
        width -= gap + cell_width(name) + 1 + len(hint)
        if width < 0:
            break
        cells += [Cell(" " * gap + name, "bold"), Cell(f" {hint}", "dim")]
    return cells


def help_lines() -> list[list[Cell]]:
    """Return all keys with what they do."""
    lines: list[list[Cell]] = []
    for family, keys in KEY_FAMILIES:
        lines.append([Cell(family, "bold")])
        lines += [
            [Cell(f"  {key_label(key):<{_KEY_WIDTH}}", "cyan"), Cell(key.explanation)]
            for key in keys
        ]
        lines.append([])
    lines.append([Cell("In the inbox", "bold")])
    lines += [
        [Cell(f"  {name:<{_KEY_WIDTH}}", "cyan"), Cell(what)]
        for name, what in (
            ("y, a", "allow once, always"),
            ("n, d", "reject once, always"),
            ("up, down", "the question above, below"),
            ("enter", "select the session that asks"),
        )
    ]
    lines += [
        [],
        [Cell("The mouse", "bold")],
        [Cell("  click selects, twice opens; the mark ▾ folds; the wheel scrolls")],
    ]
    return lines
