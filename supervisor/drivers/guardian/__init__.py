"""The program that contains one agent process and kills all of it when the supervisor dies.

`process.fork_server` starts an interpreter that imports this package, alone and by this short name,
and calls `main`. It is imported, not run as a script, so that it is compiled only once. The process
is the fork server, which forks a guardian for each request (see `fork_server`).

Rule 1: one thread, relative imports, and only the modules of the standard library that the
        interpreter loads anyway or quickly: every agent pays for this process.
Rule 2: the guardian is the subreaper of everything that the agent starts. A process that leaves the
        agent's group or session, or outlives its parent, is still a descendant of the guardian. A
        guardian without children has no descendants.
Rule 3: a pid is signalled only while it cannot have been reused: our own children until we have
        waited for them, the agent's group until we have waited for the agent, deeper descendants
        through a handle.
Rule 4: no report may block the guardian, and no wait is unbounded.

The guardian reads commands from its standard input: first the launch (see `read_launch`), then
single letters. When the input ends or the parent dies, it kills everything. It writes reports to
its standard output, one line each:

    guardian PID        the guardian runs and waits for its launch
    agent PID           the agent is forked and waits for the command to go on
    running             its program runs; or: failed ERRNO WHAT, where WHAT is one of fork, cwd,
                        program and interpreter
    exited CODE         the agent has ended; negative: by that signal
    signal NUMBER PID.. a signal was sent to these processes; to a group if the PID is negative
    left PID..          these processes have survived for a while
    gone                no process is left
    broken WHY          the guardian itself has failed and ends
"""

from .fork_server import main

__all__ = ["main"]
