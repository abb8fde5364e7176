"""The only room that knows agents.

`port` says what a driver is to a session and what a session is to a driver. `python` runs agents
that are async functions, `turn` is what such a function gets; `scripted` and `echo` are two of
them that are always there. `watchdog` notices one that never lets go of the loop.
"""
