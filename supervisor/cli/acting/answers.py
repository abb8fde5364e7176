"""What comes back from a session that was told something, for people and for programs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from supervisor.cli.ground.failures import ERROR, INTERRUPTED, OK
from supervisor.cli.terminal.columns import Cell
from supervisor.cli.terminal.screen import Screen

if TYPE_CHECKING:
    from supervisor.core.info import Info
    from supervisor.core.receipts import Receipt
    from supervisor.sessions.shell.results import TurnResult


def show_receipt(screen: Screen, receipt: Receipt) -> None:
    """That an input was accepted, and where it is now."""
    if screen.as_json:
        screen.data(receipt)
        return
    said = f"{receipt.status}"
    if receipt.status == "queued" and receipt.position is not None:
        said += f" at place {receipt.position}"
    screen.line(Cell(said, "green"), f"  {receipt.input_id}")
    for one in receipt.cancelled:
        screen.line(f"cancelled  {one}")


def show_made(screen: Screen, info: Info) -> None:
    """A session that is there now."""
    if screen.as_json:
        screen.data(info)
    else:
        screen.line(Cell(info.id, "bold"))


def show_result(screen: Screen, result: TurnResult) -> int:
    """How a turn ended; gives the code to exit with."""
    if screen.as_json:
        screen.data({"result": result})
    else:
        if result.text:
            screen.line(result.text.rstrip("\n"))
        tell_end(screen, result)
    return code_of(result)


def tell_end(screen: Screen, result: TurnResult) -> None:
    """Say that it did not end as it should, if so."""
    if result.outcome == "interrupted":
        screen.note("The turn was interrupted.")
    elif result.outcome != "completed":
        how = {"timed_out": "took too long", "lost": "was lost"}.get(result.outcome, result.outcome)
        why = f": {result.error}" if result.error else ""
        screen.note(Cell("error: ", "red"), f"the turn {how}{why}")


def code_of(result: TurnResult) -> int:
    """The code to exit with when a turn has ended so."""
    if result.outcome == "completed":
        return OK
    return INTERRUPTED if result.outcome == "interrupted" else ERROR
