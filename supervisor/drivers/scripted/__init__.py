"""The scripted agent as a process that speaks ACP.

    python -m supervisor.drivers.scripted [FLAGS]

The text of a prompt is its script, one step per line. `steps` defines the steps, `flags` the
command line; docs/reference/scripted.md lists both.

Rule 1: `ScriptedAgent` does no I/O: lines and the time go in; lines, actions and the next deadline
        come out. Only `__main__` uses descriptors, signals and processes.
Rule 2: it imports only the standard library, our errors, to start quickly.
Rule 3: it follows the protocol unless a step or a flag makes it misbehave.
"""

from .conversations import MemoryConversations
from .engine import ScriptedAgent
from .flags import Flags, parse
from .wire import ProcessAction

__all__ = ["Flags", "MemoryConversations", "ProcessAction", "ScriptedAgent", "parse"]
