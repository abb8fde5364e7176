"""Tools for agents and assistants over the Model Context Protocol.

`protocol` speaks the protocol, `toolbox` has the tools, `tools/` has one module a group of tools.
"""
