"""The command line: how long a person waits for the list of commands.

Both are whole processes, from the start to the exit: `understudy --help` as it was installed beside
the interpreter that runs this, and that interpreter with nothing to do. One sample is the median of
several, for a process that starts meets whatever else the machine does.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from pathlib import Path

from tests.bench._row import Row, at_most

STARTS = 15
COMMAND = Path(sys.executable).with_name("understudy")


def seconds_of(*command: str) -> float:
    def once() -> float:
        begun = time.perf_counter()
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        return time.perf_counter() - begun

    once()
    return statistics.median(once() for _ in range(STARTS))


def unless_the_command_is_installed() -> str | None:
    return None if COMMAND.exists() else "the command understudy is not installed here"


ROWS = (
    Row(
        name="understudy --help",
        against="python -c pass",
        ours=lambda: seconds_of(str(COMMAND), "--help"),
        peer=lambda: seconds_of(sys.executable, "-c", "pass"),
        unit="s",
        reach=at_most(8),
        obstacle=unless_the_command_is_installed,
    ),
)
