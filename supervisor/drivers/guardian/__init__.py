"""Stands between us and one agent, and outlives us just long enough to leave nothing of it.

`process.contained` has an interpreter of its own import this package, alone and by this short name,
and call `main`. Imported, and not run as a script, it is compiled once and not for every agent.

Rule 1: one thread, the standard library, and of that only what the interpreter has loaded anyway or
        loads at once: every agent pays for this process.
Rule 2: it is the subreaper of everything the agent starts, so whoever leaves the agent's group or
        session, or outlives its parent, is still below it. Who has no child has no descendant.
Rule 3: a number is signalled only while it cannot have become somebody else's: our own children
        until we have waited for them, the agent's group until we have waited for the agent, and
        those further down through a handle.
Rule 4: nothing that it says may hold it up, and nobody that it waits for may keep it for ever.

It gets orders on its standard input: the launch first (see `read_launch`), then single letters.
When that input ends, or its parent is dead, everything is killed. What happens it says on its
standard output, one line each:

    agent PID           it is there, and waits to be let go
    running             it runs; or: failed ERRNO WHAT, where WHAT is one of fork, cwd, program
                        and interpreter: it cannot
    exited CODE         how the agent ended; below zero, by which signal
    signal NUMBER PID.. what was sent to whom; to a group if the PID is below zero
    left PID..          who has not died for a while
    gone                nothing is left
    broken WHY          the guardian itself has failed, and is no more
"""

from .program import main

__all__ = ["main"]
