"""Agents that speak the Agent Client Protocol over their standard input and output.

`lines` cuts what an agent writes into lines, `messages` reads and writes one of them, `peer` keeps
track of who owes whom an answer: three that know nothing of trio or processes. `outbox` and
`connection` put them to work. What the messages mean is said by the rest of this folder.
"""
