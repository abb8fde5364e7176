"""The conversation with an agent that is up.

`talk` is one turn after the other. `prompts` and `context` are what it is sent, `guidance` is what
reaches it in the middle of a turn, and `silence` the end of a turn whose end nobody says.
"""
