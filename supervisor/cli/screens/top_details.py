"""The details of the selected line of `top`, as lines of cells."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from supervisor.cli.text_format import (
    Cell,
    badge_cell,
    cell_width,
    counted,
    format_age,
    format_ago,
    format_context,
    format_duration,
    truncate,
)
from supervisor.cli.wait_words import wait_words
from supervisor.core.session_values import Phase
from supervisor.core.text import one_line

from .top_columns import NEED_STYLES, format_cost, format_count
from .top_order import Entry, display_name

if TYPE_CHECKING:
    from supervisor.handles.session_rows import SessionRow, TightestBudget
    from supervisor.handles.shapes import Why

_LABEL_WIDTH: Final = 8
_BAR_WIDTH: Final = 12
_WARN_SHARE: Final = 0.8
_MAX_WAITS: Final = 3
_WAITS_OF_A_TURN: Final = frozenset({"person", "model", "tool", "child", "hook"})
DetailLine = list[Cell | str]


def details_lines(
    entry: Entry,
    why: Why | None,
    entries: Mapping[str, Entry],
    *,
    now: float,
) -> list[DetailLine]:
    """Return the most important first: a small pane shows only the first lines."""
    row = entry.row
    lines = [_title_line(entry)]
    if entry.is_deleted:
        lines.append([Cell("This session is gone; move to another line.", "yellow")])
    lines += [_line("needs", one_line(_attention_text(one, now)), "red") for one in row.attention]
    lines += _why_lines(row, why, entries, now)
    if row.last_outcome is not None:
        lines.append(_outcome_line(row.last_outcome, now))
    if row.stop_reason:
        detail = f": {row.stop_detail}" if row.stop_detail else ""
        lines.append(_line("stopped", one_line(f"{row.stop_reason}{detail}")))
    if row.budget is not None:
        lines.append(budget_line(row.budget, entries))
    if row.queued:
        lines.append(_line("queue", counted(row.queued, "input")))
    lines.append(_line("agent", _agent_text(row)))
    lines.append(_line("folder", one_line(row.workspace or "none")))
    lines += _family_lines(row, entries)
    lines.append(_line("used", _used_text(row)))
    if row.context is not None:
        lines.append(_line("context", format_context(row.context)))
    if row.tags:
        lines.append(_line("tags", one_line(", ".join(row.tags))))
    lines.append(_line("active", format_ago(now - row.last_active_at)))
    return lines


def _line(label: str, text: str, style: str | None = None) -> DetailLine:
    return [Cell(f"{label:<{_LABEL_WIDTH}}", "dim"), Cell(text, style)]


def _title_line(entry: Entry) -> DetailLine:
    row = entry.row
    title = f"  {one_line(row.title)}" if row.title else ""
    return [
        Cell(one_line(display_name(entry)), "bold"),
        "  ",
        badge_cell("gone") if entry.is_deleted else Cell(row.badge, NEED_STYLES[entry.need]),
        Cell(f"  {row.id}", "dim"),
        title,
    ]


def _attention_text(one: Any, now: float) -> str:  # noqa: ANN401 - an Attention
    what = one.kind.replace("_", " ")
    detail = f": {one.detail}" if one.detail else ""
    return f"{what}{detail} ({format_age(now - one.at)})"


def _why_lines(
    row: SessionRow, why: Why | None, entries: Mapping[str, Entry], now: float
) -> list[DetailLine]:
    """Return what the session waits for, along the chain; without the answer, the row's word."""
    if row.phase is Phase.STOPPED:
        return []
    if why is None or not _is_current(why, row):
        if row.waiting_for is None:
            return []
        since = "" if row.waiting_since is None else f", for {format_age(now - row.waiting_since)}"
        return [_line("why", f"waits for {one_line(wait_words(row.waiting_for))}{since}", "yellow")]
    lines = []
    for place, wait in enumerate(why.chain[:_MAX_WAITS]):
        what = wait_words(wait.waits_for) + ("" if wait.detail is None else f" ({wait.detail})")
        who = "" if place == 0 else f"{_name_of(wait.session_id, entries)} "
        text = f"{who}waits for {what}, for {format_duration(max(0.0, now - wait.since))}"
        lines.append(_line("why" if place == 0 else "", one_line(text), "yellow"))
    if why.cycle:
        names = " -> ".join(_name_of(one, entries) for one in (*why.cycle, why.cycle[0]))
        lines.append(_line("", f"they wait for each other: {names}", "red"))
    return lines


def _is_current(why: Why, row: SessionRow) -> bool:
    """Return whether the row, which may be newer than the answer, does not contradict it."""
    if why.session_id != row.id or not why.chain:
        return False
    word = why.chain[0].waits_for
    if row.turn_id is None and word in _WAITS_OF_A_TURN:
        return False
    return word != "person" or row.badge in ("waiting-for-you", "waiting-for-auth")


def _name_of(session_id: str, entries: Mapping[str, Entry]) -> str:
    entry = entries.get(session_id)
    return session_id if entry is None else one_line(display_name(entry))


def _outcome_line(last: Any, now: float) -> DetailLine:  # noqa: ANN401 - a LastOutcome
    reason = f": {last.reason}" if last.reason else ""
    text = f"{last.outcome.replace('_', ' ')}{reason} ({format_ago(now - last.at)})"
    return _line("turn", one_line(text), "green" if last.outcome == "completed" else "red")


def budget_line(budget: TightestBudget, entries: Mapping[str, Entry]) -> DetailLine:
    """Return the bar of the budget of which the largest share is used."""
    share = budget.share
    full = min(_BAR_WIDTH, round(share * _BAR_WIDTH))
    style = "red" if share >= _WARN_SHARE else "green"
    used, allowed = _amounts(budget)
    owner = _name_of(budget.session_id, entries)
    return [
        Cell(f"{'budget':<{_LABEL_WIDTH}}", "dim"),
        Cell("█" * full, style),
        Cell("░" * (_BAR_WIDTH - full), "dim"),
        f" {share * 100:.0f} % of {budget.name.replace('_', ' ')}",
        Cell(f" ({used} of {allowed}, of {owner})", "dim"),
    ]


def _amounts(budget: TightestBudget) -> tuple[str, str]:
    if budget.name == "wall_seconds":
        return format_duration(budget.used), format_duration(budget.allowed)
    if budget.name == "cost":
        return format_cost(budget.used) or "0", format_cost(budget.allowed) or "0"
    return format_count(round(budget.used)) or "0", format_count(round(budget.allowed)) or "0"


def _agent_text(row: SessionRow) -> str:
    role = f", {row.role}" if row.role else ""
    return one_line(f"{row.agent}{role}")


def _family_lines(row: SessionRow, entries: Mapping[str, Entry]) -> list[DetailLine]:
    parts = []
    if row.parent is not None:
        parts.append(f"child of {_name_of(row.parent, entries)}")
    if row.children:
        active = "active child" if row.children == 1 else "active children"
        parts.append(f"{row.children} {active}")
    return [_line("tree", ", ".join(parts))] if parts else []


def _used_text(row: SessionRow) -> str:
    cost = f", cost {format_cost(row.cost)}" if row.cost else ""
    return f"{format_count(row.tokens) or '0'} tokens{cost}"


def group_lines(name: str, count: int, width: int) -> list[DetailLine]:
    """Return the details of a selected group."""
    text = truncate(one_line(name), width)
    space = max(1, width - cell_width(text))
    return [
        [Cell(text, "bold"), Cell(f"{counted(count, 'session'):>{min(space, 14)}}", "dim")],
        [Cell("space folds and unfolds it", "dim")],
    ]
