"""The words of the screen of a session: what Enter does, what has happened, and the state.

For people the first place of a queue is 1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from supervisor.cli.text_format import Cell, badge_cell, cell_width
from supervisor.cli.transcript.lines import format_count
from supervisor.cli.wait_words import wait_words
from supervisor.core.session_values import Phase, WhenBusy
from supervisor.core.text import one_line

from .input_line import Mode

if TYPE_CHECKING:
    from supervisor.core.info import Info
    from supervisor.core.receipts import InterruptReport, Receipt

_MODE_STYLES: Final[dict[Mode, str]] = {"send": "green", "steer": "yellow", "interrupt": "red"}
# What a text does to a running turn, by the mode of the input.
WHEN_BUSY: Final[dict[Mode, WhenBusy]] = {
    "send": "queue",
    "steer": "steer",
    "interrupt": "interrupt",
}
_OUTCOME_STYLES: Final = {"completed": "green", "interrupted": "yellow"}
_BUSY_TEXTS: Final[dict[Mode, str]] = {
    "steer": "Enter steers the turn",
    "interrupt": "Enter ends the turn and goes on with this text",
}
# After the way out, the most useful first, while a turn runs and while none does; a narrow screen
# leaves out the last ones.
_BUSY_HINTS: Final = ("F1 help", "Ctrl-C interrupt", "Tab mode")
_IDLE_HINTS: Final = ("F1 help", "Tab mode", "Ctrl-C interrupt")
_SEPARATOR: Final = " · "


def enter_text(mode: Mode, info: Info | None) -> str:
    """Return what Enter does now."""
    if info is None:
        return "Enter sends it"
    if info.archived:
        return "Enter is refused: the session is archived"
    if info.phase is Phase.STOPPED:
        return "Enter resumes the session and starts a turn"
    if info.turn_id is None and not info.queued:
        return "Enter starts a turn" if mode == "send" else f"Enter starts a turn, none to {mode}"
    if info.turn_id is None or mode == "send":
        return f"Enter queues it at place {info.queued + 1}"
    return _BUSY_TEXTS[mode]


def mode_cells(mode: Mode, info: Info | None, *, way_out: str, width: int) -> list[Cell]:
    """Return the line below the input: what Enter does, and the hints that fit, each whole."""
    enter = enter_text(mode, info)
    left = width - len(f"[{mode}] ") - cell_width(enter)
    is_busy = info is not None and info.turn_id is not None
    hints = ""
    for hint in (way_out, *(_BUSY_HINTS if is_busy else _IDLE_HINTS)):
        left -= len(_SEPARATOR) + len(hint)
        if left < 0:
            break
        hints += _SEPARATOR + hint
    return [Cell(f"[{mode}] ", _MODE_STYLES[mode]), Cell(enter), Cell(hints, "dim")]


def receipt_text(receipt: Receipt) -> str:
    """Return what became of an input, in the word of its receipt."""
    said = str(receipt.status)
    if receipt.status == "queued" and receipt.position is not None:
        said = f"queued at place {receipt.position + 1}"
    elif receipt.status == "staged":
        said = "staged: the running turn takes it"
    elif receipt.status == "interrupting":
        said = "interrupting: it follows when the turn has ended"
    return f"{said} ({len(receipt.cancelled)} cancelled)" if receipt.cancelled else said


def report_text(report: InterruptReport) -> str:
    """Return what an interrupt has done."""
    if report.stopped:
        return f"interrupted, after {report.ladder_step}" if report.ladder_step else "interrupted"
    if report.unreachable:
        return "the turn does not end: `understudy why` explains it"
    return "interrupting" if report.matched else "no turn runs"


def status_cells(info: Info | None, *, connection: str | None) -> list[Cell]:
    """Return the last line: the session's name, state and use, and why it waits."""
    if info is None:
        return [Cell(connection or "connecting ...", "yellow")]
    cells = [Cell(one_line(info.name or info.id), "bold"), Cell("  "), badge_cell(info.badge)]
    outcome = info.last_outcome
    if outcome is not None and info.turn_id is None:
        cells.append(
            Cell(f"  last turn {outcome.outcome}", _OUTCOME_STYLES.get(outcome.outcome, "red"))
        )
    if info.waiting_for:
        cells.append(Cell(f"  waits for {one_line(wait_words(info.waiting_for))}", "yellow"))
    if info.queued:
        cells.append(Cell(f"  {info.queued} queued"))
    tokens = info.usage.input_tokens + info.usage.output_tokens
    if tokens:
        cells.append(Cell(f"  {format_count(tokens)} tokens", "dim"))
    if info.usage.cost:
        cells.append(Cell(f"  ${info.usage.cost:.2f}", "dim"))
    if connection is not None:
        cells.append(Cell(f"  {connection}", "yellow"))
    return cells
