"""Errors as shown to the user of a command, and exit codes.

Rule 1: the text says what happened, then what to do; a traceback is printed only by
        `python -X dev -m supervisor.cli`, for bugs in understudy.
"""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Sequence
from typing import Final

import click

from supervisor.core.errors import AmbiguousId, SpawnRefused, SupervisorError

from .output import Screen, json_text
from .text_format import Cell

OK: Final = 0
ERROR: Final = 1
USAGE: Final = 2
NOT_FOUND: Final = 3
REFUSED: Final = 4
NO_DAEMON: Final = 5
TIMED_OUT: Final = 124
INTERRUPTED: Final = 130


class FileNotThere(SupervisorError):
    """The file does not exist."""


class SettingNotFound(SupervisorError):
    """The setting does not exist."""


class IdNotFound(SupervisorError):
    """No input, turn or call matches the text."""


class WrongUsage(SupervisorError):
    """The arguments of a command are invalid."""


class Interrupted(SupervisorError):
    """The user pressed Ctrl-C."""


def require_file(path: str, *, hint: str = "check the path") -> None:
    """Raise `FileNotThere` if the path does not exist."""
    if not os.path.exists(path):  # noqa: PTH110 - also for text that cannot be a path
        raise FileNotThere(f"file not found: {path}", hint=hint)


# By error code, so that no error class has to be imported. Others exit with ERROR.
_CODES: Final = {
    "session_not_found": NOT_FOUND,
    "agent_unknown": NOT_FOUND,
    "permission_not_found": NOT_FOUND,
    "record_not_found": NOT_FOUND,
    "file_not_there": NOT_FOUND,
    "setting_not_found": NOT_FOUND,
    "id_not_found": NOT_FOUND,
    "spawn_refused": REFUSED,
    "queue_full": REFUSED,
    "budget_spent": REFUSED,
    "input_too_large": REFUSED,
    "output_too_large": REFUSED,
    "no_daemon": NO_DAEMON,
    "daemon_start_failed": NO_DAEMON,
    "host_unreachable": NO_DAEMON,
    "host_not_found": NOT_FOUND,
    "wrong_usage": USAGE,
    "ambiguous_id": USAGE,
    "invalid_key": USAGE,
    "invalid_query": USAGE,
    "query_limit_exceeded": REFUSED,
    "interrupted": INTERRUPTED,
}


# Hints of the embedding API, and what to do on the command line instead.
COMMAND_HINTS: Final = {
    "unarchive it first": "unarchive it with `understudy archive ID --undo`",
    "use that session, or replace it with new()": "send to that session, or archive it",
    "give a turn_id from history(), or None to fork at the end": (
        "see `understudy log ID --kind turn_ended`, or leave out --at-turn to fork at the end"
    ),
    "give the `next` of a page, or None for the first": (
        "give the `next` of a page, or leave it out for the first"
    ),
    "send it later, or with another when_busy": "send it later, or with another --when-busy",
    "open it again; accepted inputs are stored": (
        "start the daemon again with `understudy serve`; accepted inputs are stored"
    ),
    "name another file, or one that does not exist yet": "name an understudy store",
    "open it again": "start the daemon again with `understudy serve`",
    "it was settled already, or never accepted: list the inputs": (
        "it was settled already, or never accepted; `understudy inputs ID` lists those that wait"
    ),
    "list the rules of the session": "`understudy rules ls ID` lists them",
}


# By hint: errors that say with a general code that an input, a turn or a rule does not exist.
NOT_FOUND_HINTS: Final = frozenset(
    {
        "it was settled already, or never accepted: list the inputs",
        "give a turn_id from history(), or None to fork at the end",
        "the receipt of send() has the id",
        "list the rules of the session",
    }
)


def hint_of(error: SupervisorError) -> str:
    """Return what the user of a command can do about the error."""
    return COMMAND_HINTS.get(error.hint, error.hint)


def exit_code_of(error: SupervisorError) -> int:
    """Return the exit code for the error."""
    return _CODES.get(error.code, NOT_FOUND if error.hint in NOT_FOUND_HINTS else ERROR)


def report(error: SupervisorError, screen: Screen) -> int:
    """Print the error and its hint; return the exit code."""
    problem, hint = str(error.args[0]), hint_of(error)
    if screen.as_json:
        said: dict[str, object] = {"code": error.code, "message": problem, "hint": hint}
        if isinstance(error, SpawnRefused):
            said |= {"limit": error.limit, "used": error.used, "allowed": error.allowed}
        if isinstance(error, AmbiguousId):
            said["candidates"] = error.candidates
        screen.err.write(json_text({"error": said}) + "\n")
        screen.err.flush()
        return exit_code_of(error)
    screen.note(Cell("error: ", "red"), problem.rstrip())
    screen.note(Cell("hint: ", "cyan"), hint)
    return exit_code_of(error)


def report_usage(error: click.ClickException, screen: Screen, arguments: Sequence[str]) -> int:
    """Print what is wrong with the arguments, and where the usage is explained."""
    # click writes each choice of a missing argument on a line of its own.
    problem = error.format_message().replace("\n\t", " ")
    context = error.ctx if isinstance(error, click.UsageError) else None
    if context is not None and context.parent is not None:
        hint = f"see `{context.command_path} --help`"
    elif context is None and arguments and not arguments[0].startswith("-"):
        # The error was raised while the command's arguments were parsed.
        hint = f"see `understudy {arguments[0]} --help`"
    else:
        hint = "see `understudy --help`"
    if isinstance(error, click.NoSuchOption) and error.option_name == "--json":
        problem, hint = "--json is before the command", "write `understudy COMMAND --json`"
    return report(WrongUsage(problem, hint=hint), screen)


def report_interrupt(screen: Screen) -> int:
    """Print that a user or a signal has ended the command."""
    if screen.as_json:
        hint = "the output so far is valid; run it again for the rest"
        return report(Interrupted("interrupted", hint=hint), screen)
    if screen.is_ansi_stderr:
        screen.note()  # a new line after the ^C that the terminal has printed
    screen.note("interrupted")
    return INTERRUPTED


def report_defect(error: BaseException, screen: Screen) -> int:
    """Print that understudy has a bug; with a traceback only in Python's development mode."""
    if sys.flags.dev_mode:
        traceback.print_exception(error, file=screen.err)
        return ERROR
    one = error
    while isinstance(one, BaseExceptionGroup):
        one = one.exceptions[0]
    problem = f"understudy failed: {type(one).__name__}: {one}"
    hint = (
        "this is a bug in understudy, please report it;"
        " `python -X dev -m supervisor.cli ...` shows where it happened"
    )
    return report(SupervisorError(problem, hint=hint), screen)
