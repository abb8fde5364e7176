"""Drivers: the only package that deals with agents and agent processes.

`port` is the contract between a session and a driver. `python` runs agents that are async functions
and `turn` is what such a function receives; `builtin` has the agents `echo` and `scripted`.
`command` runs one process per turn, `acp` an ACP agent per session. `watchdog` logs the stack of an
agent that never yields to the event loop.
"""
