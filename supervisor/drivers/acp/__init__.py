"""Agents that speak the Agent Client Protocol (ACP) over their standard input and output.

`agent` declares an agent, `driver` runs one process of it for a session. `handshake` starts the
conversation, `acp_session` runs its turns. `client` is the client side of ACP: `updates` records
what the agent reports, `file_access`, `terminals` and `permissions` serve its requests. `content`
reads untrusted data. `rpc_*` is JSON-RPC 2.0.
"""
