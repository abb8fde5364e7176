"""Drivers: the only package that deals with agents and agent processes.

`port` is the contract between a session and a driver. `python` runs agents that are async functions
and `turn` is the handle that such a function receives; `builtin` has the agents `echo` and
`scripted`. `command` runs one process per turn, `acp` an ACP agent per session. `watchdog` watches
the event loop, not a turn: it logs the stack of an agent that blocks the loop.
"""
