"""What went wrong, as whoever typed the command should hear it, and the code to exit with.

Rule 1: what happened, then what to do next; never a traceback. `python -X dev -m supervisor.cli`
        shows one, for who looks for a defect of ours.
"""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Sequence
from typing import Final

import click

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


class FileNotThere(SupervisorError):
    """There is no file of that name."""


class SettingNotFound(SupervisorError):
    """No setting has that name."""


class WrongUsage(SupervisorError):
    """A command was not called as it wants to be."""


class Interrupted(SupervisorError):
    """Somebody wanted to leave."""


def refuse_unless_file(path: str) -> None:
    """Raise `FileNotThere` if nothing of that name can be read here; a folder is something."""
    if not os.path.exists(path):  # noqa: PTH110 - whatever was typed, also what no path can be
        raise FileNotThere(f"there is no file {path}", hint="check the path")


# By the errors' codes, so that nothing has to be imported to know them. Others exit with ERROR.
_CODES: Final = {
    "session_not_found": NOT_FOUND,
    "agent_unknown": NOT_FOUND,
    "permission_not_found": NOT_FOUND,
    "record_not_found": NOT_FOUND,
    "file_not_there": NOT_FOUND,
    "setting_not_found": NOT_FOUND,
    "spawn_refused": REFUSED,
    "queue_full": REFUSED,
    "budget_spent": REFUSED,
    "input_too_large": REFUSED,
    "output_too_large": REFUSED,
    "no_daemon": NO_DAEMON,
    "wrong_usage": USAGE,
    "interrupted": INTERRUPTED,
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


def report_usage(error: click.ClickException, screen: Screen, arguments: Sequence[str]) -> int:
    """Say what is wrong with the words of a command, and who knows better."""
    problem = error.format_message()
    context = error.ctx if isinstance(error, click.UsageError) else None
    if context is not None and context.parent is not None:
        hint = f"`{context.command_path} --help` says how it is used"
    elif context is None and arguments and not arguments[0].startswith("-"):
        # Found wrong while the words of a command were told apart.
        hint = f"`understudy {arguments[0]} --help` says how it is used"
    else:
        hint = "`understudy --help` lists all commands"
    if isinstance(error, click.NoSuchOption) and error.option_name == "--json":
        problem, hint = "--json stands before the command", "write `understudy COMMAND --json`"
    return report(WrongUsage(problem, hint=hint), screen)


def report_interrupt(screen: Screen) -> int:
    """Say that a person, or a signal, has ended the command."""
    if screen.as_json:
        hint = "what was printed is so; call it again for the rest"
        return report(Interrupted("interrupted", hint=hint), screen)
    if screen.is_lively_beside:
        screen.note()  # behind the ^C that the terminal has put there
    screen.note("interrupted")
    return INTERRUPTED


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
