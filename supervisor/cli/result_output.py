"""Output of receipts, sessions and turn results, for people and for programs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from .failures import ERROR, INTERRUPTED, OK
from .output import Screen
from .text_format import Cell

if TYPE_CHECKING:
    from supervisor.core.info import Info
    from supervisor.core.receipts import Receipt, TurnResult


def show_whole_fields(screen: Screen, pairs: Iterable[tuple[str, Cell | str]]) -> None:
    """Print names and values, one pair per line; nothing is cut, so that paths can be copied."""
    rows = list(pairs)
    width = max((len(name) for name, _ in rows), default=0)
    for name, value in rows:
        screen.line(Cell(f"{name:<{width}}  ", "dim"), value)


def show_receipt(screen: Screen, receipt: Receipt) -> None:
    """Print the receipt of an input; for people, places count from 1."""
    if screen.as_json:
        screen.data(receipt)
        return
    said = f"{receipt.status}"
    if receipt.status == "queued" and receipt.position is not None:
        said += f" at place {receipt.position + 1}"
    screen.line(Cell(said, "green"), f"  {receipt.input_id}")
    for one in receipt.cancelled:
        screen.line(f"cancelled  {one}")


def show_created(screen: Screen, info: Info) -> None:
    """Print the id of a new session, and on standard error its name, agent and folder."""
    if screen.as_json:
        screen.data(info)
    else:
        screen.line(Cell(info.id, "bold"))
        said = f"{info.name}: {info.agent}" if info.name else info.agent
        screen.note(said if info.workspace is None else f"{said} in {info.workspace}")


def show_result(screen: Screen, result: TurnResult) -> int:
    """Print the result of a turn and return the exit code."""
    if screen.as_json:
        screen.data({"result": result})
    else:
        if result.text:
            screen.line(result.text.rstrip("\n"))
        show_outcome(screen, result)
    return turn_exit_code(result)


def show_outcome(screen: Screen, result: TurnResult) -> None:
    """Print an error if the turn did not complete, and a note if its text is cut."""
    if result.truncated:
        screen.note("The text is cut at 1 MiB; understudy log shows all of it.")
    if result.outcome == "interrupted":
        screen.note("The turn was interrupted.")
    elif result.outcome != "completed":
        how = {"timed_out": "took too long", "lost": "was lost"}.get(result.outcome, result.outcome)
        why = f": {result.error}" if result.error else ""
        screen.note(Cell("error: ", "red"), f"the turn {how}{why}")


def turn_exit_code(result: TurnResult) -> int:
    """Return the exit code for the result of a turn."""
    if result.outcome == "completed":
        return OK
    return INTERRUPTED if result.outcome == "interrupted" else ERROR
