"""The place where a task waits, as lines with file and line number.

Rule 1: only public names of trio, and only after a failure: walking stacks is slow.
Rule 2: trio's own lines are left out, unless there are no others.
"""

from __future__ import annotations

import traceback
from pathlib import Path

import trio
from trio.lowlevel import Task

TRIO_FOLDER = str(Path(trio.__file__).parent)


def task_stack(task: Task) -> list[str]:
    """Return the awaits of a blocked task, the outermost first."""
    frames = traceback.StackSummary.extract(task.iter_await_frames())
    own = [frame for frame in frames if not frame.filename.startswith(TRIO_FOLDER)]
    return [
        f"{_short(frame.filename)}:{frame.lineno} in {frame.name}: {frame.line}"
        for frame in own or frames[:1]
    ]


def _short(filename: str) -> str:
    path = Path(filename)
    return str(path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path)
