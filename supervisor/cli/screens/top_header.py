"""The first lines of `top`: sessions by need, the connection, and the health of the store."""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

from supervisor.cli.text_format import Cell, cell_width, format_age
from supervisor.core.info import NEEDS
from supervisor.core.text import one_line

from .top_columns import NEED_STYLES, fitted
from .top_model import TopModel

Connection: TypeAlias = Literal["connecting", "connected", "gone"]

_GAP: Final = "  "


def header_cells(model: TopModel, connection: Connection, *, width: int, now: float) -> list[Cell]:
    """Return the counts by need, urgent first, and what the user chose at the right."""
    cells = [Cell("understudy", "bold")]
    counts = [(need, model.counts[need]) for need in NEEDS if model.counts[need] > 0]
    for need, count in counts:
        cells.append(Cell(f"{_GAP}{count} {need}", f"bold {NEED_STYLES[need]}"))
    if connection == "connected" and not counts:
        cells.append(Cell(f"{_GAP}no live sessions", "dim"))
    right = _right_text(model, connection, now)
    left = sum(cell_width(cell.text) for cell in cells)
    space = width - left - cell_width(right)
    if space < len(_GAP):
        return fitted(cells, width)
    return [*cells, Cell(" " * space), Cell(right, "dim")]


def _right_text(model: TopModel, connection: Connection, now: float) -> str:
    if connection != "connected" or model.daemon_started_at is None:
        return ""
    is_well = model.store is None or not (model.store.degraded or model.store.read_only)
    up = format_age(now - model.daemon_started_at)
    return f"store {'ok' if is_well else 'NOT ok'}, daemon up {up}"


def view_cells(model: TopModel, *, width: int) -> list[Cell]:
    """Return what is shown and how, where it is not the default; no cells for the default."""
    parts = []
    if model.view.grouping != "need":
        parts.append(f"by {model.view.grouping}")
    if model.view.sort != "need":
        parts.append(f"sorted by {model.view.sort}")
    if model.view.is_reversed:
        parts.append("reversed")
    if model.shows_stopped:
        parts.append("with stopped sessions")
    cells = [Cell(", ".join(parts), "cyan")] if parts else []
    if model.row_filter.text:
        shown, listed = model.count_listed()
        gap = _GAP if cells else ""
        cells.append(Cell(f"{gap}filter: {one_line(model.row_filter.text)}", "yellow"))
        cells.append(Cell(f"{_GAP}{shown} of {listed}", "dim"))
        if model.row_filter.asks_for_stopped and not model.shows_stopped:
            cells.append(Cell(f"{_GAP}a lists stopped sessions too", "yellow"))
    return fitted(cells, width)


def banner_cells(
    model: TopModel, connection: Connection, *, gone_since: float | None, width: int, now: float
) -> list[Cell]:
    """Return the problem of the daemon or the store, or no cells."""
    if connection == "gone":
        for_how_long = "" if gone_since is None else f" for {format_age(now - gone_since)}"
        text = f"daemon gone{for_how_long}, reconnecting; the list is as it was"
        return fitted([Cell(text, "bold red")], width)
    if connection == "connecting":
        return [Cell("connecting to the daemon ...", "yellow")]
    store = model.store
    if store is not None and (store.degraded or store.read_only):
        problem = store.problem or "it is open for reading only"
        hint = f"; {store.hint}" if store.hint else ""
        return fitted([Cell(one_line(f"store: {problem}{hint}"), "bold red")], width)
    return []
