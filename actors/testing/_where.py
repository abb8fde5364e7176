"""The place where a task waits, as lines with file and line number.

Rule 1: only public names of trio, and only for a report of a failure: walking stacks is slow.
Rule 2: trio's own lines are left out, unless there are no others.
"""

from __future__ import annotations

import inspect
import traceback
from pathlib import Path

import trio
from trio.lowlevel import Task

TRIO_FOLDER = str(Path(trio.__file__).parent)
ACTORS_FOLDER = str(Path(__file__).parents[1])


def resumes_at(task: Task) -> str:
    """Return the innermost line of the program from which a task goes on; "" if it starts.

    Lines of `actors` and of trio are returned only for a task that has no others.
    """
    if inspect.iscoroutine(task.coro) and inspect.getcoroutinestate(task.coro) == "CORO_CREATED":
        return ""
    frames = _own_frames(task)
    program = [frame for frame in frames if not frame.filename.startswith(ACTORS_FOLDER)]
    return _line(program[-1] if program else frames[-1])


def task_stack(task: Task) -> list[str]:
    """Return the awaits of a blocked task, the outermost first."""
    return [_line(frame) for frame in _own_frames(task)]


def _own_frames(task: Task) -> list[traceback.FrameSummary]:
    frames = traceback.StackSummary.extract(task.iter_await_frames())
    own = [frame for frame in frames if not frame.filename.startswith(TRIO_FOLDER)]
    return own or frames[:1]


def _line(frame: traceback.FrameSummary) -> str:
    return f"{_short(frame.filename)}:{frame.lineno} in {frame.name}: {frame.line}"


def _short(filename: str) -> str:
    path = Path(filename)
    if filename.startswith(TRIO_FOLDER):
        return str(path.relative_to(Path(TRIO_FOLDER).parent))
    return str(path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path)
