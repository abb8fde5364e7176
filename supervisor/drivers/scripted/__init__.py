"""The scripted language as an agent of its own: a process that speaks ACP and does as it is told.

    python -m supervisor.drivers.scripted [FLAGS]

The text of a prompt is its script, one step a line. `steps` has the language, `flags` what it is
told once and for all; docs/reference/scripted.md lists both.

Rule 1: the agent itself does nothing but take lines and the time, and give lines, orders and the
        next time it wants to be woken. Only `__main__` touches descriptors, signals and processes.
Rule 2: nothing but the standard library (and our own errors), for it has to be up at once.
Rule 3: it is a proper agent unless it is told not to be.
"""

from .agent import ScriptedAgent
from .flags import Flags, parse
from .sessions import MemoryShelf
from .wants import Want

__all__ = ["Flags", "MemoryShelf", "ScriptedAgent", "Want", "parse"]
