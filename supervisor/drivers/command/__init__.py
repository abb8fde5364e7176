"""Agents that are a command: one process a turn, a prompt in, text out.

`agent` says what is to be run, `words` puts a turn's prompt and conversation into it, `output` and
`places` read what comes out, `run` is one turn, and `driver` what a session has of all that.
"""
