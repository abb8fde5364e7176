"""Instructions of a turn, counted by callgrind: they do not depend on the load of the machine.

- instructions: 100 sessions at once, one prompt after the other in each, by an agent that answers
  with one word, in a file and in memory, against version 0.1.0. A count is the difference between
  a program with more turns and one with fewer, divided by the number of turns; so start and end of
  the program do not count. The counts of 0.1.0 are constants, because that version cannot be
  installed beside this one. They hold for the Python with which they were taken.

`python -m tests.bench.instructions WHERE TURNS` is the program that is counted.
"""

import functools
import gc
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Literal

import trio

import supervisor
from tests.bench._row import Row, at_most

Where = Literal["file", "memory"]
SESSIONS = 100
FEW_TURNS, MORE_TURNS = 1, 6
OLD_PYTHON = (3, 11)
# Of version 0.1.0, taken with Python 3.11.7, trio 0.35 and the packages of that time.
OLD_INSTRUCTIONS: dict[Where, float] = {"file": 1_802_000.0, "memory": 1_521_000.0}


@supervisor.agent("answerer")
async def answerer(turn: supervisor.Turn) -> str:
    return "done"


async def take_turns(where: Where, turns: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "state.db" if where == "file" else ":memory:"
        async with supervisor.open(path, agents=[answerer]) as sup:
            sessions = [await sup.create("answerer") for _ in range(SESSIONS)]

            async def prompt(session: supervisor.Session) -> None:
                for _ in range(turns):
                    await session.prompt("go")

            gc.disable()  # when it collects depends on everything else
            async with trio.open_nursery() as nursery:
                for session in sessions:
                    nursery.start_soon(prompt, session)


def instructions_of_program(where: Where, turns: int) -> int:
    counted = [sys.executable, "-m", "tests.bench.instructions", where, str(turns)]
    valgrind = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null"]
    done = subprocess.run(
        [*valgrind, *counted],
        env={**os.environ, "PYTHONHASHSEED": "0"},
        capture_output=True,
        text=True,
        check=True,
    )
    found = re.search(r"Collected : (\d+)", done.stderr)
    assert found is not None, done.stderr
    return int(found[1])


@functools.cache  # the same in each pair, and it takes a minute
def instructions_of_turn(where: Where) -> float:
    instructions_of_program(where, 0)  # writes the compiled modules
    few, more = (instructions_of_program(where, turns) for turns in (FEW_TURNS, MORE_TURNS))
    return (more - few) / (SESSIONS * (MORE_TURNS - FEW_TURNS))


def unless_comparable() -> str | None:
    if shutil.which("valgrind") is None:
        return "valgrind is not installed"
    if sys.version_info[:2] != OLD_PYTHON:
        return "the figures of 0.1.0 were taken with Python 3.11"
    return None


def row(where: Where) -> Row:
    return Row(
        name=f"instructions of a turn, 100 sessions, {where}",
        against="version 0.1.0",
        ours=lambda: instructions_of_turn(where),
        peer=lambda: OLD_INSTRUCTIONS[where],
        unit="",
        reach=at_most(0.55) if where == "file" else None,
        obstacle=unless_comparable,
    )


ROWS = (row("file"), row("memory"))

if __name__ == "__main__":
    trio.run(take_turns, "file" if sys.argv[1] == "file" else "memory", int(sys.argv[2]))
