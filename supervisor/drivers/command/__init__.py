"""Agents that are a command: one process per turn, which reads the prompt and prints text.

`agent` has the agent that users configure and its driver, `template` the command with its
placeholders for the prompt and the conversation id, `output` parses the output, and `run` is one
turn.
"""
