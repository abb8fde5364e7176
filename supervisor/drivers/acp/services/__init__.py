"""What a host does for an agent: files, terminals, and asking people.

All of it inside the session's workspace (`ground`) and under its rights. `permissions` puts a
question to whoever decides and carries the answer back; `grants` remembers what was allowed, so
that nobody is asked twice about one thing.
"""
