"""Agents that speak the Agent Client Protocol over their standard input and output.

`agent` is what a user writes down, and `life.driver` what takes orders for one at work. `rpc` is
the tongue, `life` the beginning and the end, `turns` the conversation in between; `news` is what
the agent says of its work, `services` what it has us do, and `host` holds those two together.
`reading` looks at whatever an agent sends.
"""
