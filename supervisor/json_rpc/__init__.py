"""JSON-RPC 2.0 over lines: messages, one end of a connection, and its bounds.

The driver of ACP agents uses it as a client, `understudy acp` as an agent.

Rule 1: `rpc_messages`, `rpc_peer` and `lines` do no I/O.
Rule 2: nothing here knows a method of the Agent Client Protocol, except `$/cancel_request`.
"""
