"""The actions that the contract tests make agents perform."""

from __future__ import annotations

from typing import Literal, TypeAlias

AgentAction: TypeAlias = Literal[
    "greet",  # say "hello"
    "wait",  # do nothing for a very long time
    "fail",  # fail the turn with "no luck"
    "die",  # exit during the turn
    "use a tool",  # a call of "bash" that is over at once, then say "after"
    "stay in a tool",  # a call of "bash" that lasts very long, then say "after"
    "stay in two tools",  # calls of "bash" and "grep" at once, that last very long
    "ask",  # ask for "bash", and say "bash: allowed" or "bash: rejected"
    "be deaf",  # ignore interrupts until the runtime closes, then say "late"
    "flood",  # say 50 times about 100 bytes
    "spend",  # report 40 tokens
    "take steering",  # say each steering text with a "; ", until one is "enough"
]
