"""What a host does for an agent: files, terminals, and asking people.

All of it inside the session's workspace (`ground`) and under its rights. `permissions` takes the
agent's own questions, `asking` makes those that files and terminals need, `questions` puts each to
the session and carries the answer back; `grants` remembers what was allowed, so that nobody is
asked twice about one thing. `files` are opened by `opening`, so that no link leads elsewhere.
"""
