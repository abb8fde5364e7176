"""What comes back from a session that was told something, for people and for programs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from supervisor.cli.ground.failures import ERROR, INTERRUPTED, OK
from supervisor.cli.terminal.columns import Cell
from supervisor.cli.terminal.screen import Screen

if TYPE_CHECKING:
    from supervisor.core.info import Info
    from supervisor.core.step import Receipt
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
    elif result.text:
        screen.line(result.text.rstrip("\n"))
    return code_of(result)


def code_of(result: TurnResult) -> int:
    """The code to exit with when a turn has ended so."""
    if result.outcome == "completed":
        return OK
    return INTERRUPTED if result.outcome == "interrupted" else ERROR
