"""Agents that are a command: one process per turn, the prompt in, text out.

`agent` is what users configure, `template` the command with its options, `placeholders` fills in
the prompt and the conversation id, `output` parses the output, `run` is one turn, and `driver`
implements `port.Driver`.
"""
