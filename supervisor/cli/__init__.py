"""The command line: `understudy`.

Rule 1: what everybody waits for at first, the list of commands, needs no more than a table. Click,
        trio and rich are imported by the command that needs them.
Rule 2: a command says what it wants of a target (a file, or the daemon) by the names of the
        embedding API, and does not know which of the two it has.
Rule 3: text that an agent wrote reaches a terminal only through `terminal.safe`.
"""

from __future__ import annotations

import atexit
import gc
import os
import sys

_HELP = ((), ("--help",), ("-h",), ("help",))
# By this a shell asks click what may come next.
_COMPLETING = "_UNDERSTUDY_COMPLETE"


def main(arguments: list[str] | None = None) -> int:
    """Run a command; gives the code to exit with. It never raises, but for what ends the process.

    0 is ok, 1 an error, 2 wrong usage, 3 not found, 4 refused by a limit, 5 no daemon, 130
    interrupted.
    """
    given = sys.argv[1:] if arguments is None else arguments
    if tuple(given) in _HELP and _COMPLETING not in os.environ:
        from .table import overview  # noqa: PLC0415 - see Rule 1

        return overview(sys.stdout)
    if given[:1] == ["serve"]:
        from supervisor.daemon import HeldSignals  # noqa: PLC0415 - see Rule 1

        with HeldSignals():  # what is imported until the daemon can obey them takes its time
            return _run(given)
    return _run(given)


def _run(given: list[str]) -> int:
    from .ground.early import Importing  # noqa: PLC0415 - see Rule 1

    with Importing():
        from .group import run  # noqa: PLC0415 - see Rule 1

    # What lives at the end goes with the process: to look through all of it takes 50 ms.
    atexit.register(gc.freeze)
    return run(given)
