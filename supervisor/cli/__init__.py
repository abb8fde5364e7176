"""The command line: `understudy`.

Rule 1: the list of commands is printed from a table of plain data, so that it appears at once.
        Click, trio and rich are imported by the commands that need them.
Rule 2: a command calls its target (a file or the daemon) by the names of the embedding API, and
        does not depend on which of the two it is.
Rule 3: text of an agent is printed on a terminal only after `safe` has escaped it.
"""

from __future__ import annotations

import atexit
import gc
import os
import sys

_HELP = ((), ("--help",), ("-h",), ("help",))
# The shell sets this variable to ask click for completions.
_COMPLETION_VARIABLE = "_UNDERSTUDY_COMPLETE"


def main(arguments: list[str] | None = None) -> int:
    """Run a command, print its error if it fails, and return its exit code.

    0 ok, 1 error, 2 wrong usage, 3 not found, 4 refused by a limit, 5 no daemon, 130 interrupted.
    """
    given = sys.argv[1:] if arguments is None else arguments
    if tuple(given) in _HELP and _COMPLETION_VARIABLE not in os.environ:
        from .command_table import print_overview  # noqa: PLC0415 - see Rule 1

        return print_overview(sys.stdout)
    if given[:1] == ["serve"]:
        from supervisor.daemon import EarlySignals  # noqa: PLC0415 - see Rule 1

        with EarlySignals():  # the imports take a while, and a signal may arrive meanwhile
            return _run(given)
    return _run(given)


def _run(given: list[str]) -> int:
    from .early_interrupt import ExitOnInterrupt  # noqa: PLC0415 - see Rule 1

    with ExitOnInterrupt():
        from .group import run  # noqa: PLC0415 - see Rule 1

    # Objects alive at exit are freed with the process: collecting them would take 50 ms.
    atexit.register(gc.freeze)
    return run(given)
