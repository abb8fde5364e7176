"""Tools for agents and assistants over the Model Context Protocol.

A message goes through `endpoint` (HTTP), `protocol` (decoding), `routing` (its revision and its
headers) and `server` (the answer), and comes back through `replies`. What the tools do is behind
the `Toolbox` in `tool`; `tools/` has one module a group of tools.
"""
