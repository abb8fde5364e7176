"""What went wrong, as whoever typed the command should hear it, and the code to exit with.

Rule 1: what happened, then what to do next; never a traceback. `python -X dev -m supervisor.cli`
        shows one, for who looks for a defect of ours.
"""

from __future__ import annotations

import sys
import traceback
from typing import Final

from supervisor.cli.terminal.columns import Cell
from supervisor.cli.terminal.screen import Screen, json_text
from supervisor.core.errors import (
    AgentUnknown,
    BudgetSpent,
    InputTooLarge,
    OutputTooLarge,
    PermissionNotFound,
    QueueFull,
    RecordNotFound,
    SessionNotFound,
    SpawnRefused,
    SupervisorError,
)

OK: Final = 0
ERROR: Final = 1
USAGE: Final = 2
NOT_FOUND: Final = 3
REFUSED: Final = 4
NO_DAEMON: Final = 5
INTERRUPTED: Final = 130


class NoDaemon(SupervisorError):
    """The command talks to the daemon, and none is running."""


class StoreNotFound(SupervisorError):
    """There is no file of that name."""


_CODES: Final[tuple[tuple[int, tuple[type[SupervisorError], ...]], ...]] = (
    (
        NOT_FOUND,
        (SessionNotFound, AgentUnknown, PermissionNotFound, RecordNotFound, StoreNotFound),
    ),
    (REFUSED, (SpawnRefused, QueueFull, BudgetSpent, InputTooLarge, OutputTooLarge)),
    (NO_DAEMON, (NoDaemon,)),
)


def exit_code_of(error: SupervisorError) -> int:
    """The code that says what kind of failure it is."""
    return next((code for code, kinds in _CODES if isinstance(error, kinds)), ERROR)


def report(error: SupervisorError, screen: Screen) -> int:
    """Say what happened and what to do next; gives the code to exit with."""
    problem = str(error.args[0])
    if screen.as_json:
        said: dict[str, object] = {"code": error.code, "message": problem, "hint": error.hint}
        if isinstance(error, SpawnRefused):
            said |= {"limit": error.limit, "used": error.used, "allowed": error.allowed}
        screen.err.write(json_text({"error": said}) + "\n")
        screen.err.flush()
        return exit_code_of(error)
    screen.note(Cell("error: ", "red"), problem.rstrip())
    screen.note(Cell("hint: ", "cyan"), error.hint)
    return exit_code_of(error)


def report_defect(error: BaseException, screen: Screen) -> int:
    """Say that we are at fault; where, only if this is Python's development mode."""
    if sys.flags.dev_mode:
        traceback.print_exception(error, file=screen.err)
        return ERROR
    one = error
    while isinstance(one, BaseExceptionGroup):
        one = one.exceptions[0]
    problem = f"understudy itself has failed: {type(one).__name__}: {one}"
    hint = "please report it; `python -X dev -m supervisor.cli ...` shows where it happened"
    return report(SupervisorError(problem, hint=hint), screen)
