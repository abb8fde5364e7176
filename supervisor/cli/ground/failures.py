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
from supervisor.core.errors import SpawnRefused, SupervisorError

OK: Final = 0
ERROR: Final = 1
USAGE: Final = 2
NOT_FOUND: Final = 3
REFUSED: Final = 4
NO_DAEMON: Final = 5
INTERRUPTED: Final = 130


class StoreNotFound(SupervisorError):
    """There is no file of that name."""


# By the errors' codes, so that nothing has to be imported to know them. Others exit with ERROR.
_CODES: Final = {
    "session_not_found": NOT_FOUND,
    "agent_unknown": NOT_FOUND,
    "permission_not_found": NOT_FOUND,
    "record_not_found": NOT_FOUND,
    "store_not_found": NOT_FOUND,
    "spawn_refused": REFUSED,
    "queue_full": REFUSED,
    "budget_spent": REFUSED,
    "input_too_large": REFUSED,
    "output_too_large": REFUSED,
    "no_daemon": NO_DAEMON,
}


def exit_code_of(error: SupervisorError) -> int:
    """The code that says what kind of failure it is."""
    return _CODES.get(error.code, ERROR)


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
