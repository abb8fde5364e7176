"""What an agent wants done that no line on its output can do: orders, as data.

Whoever runs the agent performs them in order, after the output that came before them, and says so
with `ScriptedAgent.done`; the script that gave the order waits for that.
"""

from __future__ import annotations

from typing import Literal, NamedTuple, TypeAlias

Deed: TypeAlias = Literal[
    "exit",  # leave, with `number` as the code
    "fork",  # start `number` children that only sleep; the answer is their pids
    "detach",  # start one in a session of its own, double forked; the answer is its pid
    "ignore_term",  # ignore SIGTERM, and have children inherit that
    "stop",  # SIGSTOP to itself
    "deafen",  # read no more of the input, not even its end
    "close_output",  # close the output, and drop what is written from then on
    "log",  # write `text` to standard error, as it is
]


class Want(NamedTuple):
    """One order."""

    do: Deed
    number: int = 0
    text: str = ""
