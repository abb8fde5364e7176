"""JSON-RPC with an agent, whatever the messages mean.

`messages` reads and writes one line, `peer` keeps track of who owes whom an answer: two that know
nothing of trio or processes. `outbox` is what is to be written, `serving` has the agent's own
requests handled, and `connection` puts all of them to work.
"""
